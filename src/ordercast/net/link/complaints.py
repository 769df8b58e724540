"""What is wrong with a peer or a stranger, said once.

A cause is a short fixed phrase, so that there are few of them; the detail is what the first
occurrence looked like. The same cause of the same peer is counted, and not logged again until the
peer has had a connection that lasted. Strangers are known by their host; after so many of them that
somebody must be making them up, further ones are only counted.
"""

import logging
from collections import Counter
from collections.abc import Container

CONNECTED, LOST = "connected", "lost"
STRANGERS = 1_024  # (host, cause) pairs that are logged


class LinkTrouble(Exception):
    """A connection that is not wanted, or no more; `usual`: nothing is wrong yet."""

    def __init__(self, cause: str, detail: str = "", *, usual: bool = False) -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        self.level = logging.INFO if usual else logging.WARNING


class Complaints:
    def __init__(self, log: logging.Logger, known: Container[str]) -> None:
        self._log = log
        self._known = known  # sites, which come and go
        self._said_of_sites: set[tuple[str, str]] = set()
        self._said_of_strangers: set[tuple[str, str]] = set()
        self._crowded = False
        self.counts: Counter[str] = Counter()  # by cause, logged or not

    def say(self, who: str, refused: LinkTrouble) -> None:
        """Log it, unless it has been said."""
        self.counts[refused.cause] += 1
        if who in self._known:
            if (who, refused.cause) not in self._said_of_sites:
                self._said_of_sites.add((who, refused.cause))
                self._log.log(refused.level, "%s: %s", who, refused)
        elif (who, refused.cause) not in self._said_of_strangers:
            if len(self._said_of_strangers) < STRANGERS:
                self._said_of_strangers.add((who, refused.cause))
                self._log.log(refused.level, "%s: %s", who, refused)
            elif not self._crowded:
                self._crowded = True
                self._log.warning("refusals of many hosts: further hosts are only counted")

    def note(self, site: str, what: str, detail: str) -> None:
        """What is not wrong, but tiresome when it happens ten times a second."""
        if (site, what) not in self._said_of_sites:
            self._said_of_sites.add((site, what))
            self._log.info("%s: %s (%s)", site, what, detail)

    def forget(self, site: str) -> None:
        """The site has been connected for a while: what happens from now on is news."""
        if self.part(site) - {CONNECTED}:
            self._log.info("%s: connected, and well again", site)

    def part(self, site: str) -> set[str]:
        """The site is none any more, or has a new start: which causes were said of it."""
        said = {cause for who, cause in self._said_of_sites if who == site}
        self._said_of_sites -= {(site, cause) for cause in said}
        return said
