"""The file of a snapshot: whole or not there, whenever the process or the machine stops.

ordercast snapshot 1
{"cluster": …, "site": …, "group": …, "position": …, "bytes": …, "sha256": …}
the state, as the application gave it
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ordercast.model.errors import ConfigError, StoreCorrupt
from ordercast.model.groups import Group, Site
from ordercast.whole_files import drafted

_FIRST_LINE = b"ordercast snapshot 1\n"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`state`: after all messages of the group up to the site's `position`."""

    cluster: str
    site: Site
    group: Group
    position: int
    state: bytes


@dataclass(frozen=True, slots=True)
class Hooks:
    """How an application gives and takes its state, and where that is kept, if it is."""

    snapshot: Callable[[], bytes]
    restore: Callable[[bytes], None]
    path: Path | None


def hooks_of(
    snapshot: Callable[[], bytes] | None,
    restore: Callable[[bytes], None] | None,
    path: str | Path | None,
) -> Hooks | None:
    if snapshot is None and restore is None and path is None:
        return None
    if snapshot is None or restore is None:
        raise ConfigError("snapshot and restore: give both, or none (and no path then)")
    return Hooks(snapshot, restore, Path(path) if path is not None else None)


def write_snapshot(path: Path, snapshot: Snapshot) -> None:
    """Durable when this returns."""
    fields = _fields(snapshot)
    header = json.dumps({**fields, "sha256": _digest(fields, snapshot.state)}).encode() + b"\n"
    beside = path.with_name(f"{path.name}.new")
    with drafted(path, draft=beside, durable=True), beside.open("wb") as file:
        file.write(_FIRST_LINE + header)
        file.write(snapshot.state)


def read_snapshot(path: Path, cluster: str, site: Site, group: Group) -> Snapshot | None:
    """The last snapshot that was written whole. None: there is none yet."""
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no directory {path.parent} for the snapshot")
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    if not text.startswith(_FIRST_LINE):
        raise StoreCorrupt(f"{path}: is not a snapshot of a replica; remove it if it is not needed")
    header, _, state = text[len(_FIRST_LINE) :].partition(b"\n")
    found = _parsed(header, state)
    if found is None:
        raise StoreCorrupt(f"{path}: the snapshot is damaged; restore the file from a copy")
    for name, wanted in (("cluster", cluster), ("site", site), ("group", group)):
        if getattr(found, name) != wanted:
            raise ConfigError(
                f"{path}: the snapshot is of {name} {getattr(found, name)!r}, not {wanted!r}"
            )
    return found


def _fields(snapshot: Snapshot) -> dict[str, Any]:
    names = ("cluster", "site", "group", "position")
    return {**{name: getattr(snapshot, name) for name in names}, "bytes": len(snapshot.state)}


def _digest(fields: dict[str, Any], state: bytes) -> str:
    digest = hashlib.sha256(json.dumps(fields).encode())
    digest.update(state)
    return digest.hexdigest()


def _parsed(header: bytes, state: bytes) -> Snapshot | None:
    """None unless it is exactly what was written."""
    try:
        told = json.loads(header)
        found = Snapshot(told["cluster"], told["site"], told["group"], told["position"], state)
    except (ValueError, TypeError, KeyError):
        return None
    fields = _fields(found)
    return found if told == {**fields, "sha256": _digest(fields, state)} else None
