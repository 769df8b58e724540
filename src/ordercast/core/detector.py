"""Which peers have been silent for too long: null messages and timeouts (docs/epochs.md).

A suspicion is only reported; nobody acts on it alone. The limit of silence is measured, as TCP
measures its timeouts: the mean time between two signs of life of a peer, plus a few deviations from
it, and never less than a few of the intervals at which signs of life are sent. When this process
pauses, everybody seems to be silent: if `tick` comes late, everybody gets the lost time.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND


@dataclass(frozen=True, slots=True)
class DetectorTimes:
    interval: int = 50 * MILLISECOND  # between null messages, when there is nothing else to say
    least: int = 4  # intervals of silence that are never too long
    margin: int = 6  # deviations above the mean that are not too long


@dataclass(slots=True)
class _Peer:
    heard_at: int
    mean: int
    deviation: int
    spared: int = 0  # the part of the silence in which this process did not run


class Detector:
    """State: per peer, when it was heard and how regularly; when `tick` is due. No peer was heard
    before `_all_heard`: while that is not long ago, nobody need be looked at."""

    def __init__(self, now: int, times: DetectorTimes | None = None) -> None:
        self.times = times or DetectorTimes()
        self._peers: dict[Site, _Peer] = {}
        self._said_at: dict[Site, int] = {}
        self._all_heard = now
        self.alarm_at = now + self.times.interval

    def watch(self, now: int, peers: Iterable[Site]) -> None:
        """Watch these peers and no others. A new one counts as heard now."""
        known = self._peers
        first = self.times.interval
        self._peers = {
            peer: known.get(peer) or _Peer(now, first, first // 2) for peer in sorted(set(peers))
        }
        self._said_at = {peer: self._said_at.get(peer, now) for peer in self._peers}

    def silent(self, now: int, peer: Site, time: int) -> None:
        """The peer, which is watched, has been silent for this time before it was watched."""
        if peer in self._peers:
            self._peers[peer].heard_at = now - time
            self._all_heard = min(self._all_heard, now - time)

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

    def tick(self, now: int) -> list[Site]:
        """Call this at `alarm_at`. Returns the peers that are due a null message."""
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
        """The peers that have been silent for longer than their patience, and for longer than
        `at_least`."""
        if now - self._all_heard <= max(at_least, self.times.least * self.times.interval):
            return []
        self._all_heard = min((peer.heard_at for peer in self._peers.values()), default=now)
        silent = self.silences(now)
        return [p for p, since in silent.items() if since > max(at_least, self.patience(p))]

    def silences(self, now: int) -> dict[Site, int]:
        """How long each peer has been silent."""
        late = max(0, now - self.alarm_at - self.times.interval)  # a pause that `tick` has not seen
        return {
            peer: now - known.heard_at - known.spared - late for peer, known in self._peers.items()
        }
