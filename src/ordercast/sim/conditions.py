"""What the faults in force do to frames: lose, double, hold back, replay, cut links.

`fates` is asked for every frame while faults are on and answers with its arrival times: none when
it is lost, several when it is doubled. `calm` ends everything.
"""

from collections.abc import Callable
from typing import NamedTuple

from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND, NEVER
from ordercast.sim.chance import Chance, threshold
from ordercast.sim.faults import PROBABILITIES, Faults
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
    def __init__(self, faults: Faults, seed: int, purpose: str = "fate") -> None:
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
            self.count("cut")
            return []
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
        elif kind == "clog":
            link = (sites[0], others[0])
            self._clogged[link] = max(injection.until, self._clogged.get(link, 0))
        elif kind == "slow":
            self.slow[sites[0]] = injection.amount
        elif kind == "swift":
            self.slow.pop(sites[0], None)
        if kind in ("partition", "oneway", "clog", "slow"):
            self.count(kind)

    def _cut(
        self, sites: tuple[Site, ...], others: tuple[Site, ...], change: int, *, both: bool
    ) -> None:
        for a in sites:
            for b in others:
                for link in ((a, b), (b, a)) if both else ((a, b),):
                    self._cuts[link] = self._cuts.get(link, 0) + change

    def calm(self) -> None:
        """End all faults. Frames that were delayed before still come late."""
        for pieces in self._pieces.values():
            pieces.clear()
        self._cuts.clear()
        self._clogged.clear()
        self.slow.clear()
