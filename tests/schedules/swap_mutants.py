"""Broken variants of the swap family, which the schedules must catch; as `direct_mutants`."""

from collections.abc import Sequence
from typing import Any, ClassVar
from unittest.mock import patch

from ordercast.core import engine as engine_module
from ordercast.core.engine import Engine
from ordercast.core.order.arrow import Arrow, ArrowSwap
from ordercast.core.order.arrow_counting import ArrowCounting, CountingArrow
from ordercast.core.order.arrow_groups import GroupSwap
from ordercast.core.order.bodies import name_of
from ordercast.core.order.combining import Combining, CombiningSwap, PendingSwaps
from ordercast.core.order.combining_counting import CombiningCounting, CountingCombining
from ordercast.core.order.hybrid import Hybrid, HybridSwap
from ordercast.core.order.interface import ProtocolInfo
from ordercast.core.order.kept_states import Ask, Share
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import Found, NumberKnown, Step, Tell
from ordercast.core.outbox import Note, OrderingState, SwapNote, Turned
from ordercast.model.groups import GroupTable, Site
from ordercast.model.options import MILLISECOND, Limits, Timing
from ordercast.sim.networks import LanSpec
from ordercast.wire.swap import ChainMark, Count, Counted, CountValue, Follows, MarkValue, Swap
from ordercast.wire.tom import MessageName
from schedules.direct_mutants import BUSY, CRASHES
from support.worlds.engines import PromisesEarly

# Deep enough for requests to meet, and for sites that are in no group of a message.
DEEP = GroupTable.of(
    {"alpha": ["a", "b"], "beta": ["b", "c"], "gamma": ["c", "d"], "delta": ["d", "e"]}
)
CROWD: dict[str, Any] = {
    **BUSY,
    "table": DEEP,
    "faults": (),
    "builder": "greedy",
    "network": LanSpec(),
    "wake": MILLISECOND,
}
RESTARTS: dict[str, Any] = {**CROWD, **CRASHES}

SWAP_MUTANTS: "dict[str, type[BrokenSwap]]" = {}


def mutant(cls: "type[BrokenSwap]") -> "type[BrokenSwap]":
    SWAP_MUTANTS[cls.__name__] = cls
    return cls


class BrokenSwap(Engine):
    """A site whose ordering object, or its swap object, is of a broken kind."""

    name_of_protocol: ClassVar[str]
    ordering_kind: ClassVar[type[Reduction]]
    focus: ClassVar[dict[str, Any]] = CROWD

    def __init__(self, *args: Any, **options: Any) -> None:
        broken = ProtocolInfo(options["protocol"], self.ordering_kind, direct=True)
        with patch.object(engine_module, "protocol_named", lambda _: broken):
            super().__init__(*args, **options)


class BrokenArrow(BrokenSwap):
    name_of_protocol = "arrow"


class BrokenCombining(BrokenSwap):
    name_of_protocol = "combining"


class BrokenHybrid(BrokenSwap):
    name_of_protocol = "hybrid"


class BrokenArrowCounting(BrokenSwap):
    name_of_protocol = "arrow_counting"


class BrokenCombiningCounting(BrokenSwap):
    name_of_protocol = "combining_counting"


# --- arrow --------------------------------------------------------------------------------------


@mutant
class SinkReadsItsOwnName(BrokenArrow):
    """SWAP-1, as printed: a sink that issues a request sets its value, and then reads it."""

    class ordering_kind(Arrow):  # noqa: N801
        def swap_object(self) -> Any:
            class Printed(ArrowSwap):
                def swap(self, ask: Ask) -> Sequence[Step]:
                    to, self.link, self.value = self.link, self.site, ask.last
                    return (self._step(ask, to, self.value),)

            return Printed(self.site, self.structure.parent(self.site) or self.site)


