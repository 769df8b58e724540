"""Files that are whole or as they were before, whenever the process is killed.

A file is written under another name beside its place, the draft, and then gets its name in one
step. With `durable` this also holds after a power cut: the content is forced to disk before the
name changes, and the folder afterwards.
"""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OURS = 0o600
"""The mode of a file that its owner alone reads and writes."""
_OPEN = 0o666  # less what the umask of the process takes away
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def drafted(
    path: Path,
    *,
    draft: Path | None = None,
    mode: int = _OPEN,
    new: bool = False,
    durable: bool = False,
) -> Iterator[Path]:
    """An empty file to fill, which becomes `path` when the block ends well, and is removed when it
    does not. OSError, as the steps raise it.

    `draft`: its name, where only one process writes at a time: a draft that a kill has left is
    written over. By default no other draft has the name. `new`: FileExistsError if anything has the
    name `path` when the block ends.
    """
    draft = draft or _draft_of(path)
    draft.unlink(missing_ok=True)
    try:
        os.close(os.open(draft, _NEW, mode))
        yield draft
        if durable:
            sync(draft)
        if new:
            os.link(draft, path)  # unlike a renaming, this replaces nothing
            draft.unlink()
        else:
            draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    if durable:
        sync(path.parent)


def write_file(
    path: Path,
    data: bytes,
    *,
    draft: Path | None = None,
    mode: int = _OPEN,
    new: bool = False,
    durable: bool = False,
) -> None:
    """Write a file in one step. The options are those of `drafted`."""
    with drafted(path, draft=draft, mode=mode, new=new, durable=durable) as beside:
        beside.write_bytes(data)


def sync(path: Path) -> None:
    """The content of a file, or the names in a folder, are on disk when this returns."""
    if sys.platform == "win32" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _draft_of(path: Path) -> Path:
    """Hidden: readers of a folder pass over it."""
    hidden = path.name if path.name.startswith(".") else f".{path.name}"
    return path.with_name(f"{hidden}.{secrets.token_hex(8)}.tmp")
