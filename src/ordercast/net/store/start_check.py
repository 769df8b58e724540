"""Whether a site could start on a store, from the first things that a start reads of it.

It changes nothing and makes no file: it is for looking at a site that does not run.
"""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from ordercast.model.groups import Site
from ordercast.net.store.file import (
    connect_as_it_is,
    connect_to_read,
    read_state,
    require_same,
    store_error,
)
from ordercast.net.store.formats import require_ours
from ordercast.net.store.wal import require_whole


def require_startable(path: Path, cluster: str, site: Site) -> dict[str, Any]:
    """What the store says of the cluster that it was run in; nothing if it never was. Raises
    ConfigError or StoreCorrupt as a start would: the store is of another site or cluster, of a
    format that this program does not know, or damaged. An empty file is yet to become a store."""
    log = path.with_name(f"{path.name}-wal")
    try:
        require_whole(path)
        logged = log.exists() and log.stat().st_size > 0
        with closing(connect_to_read(path) if logged else connect_as_it_is(path)) as db:
            if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                return {}
            require_ours(db, path)
            state = read_state(db, path)
            begun = any(
                db.execute(f"SELECT EXISTS (SELECT 1 FROM {table})").fetchone()[0]
                for table in ("batches", "checkpoint")
            )
    except (sqlite3.Error, OSError) as error:
        raise store_error(path, error) from None
    require_same(state, path, cluster, site)
    found: dict[str, Any] = json.loads(str(state.get("described", "{}")))
    return found if begun else {}
