"""The places where a cluster's stores may lie on this machine, so that none is begun by mistake.

A site without a store founds a cluster, or returns without its past. Nobody wants that because a
command was given another directory. So before a store is begun, the other known places are looked
at: the directories that the cluster file stands for, those that were used with the file before
(`places`, a file beside it), and the working directory, which was the default once. Where one of
them has a store of the site, the new one is refused. So it is if the site's address is taken.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import (
    AROUND,
    MOST_BYTES,
    make_directory,
    read_own,
)
from ordercast.net.cluster.sockets import why_taken
from ordercast.net.store.file import connect_to_read
from ordercast.net.store.rows import RESTORED
from ordercast.whole_files import OURS, write_file

NOTES: Final = "places"


def require_place(
    cluster: Cluster, sites: Iterable[Site], directory: Path, *, new: bool = False
) -> None:
    """ConfigError if one of the sites would begin a store here although it has one elsewhere. With
    `new`: if one of them has a store here."""
    if cluster.durability == "memory":
        return
    for site in sites:
        here = directory / f"{site}.db"
        if new:
            if has_past(here):
                raise ConfigError(f"{here}: is a store with a past: --new is for a place without")
            continue
        there = store_elsewhere(cluster, site, directory)
        if there is not None and not has_past(here):
            raise ConfigError(
                f"{directory}: has no founded store of site {site!r} of cluster {cluster.name!r},"
                f" but {there.parent} has: {cures(there.parent)}; --new begins without it"
            )


def require_free(cluster: Cluster, sites: Iterable[Site], directory: Path) -> None:
    """ConfigError if one of the sites would begin a store here, and cannot listen: most likely it
    runs already, from another directory. Nothing is made then."""
    for site in sites:
        config = cluster.sites.get(site)
        if config is None or (directory / f"{site}.db").exists():
            continue
        for host, port in filter(None, (config.address, config.clients, config.metrics)):
            if wrong := why_taken((host, port)):
                raise ConfigError(
                    f"{directory}: has no store of site {site!r} of cluster {cluster.name!r}, and"
                    f" the site cannot listen on {host}:{port} ({wrong}): does it run from another"
                    " directory? Nothing was started"
                )


def elsewhere_told(cluster: Cluster, directory: Path) -> str:
    """For a message about a directory without stores: where there are some; else nothing."""
    for site in sorted(cluster.sites):
        there = store_elsewhere(cluster, site, directory)
        if there is not None:
            return f"; {there.parent} has stores of it: {cures(there.parent)}"
    return ""


def cures(there: Path) -> str:
    """What to do about stores that lie there."""
    return f"say --dir {there}, write it as 'dir' under [cluster], or move the files"


def store_elsewhere(cluster: Cluster, site: Site, directory: Path) -> Path | None:
    """A store of the site with a past, in another known place than this directory."""
    for place in known_places(cluster):
        store = place / f"{site}.db"
        if not _same(place, directory) and has_past(store):
            return store
    return None


def known_places(cluster: Cluster) -> list[Path]:
    """Without repetition, those of the file first."""
    found = [place for place in (cluster.dir, cluster.beside) if place is not None]
    found += [*_noted(cluster), Path(AROUND) / cluster.name]
    return list({os.path.realpath(place): place for place in reversed(found)}.values())[::-1]


def note_place(cluster: Cluster, directory: Path) -> None:
    """Remember beside the cluster file that stores are here, unless the file says so itself. Where
    nothing can be written there, nothing is remembered."""
    notes = _notes(cluster)
    if notes is None or any(
        _same(place, directory) for place in (cluster.dir, cluster.beside) if place is not None
    ):
        return
    lines = [str(place) for place in _noted(cluster)]
    new = os.path.realpath(directory)
    if new in lines or "\n" in new:
        return
    lines = [*lines, new]
    while sum(len(os.fsencode(line)) + 1 for line in lines) > MOST_BYTES:
        lines.pop(0)
    with contextlib.suppress(OSError, ConfigError):
        make_directory(notes.parent)
        write_file(notes, os.fsencode("".join(f"{line}\n" for line in lines)), mode=OURS)


def has_past(store: Path) -> bool:
    """Whether the file is a store in which anything was recorded, or that was restored. A site that
    was started, and met nobody with whom it could found a cluster, has none. What cannot be read
    counts as a past."""
    if not store.exists():
        return False
    try:
        with contextlib.closing(connect_to_read(store)) as db:
            return any(
                db.execute(f"SELECT EXISTS (SELECT 1 FROM {rows})").fetchone()[0]
                for rows in ("batches", "checkpoint", f"state WHERE key = '{RESTORED}'")
            )
    except (sqlite3.Error, OSError):
        return True


def _notes(cluster: Cluster) -> Path | None:
    return None if cluster.beside is None else cluster.beside / NOTES


def _noted(cluster: Cluster) -> list[Path]:
    notes = _notes(cluster)
    if notes is None:
        return []
    try:
        return [Path(os.fsdecode(line)) for line in read_own(notes).splitlines() if line]
    except (FileNotFoundError, NotADirectoryError, ConfigError):
        return []


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