@mutant
class HeadersToMembersOnly(BrokenArrow):
    """SWAP-6, as printed: who is not in the predecessor's group waits for it for ever."""

    class ordering_kind(Arrow):  # noqa: N801
        def _reveal(self, header: Follows | Counted) -> None:
            members = self.members(header.batch)
            self.debts.owe(header, [peer for peer in self.others if peer in members], members)
            if self.site in members:
                self._take_header(header)


@mutant
class ArrowsAreNotTurned(BrokenArrow):
    """A request passes a site and leaves its arrow as it was: two find one predecessor."""

    class ordering_kind(Arrow):  # noqa: N801
        def swap_object(self) -> Any:
            class Straight(ArrowSwap):
                def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
                    link = self.link
                    steps = super().receive(peer, ask)
                    self.link = link
                    return steps

            return Straight(self.site, self.structure.parent(self.site) or self.site)


@mutant
class ForgetsItsArrow(BrokenArrow):
    """Requests that passed are not durable: after a restart the arrow points as it did."""

    focus = RESTARTS

    class ordering_kind(Arrow):  # noqa: N801
        def note(self, record: Note) -> None:
            if not (isinstance(record, SwapNote) and isinstance(record.item, Swap)):
                super().note(record)


@mutant
class RequestsTakenTwice(BrokenArrow):
    """A request that is told again after a restart is taken for a new one."""

    focus = RESTARTS

    class ordering_kind(Arrow):  # noqa: N801
        def restore(self, state: OrderingState) -> None:
            super().restore(state)
            self.debts.is_news = lambda peer, number: True  # type: ignore[method-assign]  # noqa: ARG005


@mutant
class OwesNothingAfterARestart(BrokenArrow):
    """What was not acknowledged is not told again."""

    focus = RESTARTS

    class ordering_kind(Arrow):  # noqa: N801
        def restarted(self, peer: Site | None) -> None:
            self.debts.silent = False
            self.debts.tell_again = lambda *_: None  # type: ignore[method-assign]
            super().restarted(peer)


@mutant
class PassesBehindTheEnd(BrokenArrow):
    """A receiver delivers what comes, whatever its predecessor."""

    class ordering_kind(Arrow):  # noqa: N801
        def _take_header(self, header: Follows | Counted) -> None:
            if isinstance(header, Follows):
                header = Follows(header.batch, self.chain.last)
            super()._take_header(header)


# --- combining ----------------------------------------------------------------------------------


@mutant
class LaterRequestsGoFirst(BrokenCombining):
    """SWAP-5, as printed: which of two that meet goes first is left open."""

    class ordering_kind(Combining):  # noqa: N801
        def swap_object(self) -> Any:
            class Backwards(PendingSwaps):
                def combine(self) -> tuple[Ask, list[Found]]:
                    self._asks.reverse()
                    return super().combine()

            made = CombiningSwap(self.site, self.structure.parent(self.site))
            made._gathered = Backwards()
            return made


@mutant
class CombinedButNotTheLast(BrokenCombining):
    """What goes on names the first message only: the root's value is not the last one."""

    class ordering_kind(Combining):  # noqa: N801
        def swap_object(self) -> Any:
            class Short(PendingSwaps):
                def combine(self) -> tuple[Ask, list[Found]]:
                    last = self._asks[0].last
                    ask, found = super().combine()
                    return Ask(ask.batch, last, ask.issuer), found

            made = CombiningSwap(self.site, self.structure.parent(self.site))
            made._gathered = Short()
            return made


@mutant
class CombinesAgainAfterARestart(BrokenCombining):
    """That requests went on is not durable: after a restart they go on once more."""

    focus = RESTARTS

    class ordering_kind(Combining):  # noqa: N801
        def note(self, record: Note) -> None:
            if not isinstance(record, Turned):
                super().note(record)


