"""The manager's judgement of silence: which sites are gone, and which two do not hear each other.

A site is gone if the manager has not heard it and a majority of the voters, by their reports, finds
it silent too. Two sites are apart if one of them finds the other silent and neither is gone. A link
that fails in one direction is noticed at both its ends. So a site that has long said alone that
another is silent is believed no more, and is itself the one to go (the argument is in
docs/epochs.md).
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.raft import Raft
from ordercast.model.groups import Pair, Site, pair
from ordercast.model.options import Options

_LASTING = 6  # times the timeout of a silent site: by then a way through a third site is found


class _Member(Protocol):
    """The member that leads."""

    name: Site
    options: Options
    layout: Layout
    detoured: tuple[Site, ...]


class SilenceJudgement:
    """State: the peers that each site finds silent, and the peers that it reaches through others;
    since when pairs are apart, and when both sites of a pair last said so; the sites that the
    manager itself does not hear."""

    def __init__(self, member: _Member, raft: Raft) -> None:
        self._member = member
        self._raft = raft
        self.reset()

    def reset(self) -> None:
        self._says: dict[Site, tuple[Site, ...]] = {}  # without sites that find nobody silent
        # Without sites that reach all others directly.
        self._detoured: dict[Site, tuple[Site, ...]] = {}
        self._since: dict[Pair, int] = {}
        self._both: dict[Pair, int] = {}
        self._alone: dict[Pair, Site] = {}  # pairs of which for long only this site has said so
        self._doubted: tuple[Site, ...] = ()
        self.unheard: tuple[Site, ...] = ()  # sites that the manager has not heard for too long
        self.gone: tuple[Site, ...] = ()

    def fed(self, peer: Site, silent: tuple[Site, ...], detoured: tuple[Site, ...]) -> None:
        for said, sites in ((self._says, silent), (self._detoured, detoured)):
            if known := tuple(dict.fromkeys(s for s in sites if s in self._member.layout.roster)):
                said[peer] = known
            else:
                said.pop(peer, None)

    def look(self, now: int, unheard: Iterable[Site]) -> None:
        """`unheard`: the sites that the manager has not heard for longer than `suspect`."""
        self.unheard = tuple(unheard)
        if not self.unheard and not self._says:
            self.gone, self._since, self._both, self._alone = (), {}, {}, {}
            return
        self.gone = tuple(site for site in self.unheard if self._is_gone(site))
        found = self._accusers()
        self._since = {two: self._since.get(two, now) for two in sorted(found)}
        self._both = {
            two: now if len(said) == 2 else self._both.get(two, self._since[two])
            for two, said in found.items()
        }
        self._alone = {
            two: said[0]
            for two, said in found.items()
            if len(said) == 1 and now - self._both[two] > self._longest()
        }

    def _is_gone(self, site: Site) -> bool:
        stores = [voter for voter, store in self._raft.log.stores().items() if store]
        return 2 * sum(self._finds_silent(voter, site) for voter in stores) > len(stores)

    def _finds_silent(self, voter: Site, site: Site) -> bool:
        if voter == self._member.name:
            return True
        return voter not in self.unheard and site in self._says.get(voter, ())

    def _accusers(self) -> dict[Pair, list[Site]]:
        """For each pair that is apart, the sites that say so: one of the two, or both."""
        name, roster = self._member.name, self._member.layout.roster
        found: dict[Pair, list[Site]] = {}
        for site in self.unheard:
            if site not in self.gone:
                found[pair(name, site)] = [name, site]  # what the site says does not arrive
        for site, silent in self._says.items():
            for other in silent:
                heard = all(one in roster and one not in self.unheard for one in (site, other))
                if heard and site != other:
                    found.setdefault(pair(site, other), []).append(site)
        return found

    def _longest(self) -> int:
        return _LASTING * self._member.options.timing.suspect

    # --- what follows -----------------------------------------------------------------------------

    def named(self) -> list[Pair]:
        """All pairs of sites that are apart by the word of one of them, for people to look at."""
        return list(self._since)

    def pairs(self) -> list[Pair]:
        """The pairs of sites that are taken to be apart."""
        return [two for two in self._since if two not in self._alone]

    def lasting(self, now: int) -> list[tuple[Pair, Sequence[Site]]]:
        """The pairs that have been apart too long for a third site to join them, each with the
        sites of which one is to go."""
        return [
            (two, (self._alone[two],) if two in self._alone else two)
            for two, since in self._since.items()
            if now - since > self._longest()
        ]

    def detoured(self) -> set[Pair]:
        """The pairs of sites that reach each other only through a third one."""
        here = {self._member.name: self._member.detoured, **self._detoured}
        return {pair(site, other) for site, others in here.items() for other in others}

    def partners(self, site: Site) -> list[Site]:
        """The sites that this one is apart from. Its own word always counts."""
        return [
            b if a == site else a
            for a, b in self._since
            if site in (a, b) and self._alone.get((a, b), site) == site
        ]

    def doubt(self, doubted: Iterable[Site]) -> None:
        """The manager has not heard these sites for a while: the voters are to knock at them."""
        self._doubted = tuple(doubted)

    def doubted(self, site: Site) -> tuple[Site, ...]:
        """The sites that this site must knock at."""
        if not (self._doubted or self._since):
            return ()
        layout = self._member.layout
        found = {b if a == site else a: None for a, b in self._since if site in (a, b)}
        if site in self._raft.log.voters:
            found |= {one: None for one in self._doubted if one not in layout.absent}
        return tuple(one for one in found if one not in (site, self._member.name))
