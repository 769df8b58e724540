"""What the faults in force do to frames: lose, double, hold back, replay, cut links.

A link that is cut for good has a way round, as the transport makes one: some time after the cut its
frames go through a third site, the first by name to which both links are up in both directions.
They take two hops, and stay in their order. If there is no such site they are lost; if that site
fails, another is found after the same time.

`fates` is asked for every frame while faults are on and answers with its arrival times: none when
it is lost, several when it is doubled. `calm` ends everything but cuts for good.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND, NEVER
from ordercast.sim.chance import Chance, threshold
from ordercast.sim.faults import CUTS, PROBABILITIES, Faults
from ordercast.sim.injections import Injection

_DOUBLED = 5 * MILLISECOND  # a doubled frame's copy comes within this
_REPLAYED = (50 * MILLISECOND, 2_000 * MILLISECOND)
_HELD_BACK = 20 * MILLISECOND


class _Piece(NamedTuple):
    limit: int  # a frame is hit if a number drawn below 2^32 is less than this
    start: int
    stop: int
    sites: frozenset[Site]  # the links from or to these sites; empty: all links


class Conditions:
    def __init__(
        self,
        faults: Faults,
        seed: int,
        purpose: str = "fate",
        *,
        sites: Sequence[Site] = (),
        notice: int = 0,
    ) -> None:
        """`notice`: from the cut of a link until its frames take another way."""
        self._sites = tuple(sorted(sites))
        self._notice = notice
        self._severed: dict[tuple[Site, Site], int] = {}  # links that are cut for good: since when
        # Of the two ends of a severed link: the third site, and when frames begin to go through it.
        self._ways: dict[tuple[Site, Site], tuple[Site, int]] = {}
        self._last: dict[tuple[Site, Site], int] = {}  # when the last frame arrives that way
        self.is_up: Callable[[Site], bool] = lambda _site: True
        self.injected: dict[str, int] = {}
        self._bits: dict[str, Callable[[int], int]] = {
            kind: Chance(seed, f"{purpose} {kind}").bits
            for kind in (*PROBABILITIES, "clog", "slow")
        }
        self._pieces: dict[str, list[_Piece]] = {
            kind: [
                _Piece(
                    threshold(fault.probability),
                    fault.start,
                    NEVER if fault.stop is None else fault.stop,
                    frozenset(fault.sites),
                )
                for fault in faults
                if fault.kind == kind
            ]
            for kind in PROBABILITIES
        }
        self._cuts: dict[tuple[Site, Site], int] = {}  # how many partitions cut the link
        self._clogged: dict[tuple[Site, Site], int] = {}  # until when the link is clogged
        self.slow: dict[Site, int] = {}

    def count(self, kind: str) -> None:
        self.injected[kind] = self.injected.get(kind, 0) + 1

    def fates(self, now: int, source: Site, peer: Site, at: int) -> list[int]:
        if self._cuts and self._cuts.get((source, peer)):
            self.count("blocked")
            return []
        if self._severed and (source, peer) in self._severed:
            round_about = self._round_about(now, source, peer, at)
            if round_about is None:
                self.count("blocked")
                return []
            at = round_about
        if self._hits("loss", now, source, peer):
            return []
        if self.slow:
            at += self._slowed(source) + self._slowed(peer)
        if self._clogged:
            release = self._clogged.get((source, peer), 0)
            if release > now:
                at = max(at, release + ((self._bits["clog"](32) * MILLISECOND) >> 32))
        if self._hits("reorder", now, source, peer):
            at += (self._bits["reorder"](32) * _HELD_BACK) >> 32
        times = [at]
        if self._hits("duplicate", now, source, peer):
            times.append(at + ((self._bits["duplicate"](32) * _DOUBLED) >> 32))
        if self._hits("replay", now, source, peer):
            least, most = _REPLAYED
            times.append(at + least + ((self._bits["replay"](32) * (most - least)) >> 32))
        return times

    def _round_about(self, now: int, source: Site, peer: Site, at: int) -> int | None:
        """When a frame arrives that must not take its own link."""
        link, ends = (source, peer), (min(source, peer), max(source, peer))
        third, begins = self._ways.get(ends, ("", self._severed[link]))
        if not third or not self._joins(third, source, peer):
            found = self.third(source, peer)
            if found is None:
                self._ways[ends] = ("", now)
                return None
            # Both ends notice the cut; that the third site has failed, when they need it.
            self._ways[ends] = third, begins = found, (now if third else begins) + self._notice
        if now < begins:
            return None
        self._last[link] = max(self._last.get(link, 0), now + 2 * (at - now))
        return self._last[link]

    def third(self, a: Site, b: Site) -> Site | None:
        """A site that both hear, and that hears both."""
        return next((site for site in self._sites if self._joins(site, a, b)), None)

    def _joins(self, third: Site, a: Site, b: Site) -> bool:
        if third in (a, b) or not self.is_up(third):
            return False
        links = ((a, third), (third, a), (third, b), (b, third))
        return not any(link in self._severed or self._cuts.get(link) for link in links)

    def joined(self, a: Site, b: Site) -> bool:
        """Whether the two hear each other, once frames have found their way."""
        direct = (a, b) not in self._severed and (b, a) not in self._severed
        return direct or self.third(a, b) is not None

    def detoured(self, site: Site) -> tuple[Site, ...]:
        """The peers that this site reaches through a third one only."""
        if not self._severed:
            return ()
        return tuple(
            peer
            for peer in self._sites
            if ((site, peer) in self._severed or (peer, site) in self._severed)
            and self.third(site, peer) is not None
        )

    @property
    def last(self) -> bool:
        """Whether something is left that does not end."""
        return bool(self._severed)

    def _hits(self, kind: str, now: int, source: Site, peer: Site) -> bool:
        for piece in self._pieces[kind]:
            if not piece.start <= now < piece.stop:
                continue
            if piece.sites and source not in piece.sites and peer not in piece.sites:
                continue
            if self._bits[kind](32) < piece.limit:
                self.count(kind)
                return True
        return False

    def _slowed(self, site: Site) -> int:
        most = self.slow.get(site, 0)
        return (self._bits["slow"](32) * most) >> 32 if most else 0

    def inject(self, injection: Injection) -> None:
        """Begin or end a fault of links or of speed."""
        kind, sites, others = injection.kind, injection.sites, injection.others
        if kind in ("partition", "oneway"):
            self._cut(sites, others, 1, both=kind == "partition")
        elif kind in ("heal", "heal_oneway"):
            self._cut(sites, others, -1, both=kind == "heal")
        elif kind in CUTS:
            a, b = sites[0], others[0]
            for link in ((a, b), (b, a)) if kind == "cut" else ((a, b),):
                self._severed.setdefault(link, injection.at)
        elif kind == "clog":
            link = (sites[0], others[0])
            self._clogged[link] = max(injection.until, self._clogged.get(link, 0))
        elif kind == "slow":
            self.slow[sites[0]] = injection.amount
        elif kind == "swift":
            self.slow.pop(sites[0], None)
        if kind in ("partition", "oneway", "clog", "slow", *CUTS):
            self.count(kind)

    def _cut(
        self, sites: tuple[Site, ...], others: tuple[Site, ...], change: int, *, both: bool
    ) -> None:
        for a in sites:
            for b in others:
                for link in ((a, b), (b, a)) if both else ((a, b),):
                    self._cuts[link] = self._cuts.get(link, 0) + change

    def calm(self) -> None:
        """End all faults but cuts for good. Frames that were delayed before still come late."""
        for pieces in self._pieces.values():
            pieces.clear()
        self._cuts.clear()
        self._clogged.clear()
        self.slow.clear()
