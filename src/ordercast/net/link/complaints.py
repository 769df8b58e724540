"""Troubles with peers and strangers: each is logged once.

A cause is one of a few fixed phrases; the detail describes the first occurrence. The same cause of
the same peer is counted, and not logged again until the peer has had a connection that lasted.
Strangers are known by their host. A stranger can make hosts up: after `STRANGERS` pairs of host and
cause, further hosts are only counted.
"""

import logging
from collections import Counter
from collections.abc import Container

CONNECTED, LOST = "connected", "lost"
THROUGH, DIRECT = "through another site", "direct again"
STRANGERS = 1_024  # (host, cause) pairs that are logged


class LinkTrouble(Exception):
    """Why a connection is not made, or not kept. `usual`: this happens also when nothing is
    wrong."""

    def __init__(self, cause: str, detail: str = "", *, usual: bool = False) -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        self.level = logging.INFO if usual else logging.WARNING


class Complaints:
    def __init__(self, log: logging.Logger, known: Container[str]) -> None:
        self._log = log
        self._known = known  # the names of the sites, which come and go
        self._said_of_sites: set[tuple[str, str]] = set()
        self._said_of_strangers: set[tuple[str, str]] = set()
        self._crowded = False
        self.counts: Counter[str] = Counter()  # how often each cause occurred, logged or not

    def say(self, who: str, trouble: LinkTrouble) -> None:
        """Log a trouble, unless it was said before."""
        self.counts[trouble.cause] += 1
        if who in self._known:
            if (who, trouble.cause) not in self._said_of_sites:
                self._said_of_sites.add((who, trouble.cause))
                self._log.log(trouble.level, "%s: %s", who, trouble)
        elif (who, trouble.cause) not in self._said_of_strangers:
            if len(self._said_of_strangers) < STRANGERS:
                self._said_of_strangers.add((who, trouble.cause))
                self._log.log(trouble.level, "%s: %s", who, trouble)
            elif not self._crowded:
                self._crowded = True
                self._log.warning("refusals of many hosts: further hosts are only counted")

    def note(self, site: str, what: str, detail: str) -> None:
        """Log something that is no trouble. It is logged once, because it may happen ten times a
        second."""
        if (site, what) not in self._said_of_sites:
            self._said_of_sites.add((site, what))
            self._log.info("%s: %s (%s)", site, what, detail)

    def forget(self, site: str) -> None:
        """The site has been connected for a while: log its next troubles again."""
        if self.part(site) - {CONNECTED}:
            self._log.info("%s: connected, and well again", site)

    def part(self, site: str) -> set[str]:
        """Forget what was logged of a site that has left or started again. Returns the causes."""
        said = {cause for who, cause in self._said_of_sites if who == site}
        self._said_of_sites -= {(site, cause) for cause in said}
        return said
