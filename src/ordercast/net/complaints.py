"""What is wrong with a peer or a stranger, said once.

A cause is a short fixed phrase, so that there are few of them; the detail is what the first
occurrence looked like. The same cause of the same peer is counted, and not logged again until the
peer has had a good connection. Strangers are known by their host; after so many of them that
somebody must be making them up, further ones are only counted.
"""

import logging
from collections import Counter
from collections.abc import Iterable

STRANGERS = 1_024  # (host, cause) pairs that are logged


class Refused(Exception):
    """A connection that is not wanted, or no more."""

    def __init__(self, cause: str, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause


class Complaints:
    def __init__(self, log: logging.Logger, known: Iterable[str]) -> None:
        self._log = log
        self._known = frozenset(known)
        self._said_of_sites: set[tuple[str, str]] = set()
        self._said_of_strangers: set[tuple[str, str]] = set()
        self.counts: Counter[str] = Counter()  # by cause, logged or not

    def say(self, who: str, refused: Refused) -> bool:
        """Log it, unless it has been said; whether it was logged."""
        self.counts[refused.cause] += 1
        said = self._said_of_sites if who in self._known else self._said_of_strangers
        if (who, refused.cause) in said:
            return False
        if said is self._said_of_strangers and len(said) >= STRANGERS:
            if self.counts["(not logged)"] == 0:
                self._log.warning("refusals from many hosts: further ones are only counted")
            self.counts["(not logged)"] += 1
            return False
        said.add((who, refused.cause))
        self._log.warning("%s: %s", who, refused)
        return True

    def forget(self, site: str) -> None:
        """The site is well: what happens from now on is news."""
        self._said_of_sites = {key for key in self._said_of_sites if key[0] != site}