@mutant
class GatheredIsLost(BrokenCombining):
    """Requests that wait to combine are lost in a restart."""

    focus = {**RESTARTS, "timing": Timing(hold=20 * MILLISECOND)}  # noqa: RUF012

    class ordering_kind(Combining):  # noqa: N801
        def restarted(self, peer: Site | None) -> None:
            if peer is None:
                self.swaps.turn()
            super().restarted(peer)


# --- hybrid -------------------------------------------------------------------------------------


@mutant
class ArrowKnowsTheFirstOnly(BrokenHybrid):
    """The value of an arrow is the first message of what was combined, not the last."""

    class ordering_kind(Hybrid):  # noqa: N801
        def swap_object(self) -> Any:
            made = super().swap_object()
            assert isinstance(made, HybridSwap)
            arrow = made._arrow
            if arrow is not None:
                swap = arrow.swap

                def short(ask: Ask) -> Sequence[Step]:
                    batch = ask.batch
                    first = (batch.origin, batch.incarnation, batch.group, batch.seq)
                    return swap(Ask(batch, first, ask.issuer))

                arrow.swap = short  # type: ignore[method-assign]
            return made


@mutant
class TheCoreForgetsItsArrow(BrokenHybrid):
    """The arrow of a site of the core is not part of its state."""

    focus = RESTARTS

    class ordering_kind(Hybrid):  # noqa: N801
        def restore(self, state: OrderingState) -> None:
            super().restore(state)
            fresh = super().swap_object()
            if isinstance(fresh, HybridSwap) and isinstance(self.swaps, HybridSwap):
                self.swaps._arrow = fresh._arrow

        def note(self, record: Note) -> None:
            own = isinstance(record, SwapNote) and record.peer == self.site
            if own or not (isinstance(record, SwapNote) and isinstance(record.item, Swap)):
                super().note(record)


# --- arrow groups below the core ----------------------------------------------------------------


class Grouped(Hybrid):
    """`hybrid:1:3`, with a group's sites of a broken kind."""

    kind: ClassVar[type[GroupSwap]] = GroupSwap

    def __init__(self, *args: Any, causal: bool) -> None:
        super().__init__(*args, causal=causal, core=1, group=3)

    def swap_object(self) -> Any:
        made = super().swap_object()
        if not isinstance(made, GroupSwap):
            return made
        return self.kind(made.site, made.parent, made._group)


# Slow enough for many chains, one after the other.
CHAINS: dict[str, Any] = {**RESTARTS, "rate": 300.0, "limits": Limits(checkpoint_batches=4)}


class BrokenGroups(BrokenSwap):
    name_of_protocol = "hybrid:1:3"


@mutant
class TheChainEndsWhereItBegins(BrokenGroups):
    """The group does not wait for its mark's answer: it names the first message as the last."""

    class ordering_kind(Grouped):  # noqa: N801
        class kind(GroupSwap):  # noqa: N801
            def _close(self, last: MessageName) -> Sequence[Step]:
                if self._open is not None:
                    last = name_of(self._open.batch)
                return super()._close(last)


@mutant
class SecondChainOverTheFirst(BrokenGroups):
    """The top opens a chain while it waits for the end of another, which is lost."""

    class ordering_kind(Grouped):  # noqa: N801
        class kind(GroupSwap):  # noqa: N801
            def waiting(self) -> int:
                return len(self._gathered) + int(self._begun is not None)

            def turn(self) -> Sequence[Step]:
                if self._begun is not None:
                    self._open = None
                return super().turn()

            def check_mark(self, peer: Site, item: ChainMark | MarkValue) -> None: ...


@mutant
class MarksLeaveTheArrow(BrokenGroups):
    """A mark passes a site and leaves its arrow as it was: what follows comes before the mark."""

    class ordering_kind(Grouped):  # noqa: N801
        class kind(GroupSwap):  # noqa: N801
            def marked(self, peer: Site, mark: int) -> Sequence[Step]:
                link = self._arrow.link
                steps = super().marked(peer, mark)
                self._arrow.link = link
                return steps


