"""What subjects may do at this site: its own application, and the clients of its daemon.

The table is the one in the layout and changes with it. While the log has none, it is the table of
the cluster file. Refusals are counted for operators.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from typing import Final, Protocol

from ordercast.core.epochs.layout import Layout
from ordercast.model.errors import Error, NotGranted
from ordercast.model.grants import (
    EVERY,
    OBSERVE,
    READ,
    SEND,
    SITE,
    TRUSTED,
    ClientSubject,
    Grants,
    missing,
)
from ordercast.model.groups import Group, Site
from ordercast.net.link.tls import REVOKED

_log = logging.getLogger("ordercast.net.site")

LOOKS: Final = 10  # in a row, after which a site that waits for a grant is refused
MOST_COUNTED: Final = 1_000  # pairs of subject and act that are counted by themselves
OTHERS: Final = "others"  # the subject of all further ones
MOST_KNOWN: Final = 10_000  # answers that are remembered
CONNECT: Final = "connect"  # counted as an act: a client that may do nothing


class _Core(Protocol):
    """The member, of which the layout counts."""

    layout: Layout


class Permits:
    """State: the counts of refusals, and the table's answers as long as the table is the same."""

    def __init__(self, site: Site, core: "_Core", of_file: Grants) -> None:
        self.own = ClientSubject(SITE, site)
        self.refused: Counter[tuple[str, str]] = Counter()  # by subject and act
        self._core = core
        self._of_file = of_file
        self._known_of = of_file
        # Sites whose messages to a group are not taken, and at how many looks in a row.
        self._waiting: dict[tuple[Site, Group], int] = {}
        self._known: dict[tuple[ClientSubject, str, Group], bool] = {}

    @property
    def grants(self) -> Grants:
        """The table that counts now."""
        found = self._core.layout.grants
        return found if found.lines is not None else self._of_file

    def allows(self, subject: ClientSubject, act: str, group: Group) -> bool:
        grants = self._core.layout.grants
        if grants.lines is None:
            grants = self._of_file
        if grants.lines is None:
            return subject.kind in TRUSTED
        if grants is not self._known_of or len(self._known) > MOST_KNOWN:
            self._known_of, self._known = grants, {}
        asked = (subject, act, group)
        if asked not in self._known:
            self._known[asked] = grants.allows(subject, act, group)
        return self._known[asked]

    def require(self, subject: ClientSubject, act: str, group: Group) -> None:
        """Raise NotGranted, which names the missing grant, and count it."""
        if not self.allows(subject, act, group):
            self.count(subject, act)
            self.grants.require(subject, act, group)

    def require_some(self, subject: ClientSubject, acts: tuple[str, ...]) -> None:
        """Raise NotGranted unless the subject may do one of these with some group."""
        if not self.grants.allows_some(subject, acts):
            self.require(subject, acts[0], EVERY)

    def admit_client(self, subject: ClientSubject, certificate: str = "") -> None:
        """Raise NotGranted unless the subject may do anything at all, and its certificate, if it
        has shown one, is good; Error if that is not known yet."""
        layout = self._core.layout
        if certificate in layout.revoked:
            self.count(subject, CONNECT)
            raise NotGranted(f"{subject}: {REVOKED}")
        if subject.kind == SITE and subject.name not in layout.roster:
            self.count(subject, CONNECT)
            if layout.count < 0:
                raise Error(f"{subject}: this site has not heard yet who is of the cluster")
            raise NotGranted(f"{subject}: the site is not, or no longer, of this cluster")
        if not self.grants.allows_some(subject):
            self.count(subject, CONNECT)
            raise NotGranted(
                f"{subject} has no grant ('ordercast grant add CLUSTER {subject} VERB:GROUP')"
            )

    def admit_reader(self, subject: ClientSubject, groups: Iterable[Group] | None) -> None:
        """Raise NotGranted unless the subject may read all groups of a named reader (None: all):
        its follower confirms for everybody."""
        for group in (EVERY,) if groups is None else sorted(groups):
            self.require(subject, READ, group)

    def may_read(self, subject: ClientSubject, observe: bool, group: Group) -> bool:
        """Whether messages of the group are for this reader. A subject that may read may also
        observe."""
        return self.allows(subject, READ, group) or (
            observe and self.allows(subject, OBSERVE, group)
        )

    def count(self, subject: ClientSubject, act: str) -> None:
        """Count a refusal."""
        key = (str(subject), act)
        if key not in self.refused and len(self.refused) >= MOST_COUNTED:
            key = (OTHERS, act)
        self.refused[key] += 1

    def look(self, waiting: Iterable[tuple[Site, Group]]) -> None:
        """Messages of these sites to these groups are not taken here. A site that is found so again
        and again is not just ahead of this one's records: it is refused."""
        found = {pair: self._waiting.get(pair, 0) + 1 for pair in waiting}
        for (site, group), looks in found.items():
            if looks == LOOKS:
                subject = ClientSubject(SITE, site)
                self.count(subject, SEND)
                _log.warning("not taken: %s", missing(subject, SEND, group))
        self._waiting = found

    def told(self) -> list[dict[str, object]]:
        """The refusals, for a status."""
        return [
            {"subject": subject, "act": act, "count": count}
            for (subject, act), count in sorted(self.refused.items())
        ]
