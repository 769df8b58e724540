"""The directory of a cluster on this machine, and files in it that only its user may change.

Stores, sockets, process files, logs and the cluster's secret lie there. Another user who could
write them could read messages, speak as a site, or have the wrong process stopped. So the directory
must belong to the user who runs the command, and files are never reached through links.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from ordercast.model.errors import ConfigError, reason
from ordercast.whole_files import OURS

_NO_LINK: Final = getattr(os, "O_NOFOLLOW", 0)
AROUND: Final = ".ordercast"  # beside a cluster file, with a directory for each cluster
MOST_BYTES: Final = 4_096  # all that is read: such files are small


def make_directory(directory: Path) -> None:
    """Closed to other users if it is new; ConfigError if it is another user's."""
    try:
        if directory.parent.name == AROUND:
            directory.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        why = reason(error)
        raise ConfigError(f"{directory}: cannot be made ({why})") from None
    require_own(directory)


def require_own(directory: Path) -> None:
    """ConfigError unless the directory is ours, and ours alone to write. One that is not there is
    nobody's. So must be the `.ordercast` around it: its owner could put another in its place."""
    if directory.parent.name == AROUND:
        _require_own(directory.parent)
    _require_own(directory)


def _require_own(directory: Path) -> None:
    try:
        found, itself = directory.stat(), directory.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        why = reason(error)
        raise ConfigError(f"{directory}: cannot be looked at ({why})") from None
    if not stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{directory}: is not a directory")
    us = _us()
    if us is None:
        return
    others = [owner for owner in (found.st_uid, itself.st_uid) if owner != us]
    if others:
        raise ConfigError(
            f"{directory}: belongs to {user_name(others[0])}, and this process runs as"
            f" {user_name(us)}: run it as the owner (sudo -u), or choose another --dir"
        )
    for bit, who, how in ((stat.S_IWOTH, "every user", "o-w"), (stat.S_IWGRP, "its group", "g-w")):
        if found.st_mode & bit:
            raise ConfigError(f"{directory}: {who} may write there (chmod {how})")


def read_own(path: Path) -> bytes:
    """The first bytes of a file of ours. Raises as `open_own`."""
    with open_own(path) as file:
        return file.read(MOST_BYTES)


def open_own(path: Path) -> BinaryIO:
    """A file of ours to read, which is no link. FileNotFoundError if there is none, ConfigError if
    it is anything else."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | _NO_LINK)
    except FileNotFoundError:
        raise
    except OSError as error:
        why = "is a link" if path.is_symlink() else reason(error)
        raise ConfigError(f"{path}: cannot be read ({why})") from None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"{path}: is no file")
        if _us() not in (None, found.st_uid):
            raise ConfigError(f"{path}: belongs to {user_name(found.st_uid)}")
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def is_private(path: Path) -> bool:
    """Whether other users cannot read the file."""
    return _us() is None or not path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def append_own(path: Path) -> int:
    """A log of ours to append to, made if need be. OSError if a link is there."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | _NO_LINK
    return os.open(path, flags, OURS)


def user_name(number: int) -> str:
    """A user as the system calls it."""
    try:
        import pwd

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"user {number}"


def _us() -> int | None:
    """Our user; None where the system has no such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None
