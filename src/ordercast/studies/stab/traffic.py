"""Rounds of a stability protocol while members multicast data ([STAB] §6, §7).

Every member sends data to all, which processors and links carry beside the rounds' own messages. A
copy is lost on its way with some probability and comes `repair` later instead; what its sender sent
after it does not count before. After each step that matters the truth is known: messages that are
called stable are compared with the messages that every member has.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from ordercast.core.stability.protocols import part_named
from ordercast.core.stability.rounds import RoundDue
from ordercast.model.options import SECOND
from ordercast.sim.chance import Chance, threshold
from ordercast.sim.rounds.tracking import (
    RoundMember,
    Setting,
    Unfinished,
    Unsafe,
    distances,
    paths_of,
)
from ordercast.sim.rounds.tree_network import DATA, EVERYONE, START, Packet, TreeNetwork
from ordercast.sim.rounds.vectors import Received, Vectors, numpy

if TYPE_CHECKING:
    from ordercast.sim.rounds.vectors import Vector

MOST_SECONDS = 3_600  # of virtual time: a run that takes longer does not get anywhere
_WARM_UP = 3  # rounds before those that are measured
_REST = 20_000_000  # ns on average between two rounds of `measure_load`


@dataclass(frozen=True, slots=True)
class DataLoad:
    """The members' multicasts: their bytes, and how many each member sends per second; lost copies
    come later."""

    rate: float
    size: int = 1_000
    loss: float = 0.0
    repair: int = 100_000_000

    @property
    def gap(self) -> int:
        return round(SECOND / self.rate)


class DataMessage(NamedTuple):
    """A data message: the number that its sender gave it."""

    number: int


class Sender(RoundMember):
    """A member that sends and receives data, and keeps its own until it is stable."""

    __slots__ = ("_early", "held", "released", "sent", "traffic")

    def __init__(self, node: int, traffic: "DataTraffic") -> None:
        count = traffic.network.tree.count
        vector = traffic.nothing
        super().__init__(node, traffic.network, Received(vector), traffic.arrays.size(vector))
        self.traffic = traffic
        self.sent = 0
        self.released = 0  # own messages that it knows to be stable
        self.held: deque[int] = (
            deque()
        )  # send times of own messages that are not known to be stable
        self._early: list[dict[int, None]] = [{} for _ in range(count)]  # after a lost one

    def send_data(self) -> None:
        self.sent += 1
        self.held.append(self.network.now)
        packet = Packet(self.node, EVERYONE, DATA, DataMessage(self.sent), 0)
        self.network.send(packet, self.traffic.data.size)

    def takes(self, sender: int, number: int) -> None:
        """Take a data message; it counts once all messages before it are here."""
        early = self._early[sender]
        expected = self.own.get(sender) + 1
        if number != expected:
            early[number] = None
            return
        while expected + 1 in early:
            expected += 1
            del early[expected]
        self.own.set(sender, expected)

    def stable(self, array: "Vector") -> None:
        self.finished = self.network.now
        if not self.traffic.all_have(array):
            raise Unsafe(f"member {self.node} is told that more is stable than every member has")
        for _ in range(int(array[self.node]) - self.released):
            self.traffic.known.append(self.network.now - self.held.popleft())
            self.released += 1
        self.traffic.told(self)


class DataTraffic:
    """All members, on their network. `told` is called when a member hears what is stable."""

    def __init__(
        self, setting: Setting, data: DataLoad, seed: int, told: Callable[[Sender], None]
    ) -> None:
        setting.check()
        self.setting = setting
        self.data = data
        self.told = told
        self.arrays = Vectors()
        self.known: list[int] = []  # how long it took until senders knew that messages were stable
        tree = setting.shape.build(seed)
        self.nothing: Vector = numpy().zeros(tree.count, dtype="uint32")
        self._had = self.nothing  # by all members, when that was last looked at
        self.paths = paths_of(tree, setting.placement, seed)
        self.network = TreeNetwork(tree, self._hear, distances(tree, setting.links))
        self.members = [Sender(node, self) for node in range(tree.count)]
        make = part_named(setting.protocol)
        self.parts = [make(each.node, self.paths, self.arrays, each) for each in self.members]
        self.first = self.members[self.paths.first]
        self.stream = Chance(seed, "traffic")
        self._lost = Chance(seed, "loss").bits
        self._threshold = threshold(data.loss)
        self.asked = self.begin

    def begin(self) -> None:
        self.first.joined = None if self.starts else self.network.now
        self.parts[self.first.node].begin()

    @property
    def starts(self) -> bool:
        """Whether the protocol has a START: then a member takes part when it has received it."""
        return self.setting.protocol not in ("full_dist", "train")

    def ask(self, member: Sender) -> None:
        """A member wants a round: the first one is told by a message without a body."""
        if member is self.first:
            self.asked()
        else:
            self.network.send(Packet(member.node, self.first.node, START, RoundDue(), 0), 0)

    def all_have(self, array: "Vector") -> bool:
        """Whether every member has all of it. What all had before they have still."""
        if (array > self._had).any():
            self._had = self.arrays.least([each.own.seen() for each in self.members]).copy()
        return not (array > self._had).any()

    def _hear(self, node: int, packet: Packet) -> None:
        member = self.members[node]
        if isinstance(packet.message, RoundDue):
            self.asked()
            return
        if packet.kind != DATA:
            member.hears(packet)
            self.parts[node].receive(packet.source, packet.message)
            return
        number = packet.message.number
        if self._threshold and node != packet.source and self._lost(32) < self._threshold:
            later = self.network.now + self.data.repair
            self.network.call(later, lambda: member.takes(packet.source, number))
        else:
            member.takes(packet.source, number)


@dataclass(frozen=True, slots=True)
class Loaded:
    """`rtts_ns` of the measured rounds; `busy` is the share of its time that the busiest sort of
    processor needs for data alone."""

    rtts_ns: tuple[int, ...]
    busy: float
    longest_link: int
    longest_cpu: int

    @property
    def rtt_ms(self) -> float:
        return fmean(self.rtts_ns) / 1e6


def measure_load(setting: Setting, data: DataLoad | None, seed: int, rounds: int = 20) -> Loaded:
    """Rounds one after the other, with rests between them, while data flows; None: without any."""
    done: list[int] = []

    def told(member: Sender) -> None:
        if member is traffic.first and member.joined is not None:
            done.append(traffic.network.now - member.joined)
            member.joined = None
            traffic.network.call(
                traffic.network.now + 1 + traffic.stream.exponential(_REST), begin_next
            )

    def begin_next() -> None:
        if len(done) < rounds + _WARM_UP:
            traffic.begin()

    def flow(member: Sender) -> None:
        if len(done) < rounds + _WARM_UP:
            member.send_data()
            gap = traffic.stream.exponential(traffic.data.gap)
            traffic.network.call(traffic.network.now + 1 + gap, lambda: flow(member))

    traffic = DataTraffic(setting, data or DataLoad(rate=1.0), seed, told)
    network = traffic.network
    if data is not None:
        for member in traffic.members:
            network.call(traffic.stream.below(data.gap), partial(flow, member))
    network.call(_REST, traffic.begin)
    network.run(until=MOST_SECONDS * SECOND)
    if len(done) < rounds + _WARM_UP:
        raise Unfinished(f"{len(done)} rounds in {MOST_SECONDS} s: the load is too high")
    return Loaded(
        rtts_ns=tuple(done[_WARM_UP:]),
        busy=0.0 if data is None else share_busy(network, data),
        longest_link=network.longest_link,
        longest_cpu=network.longest_cpu,
    )


def share_busy(network: TreeNetwork, data: DataLoad) -> float:
    """Every processor sends its own data and receives everyone's."""
    size = network.costs.header + data.size
    each = network.costs.send(size) + network.tree.count * network.costs.receive(size)
    return data.rate * each / SECOND
