"""The trigger of [STAB] §6 at work: how many rounds it takes, and how often senders have to stop.

Every member sends K messages at a constant rate and holds them until it knows that they are stable,
g at most; with a full buffer it stops. A round begins when the first member holds X, in the paper;
with `anyone_asks`, when any member does or has waited too long.
"""

from dataclasses import dataclass
from functools import partial
from statistics import fmean

from ordercast.core.stability.trigger import Trigger
from ordercast.model.options import SECOND
from ordercast.sim.rounds.tracking import Setting
from ordercast.studies.stab.traffic import MOST_SECONDS, DataLoad, DataTraffic, Sender


@dataclass(frozen=True, slots=True)
class Buffers:
    """`buffer` is g, `messages` is K, `limit` is X (None: every member's own, as measured).
    `silent`: the first member sends nothing. `patience`: of the oldest message, in nanoseconds."""

    buffer: int
    messages: int
    limit: int | None = None
    anyone_asks: bool = False
    patience: int = MOST_SECONDS * SECOND
    silent: bool = False


@dataclass(frozen=True, slots=True)
class Triggered:
    """`rounds` counts those begun while data was sent. `stops`: how often a sender found its buffer
    full. `stopped_ns`: how long all senders together waited for room, until `end_ns`. `first_…` is
    of the first member alone; so are α, f and Q, as means over its rounds."""

    rounds: int
    stops: int
    first_stops: int
    stopped_ns: int
    first_stopped_ns: int
    stable: int
    time_to_stable_ms: float
    round_ms: float
    alpha: float
    meanwhile: float
    end_ns: int


def measure_trigger(setting: Setting, data: DataLoad, buffers: Buffers, seed: int) -> Triggered:
    return _Triggering(setting, data, buffers, seed).run()


class _Triggering:
    """Members send at a constant rate as long as there is room in their buffers."""

    def __init__(self, setting: Setting, data: DataLoad, buffers: Buffers, seed: int) -> None:
        self.buffers = buffers
        self.traffic = DataTraffic(setting, data, seed, self._told)
        self.traffic.asked = self._asked
        self.network = self.traffic.network
        self.first = self.traffic.first
        self.triggers = [
            Trigger(buffers.buffer, buffers.patience, buffers.limit) for _ in self.traffic.members
        ]
        self.under_way = False
        self.asking: dict[int, None] = {}
        self.waiting_for: dict[
            int, int
        ] = {}  # by member yet to hear: what was stable when it began
        self.stopped: dict[int, int] = {}  # since when
        self.stopped_for = [0] * len(self.triggers)
        self.stops = self.first_stops = self.rounds = 0
        self.begun_at = self.held_then = self.sent_then = 0
        self.measured: list[tuple[int, float, int]] = []  # the first member's f, α and Q

    def run(self) -> Triggered:
        for member in self.traffic.members:
            if member is not self.first or not self.buffers.silent:
                at = self.traffic.stream.below(self.traffic.data.gap)
                self.network.call(at, partial(self._send, member))
        self.network.run(until=MOST_SECONDS * SECOND)
        known = self.traffic.known
        end = max(self.network.now, self.buffers.messages * self.traffic.data.gap)
        for node, since in self.stopped.items():
            self.stopped_for[node] += end - since
        rounds, shares, meanwhile = (
            zip(*self.measured, strict=True) if self.measured else ((0,),) * 3
        )
        return Triggered(
            rounds=self.rounds,
            stops=self.stops,
            first_stops=self.first_stops,
            stopped_ns=sum(self.stopped_for),
            first_stopped_ns=self.stopped_for[self.first.node],
            stable=len(known),
            time_to_stable_ms=fmean(known) / 1e6 if known else 0.0,
            round_ms=fmean(rounds) / 1e6,
            alpha=fmean(shares),
            meanwhile=fmean(meanwhile),
            end_ns=end,
        )

    def _send(self, member: Sender) -> None:
        if member.sent == self.buffers.messages:
            return
        now = self.network.now
        if len(member.held) >= self.buffers.buffer:
            self.stops += 1
            self.first_stops += member is self.first
            self.stopped[member.node] = now
            return  # it goes on when some of them are stable
        member.send_data()
        self.network.call(now + self.traffic.data.gap, partial(self._send, member))
        if len(member.held) == 1:
            self._be_patient(member)
        self._look(member)

    def _be_patient(self, member: Sender) -> None:
        if member.held and self.buffers.anyone_asks:
            due = member.held[0] + self.buffers.patience
            self.network.call(max(due, self.network.now + 1), partial(self._look, member))

    def _look(self, member: Sender) -> None:
        """Begin a round if one is due: in the paper, by the first member's buffer alone."""
        if self.under_way or member.node in self.asking or not member.held:
            return
        if member is self.first or self.buffers.anyone_asks:
            trigger = self.triggers[member.node]
            if trigger.due(len(member.held), member.held[0], self.network.now):
                self.asking[member.node] = None
                self._begun(member)  # this member counts the time of the round from now on
                self.traffic.ask(member)

    def _begun(self, member: Sender) -> None:
        if member.held:
            trigger, oldest, newest = self.triggers[member.node], member.held[0], member.held[-1]
            trigger.begun(len(member.held), oldest, newest, self.network.now)

    def _asked(self) -> None:
        if self.under_way:
            return
        self.under_way = True
        now = self.network.now
        for member in self.traffic.members:
            self.waiting_for[member.node] = member.released
            if member.node not in self.asking:
                self._begun(member)
        self.begun_at, self.held_then, self.sent_then = now, len(self.first.held), self.first.sent
        if any(member.sent < self.buffers.messages for member in self.traffic.members):
            self.rounds += 1
        self.traffic.begin()

    def _told(self, member: Sender) -> None:
        now = self.network.now
        self.asking.pop(member.node, None)
        before = self.waiting_for.pop(member.node, None)
        if before is not None:
            self.triggers[member.node].ended(member.released - before, now)
        if member.node in self.stopped and len(member.held) < self.buffers.buffer:
            self.stopped_for[member.node] += now - self.stopped.pop(member.node)
            self.network.call(now, partial(self._send, member))
        if member is self.first:
            if self.held_then and before is not None:
                share = (member.released - before) / self.held_then
                self.measured.append((now - self.begun_at, share, member.sent - self.sent_then))
            self.under_way = False
        # [STAB] §6: when X or more are left, the next round begins at once.
        self.network.call(now, partial(self._look, member))
        self._be_patient(member)
