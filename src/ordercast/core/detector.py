"""Who has not been heard for too long: null messages and timeouts (docs/epochs.md).

A suspicion is something to report; nobody acts on it alone. How long is too long follows what was
measured: the usual time between two signs of life of a peer and how much that varies, as TCP does
it for its retransmissions, times a margin, and never less than a few of the intervals at which
signs of life are sent. A pause of the own process looks like everybody's silence: if `tick` comes
late, its lateness is added to everybody's time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND


@dataclass(frozen=True, slots=True)
class DetectorTimes:
    interval: int = 50 * MILLISECOND  # between null messages, when there is nothing else to say
    least: int = 4  # intervals of silence that are never too long
    margin: int = 6  # how many deviations beyond the mean are


@dataclass(slots=True)
class _Peer:
    heard_at: int
    mean: int
    deviation: int
    spared: int = 0  # of the silence since then: this process did not run


class Detector:
    """State: per peer, when it was heard and how regularly; when `tick` is due."""

    def __init__(self, now: int, times: DetectorTimes | None = None) -> None:
        self.times = times or DetectorTimes()
        self._peers: dict[Site, _Peer] = {}
        self._said_at: dict[Site, int] = {}
        self.alarm_at = now + self.times.interval

    def watch(self, now: int, peers: Iterable[Site]) -> None:
        """These, and no others; one that is new has just been heard."""
        known = self._peers
        first = self.times.interval
        self._peers = {
            peer: known.get(peer) or _Peer(now, first, first // 2) for peer in sorted(set(peers))
        }
        self._said_at = {peer: self._said_at.get(peer, now) for peer in self._peers}

    def heard(self, now: int, peer: Site) -> None:
        """Anything from the peer is a sign of life."""
        known = self._peers.get(peer)
        if known is None:
            return
        gap = max(0, now - known.heard_at - known.spared)
        if gap >= self.times.interval // 2:  # a burst says nothing about silences
            error = gap - known.mean
            known.mean += error // 8
            known.deviation += (abs(error) - known.deviation) // 4
        known.heard_at, known.spared = now, 0

    def said(self, now: int, peer: Site) -> None:
        """Something was sent to the peer: no null message is needed for a while."""
        if peer in self._said_at:
            self._said_at[peer] = now

    def tick(self, now: int) -> list[Site]:
        """To be called at `alarm_at`; the peers that are due a null message."""
        late = now - self.alarm_at
        if late > self.times.interval:
            for known in self._peers.values():
                known.spared += late
        self.alarm_at = now + self.times.interval
        due = [p for p, at in self._said_at.items() if now - at >= self.times.interval]
        for peer in due:
            self._said_at[peer] = now
        return due

    def patience(self, peer: Site) -> int:
        """How long this peer may be silent."""
        known, times = self._peers[peer], self.times
        return max(times.least * times.interval, known.mean + times.margin * known.deviation)

    def suspects(self, now: int, at_least: int = 0) -> list[Site]:
        """Silent for longer than is usual for them, and than `at_least`."""
        late = max(0, now - self.alarm_at - self.times.interval)  # a pause that `tick` has not seen
        return [
            peer
            for peer, known in self._peers.items()
            if now - known.heard_at - known.spared - late > max(at_least, self.patience(peer))
        ]
