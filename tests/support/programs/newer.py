"""The command `ordercast` of a release that is not there yet: `python newer.py node …`.

It speaks one version more of the wire format and of the admin socket, has a feature more, and a
store of its own format. So an upgrade from any release to it goes through everything that differs.
"""

import sqlite3
import sys

from ordercast.cli import main
from ordercast.model.features import FEATURES
from ordercast.net.admin.frames import ADMIN_CODECS
from ordercast.net.store.formats import STEPS, newest_format
from ordercast.wire.codec import CODECS
from support.network.versions import pretended, pretended_admin

FEATURE = "pretended"


def step(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE pretended(x INTEGER PRIMARY KEY)")


def become_newer() -> None:
    CODECS[max(CODECS) + 1] = pretended(max(CODECS) + 1)
    ADMIN_CODECS[max(ADMIN_CODECS) + 1] = pretended_admin()
    FEATURES[FEATURE] = "nothing: it is only agreed on"
    STEPS[newest_format()] = step


if __name__ == "__main__":
    become_newer()
    sys.exit(main(sys.argv[1:]))