@mutant
class AnswersToMarksAreLost(BrokenGroups):
    """What a mark has found is not durable: after a restart the chain is open for ever."""

    focus = CHAINS

    class ordering_kind(Grouped):  # noqa: N801
        def note(self, record: Note) -> None:
            if not (isinstance(record, SwapNote) and isinstance(record.item, MarkValue)):
                super().note(record)


@mutant
class OpenChainsAreLost(BrokenGroups):
    """A checkpoint forgets the chain that is open, and the one that has begun."""

    focus = CHAINS

    class ordering_kind(Grouped):  # noqa: N801
        class kind(GroupSwap):  # noqa: N801
            def load(self, fields: dict[str, Any]) -> None:
                super().load({**fields, "begun": None, "open": None})


# --- arrow_counting -----------------------------------------------------------------------------


@mutant
class TheCountStays(BrokenArrowCounting):
    """The number is not handed on to where the message was issued."""

    class ordering_kind(CountingArrow):  # noqa: N801
        def swap_object(self) -> Any:
            class Still(ArrowCounting):
                def _count(self, name: MessageName) -> Sequence[Step]:
                    return [s for s in super()._count(name) if not isinstance(s, Tell)]

            return Still(self.site, self.structure.parent(self.site) or self.site)


@mutant
class CountsWithoutItsPredecessor(BrokenArrowCounting):
    """A sink does not wait for the number to come: it takes the highest that it knows."""

    class ordering_kind(CountingArrow):  # noqa: N801
        def swap_object(self) -> Any:
            class Hasty(ArrowCounting):
                highest = 0

                def _count(self, name: MessageName) -> Sequence[Step]:
                    self._numbers.setdefault(name, self.highest)
                    steps = super()._count(name)
                    for step in steps:
                        if isinstance(step, NumberKnown):
                            self.highest = max(self.highest, step.place)
                    return steps

            return Hasty(self.site, self.structure.parent(self.site) or self.site)


@mutant
class TheCountIsLost(BrokenArrowCounting):
    """A number that has come is not durable."""

    focus = RESTARTS

    class ordering_kind(CountingArrow):  # noqa: N801
        def note(self, record: Note) -> None:
            if not (isinstance(record, SwapNote) and isinstance(record.item, CountValue)):
                super().note(record)


# --- combining_counting -------------------------------------------------------------------------


@mutant
class NoLocks(BrokenCombiningCounting):
    """A site asks again before the answer has come, and shares out what it asked for last."""

    class ordering_kind(CountingCombining):  # noqa: N801
        def swap_object(self) -> Any:
            class Open(CombiningCounting):
                def waiting(self) -> int:
                    return len(self._gathered)

                def turn(self) -> Sequence[Step]:
                    self._asked = []
                    return super().turn()

            return Open(self.site, self.structure.parent(self.site))


@mutant
class LaterSharesFirst(BrokenCombiningCounting):
    """The later requests get the lower numbers."""

    class ordering_kind(CountingCombining):  # noqa: N801
        def swap_object(self) -> Any:
            class Backwards(CombiningCounting):
                def _share_out(self, shares: Sequence[Share], first: int) -> Sequence[Step]:
                    return super()._share_out(shares[::-1], first)

            return Backwards(self.site, self.structure.parent(self.site))


@mutant
class TheRootCountsAnew(BrokenCombiningCounting):
    """What the root has given is not durable."""

    focus = RESTARTS

    class ordering_kind(CountingCombining):  # noqa: N801
        def note(self, record: Note) -> None:
            if not (isinstance(record, SwapNote) and isinstance(record.item, Count)):
                super().note(record)


# --- all ----------------------------------------------------------------------------------------


@mutant
class HybridPromisesEarly(PromisesEarly, BrokenSwap):
    """Requests and headers leave before what they follow from is on disk."""

    focus = RESTARTS
    name_of_protocol = "hybrid"
    ordering_kind = Hybrid
