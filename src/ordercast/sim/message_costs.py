"""A few messages in an idle network, overheard: which frames they take, and when members have them.

The papers count the messages of a protocol and its delay without acknowledgements, reports of
stability or other traffic. So such frames are held back, and the run ends when every member has
every message. The frames are counted in three ways: as messages point to point, as transmissions
that may reach several receivers, and as the load of each site.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ordercast.core.structure import Structure
from ordercast.model.groups import Group, Site
from ordercast.model.messages import DeliveredBatch, MessageId
from ordercast.model.options import SECOND, Timing
from ordercast.sim.config import SimConfig
from ordercast.sim.driver import SUBMIT
from ordercast.sim.networks import Network, NetworkSpec, PointToPointSpec
from ordercast.sim.place import Place
from ordercast.sim.workload import Submission
from ordercast.sim.world import World
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import Data, DurableCounts, Settled

_BESIDE = (DurableCounts, Settled)  # items of stability: they neither order nor carry messages
_LATER = 20 * SECOND  # after the last send: a run that has not delivered everything by then fails
_SIZE = 8  # bytes of a payload


class PlannedSend(NamedTuple):
    """An origin sends a message to a group at some time."""

    at: int
    origin: Site
    group: Group


class OverheardFrame(NamedTuple):
    """A frame left `source` for `peer`."""

    at: int
    source: Site
    peer: Site
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Overheard:
    """`sent`: when each message was sent. `had`: when each member delivered it. `heard`: all
    frames until the last member had the last message."""

    sent: Mapping[MessageId, int]
    had: Mapping[MessageId, Mapping[Site, int]]
    heard: Sequence[OverheardFrame]

    @property
    def messages(self) -> int:
        """How many items went from site to site. Items of one frame count one by one."""
        return sum(len(frame.items) for frame in self.heard)

    def delays(self, message: MessageId) -> list[int]:
        """Nanoseconds from the sending of a message to its delivery, for each member."""
        return [at - self.sent[message] for at in self.had[message].values()]

    def loads(self) -> Counter[Site]:
        """Messages sent and received by each site."""
        found: Counter[Site] = Counter()
        for frame in self.heard:
            found[frame.source] += len(frame.items)
            found[frame.peer] += len(frame.items)
        return found

    def transmissions(self) -> int:
        """How many transmissions there were, if a multicast is one."""
        return self.sends().total()

    def sends(self) -> Counter[Site]:
        """How many transmissions each site made, if a multicast is one: equal content that leaves
        the site for several peers at the same time."""
        return Counter(source for _, source, _ in self.receivers())

    def receivers(self) -> Counter[tuple[int, Site, tuple[Any, ...]]]:
        """How many sites each transmission was for, by its time, source and content."""
        return Counter((f.at, f.source, tuple(map(_content, f.items))) for f in self.heard)

    def received(self) -> Counter[Site]:
        """How many messages came to each site."""
        found: Counter[Site] = Counter()
        for frame in self.heard:
            found[frame.peer] += len(frame.items)
        return found


def _content(item: Any) -> Any:
    """A batch is the same content for every receiver, whatever else the item says."""
    return getattr(item, "batch", item)


def overhear(
    structure: Structure,
    protocol: str,
    sendings: Sequence[PlannedSend],
    network: NetworkSpec | None = None,
    *,
    by: Network | None = None,
    wake: int = 0,
    seed: int = 1,
) -> Overheard:
    """Run until everything is delivered. `by`: a network object, instead of the spec `network`.
    `wake`: nanoseconds; a site takes the frames that come within this time in one burst."""
    later = max((sending.at for sending in sendings), default=0) + _LATER
    config = SimConfig(
        structure.table,
        protocol=protocol,
        messages=0,
        network=PointToPointSpec() if network is None else network,
        deliver="agreed",
        stability="plain",
        durability="memory",
        timing=_held_back_until(later),
        settle=later,
        wake=wake,
    )
    world = _Listening(config, structure, seed, sendings)
    if by is not None:
        world.travel_by(by)
    world.start()
    try:
        world.run()
    except _AllIsDeliveredError:
        return world.overheard()
    raise RuntimeError(
        f"{protocol}: {world.missing:,} deliveries were missing after {later / SECOND:g} s"
    )


def _held_back_until(later: int) -> Timing:
    return Timing(
        ack_delay=later, resend_after=2 * later, resend_at_most=2 * later, report_delay=later,
        repair_again=later, suspect=10 * later,
    )  # fmt: skip


class _AllIsDeliveredError(Exception):
    """Ends the run; nothing has gone wrong."""


class _Listening(World):
    def __init__(
        self, config: SimConfig, structure: Structure, seed: int, sendings: Sequence[PlannedSend]
    ) -> None:
        super().__init__(config, structure, seed)
        self.missing = sum(len(structure.members(sending.group)) for sending in sendings)
        self._heard: list[OverheardFrame] = []
        self._saw = self._delivered
        self._delivered = self._see
        self._sent: dict[MessageId, int] = {}
        seqs: Counter[tuple[Site, Group]] = Counter()
        for number, (at, origin, group) in enumerate(sorted(sendings), start=1):
            seqs[origin, group] += 1
            self._sent[MessageId(origin, 1, group, seqs[origin, group])] = at
            self.untaken += 1
            self._push(at, SUBMIT, Submission(at, origin, group, (), number, (_SIZE,)))

    def travel_by(self, network: Network) -> None:
        self.arrivals = network.arrivals

    def overheard(self) -> Overheard:
        if self.recorder.violations:
            first = self.recorder.violations[0]
            raise RuntimeError(f"{first.check}: {first.witness}")
        had: dict[MessageId, dict[Site, int]] = {message: {} for message in self._sent}
        for site, seen in self.recorder.seen.items():
            for at, delivery in seen:
                had[delivery.id][site] = at
        return Overheard(self._sent, had, self._heard)

    def _see(self, now: int, site: Site, batches: Sequence[DeliveredBatch]) -> None:
        self._saw(now, site, batches)
        self.missing -= sum(batch.count for batch in batches)
        if not self.missing:
            raise _AllIsDeliveredError

    def _transmit(self, now: int, source: Site, sends: Sequence[tuple[Site, InEpoch]]) -> None:
        kept = []
        for peer, frame in sends:
            said = frame.frame if type(frame) is InEpoch else None  # a site looks for a manager
            if type(said) is Data and not all(isinstance(item, _BESIDE) for item in said.items):
                kept.append((peer, frame))
                self._heard.append(OverheardFrame(now, source, peer, said.items))
        super()._transmit(now, source, kept)

    def _push_apart(self, at: int, code: int, place: Place, peer: Any, frame: Any) -> None:
        """Voters are not run: nothing changes or fails, and frames from them and to them are not
        counted."""
