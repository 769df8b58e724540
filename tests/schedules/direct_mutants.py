"""Broken variants of the protocols without a tree, which the schedules must catch.

Each is a class of sites as in `mutants`; what it breaks is its docstring. `focus` turns the drawn
schedules to where the mistake can matter.
"""

from typing import Any, ClassVar
from unittest.mock import patch

from msgspec.structs import replace

from ordercast.core import engine as engine_module
from ordercast.core.engine import Engine
from ordercast.core.order.interface import ProtocolInfo
from ordercast.core.order.kept_states import ResumedSymmetric, ResumedTwoPhase
from ordercast.core.order.symmetric import Symmetric, Timestamp
from ordercast.core.order.two_phase import Number, TwoPhase
from ordercast.core.outbox import (
    Clocked,
    Decided,
    EngineBox,
    Note,
    OrderingState,
    Promised,
    Stamped,
    Stream,
)
from ordercast.model.groups import GroupTable, Site
from ordercast.model.messages import Batch, Key
from ordercast.model.options import MILLISECOND
from ordercast.sim.faults import Fault
from ordercast.sim.networks import LanSpec
from ordercast.wire.frames import Item, Null, Offer
from schedules.mutants import believe
from support.worlds.engines import PromisesEarly

# Members of two groups that share two sites; anybody sends to anything.
OVERLAP = GroupTable.of(
    {"alpha": ["a", "b", "c"], "beta": ["b", "c", "d"], "gamma": ["c", "d", "a"]}
)
# The clock of b runs ahead of those of a and d, who hear of it through `answered` alone.
UNEVEN = GroupTable.of(
    {"ahead": ["b", "e"], "answered": ["a", "b"], "behind": ["a", "d"]},
    rates={"ahead": 4.0, "answered": 1.0, "behind": 1.0},
)
BUSY: dict[str, Any] = {
    "table": OVERLAP,
    "origins": None,
    "rate": 5000.0,
    "messages": 60,
    "network": LanSpec(),
}
CRASHES: dict[str, Any] = {
    "on_failure": "wait",
    "durability": "sync",
    "longest_sync": 10 * MILLISECOND,
    "faults": (Fault("crash", count=4), Fault("restart", count=4), Fault("loss", 0.05)),
}

DIRECT_MUTANTS: "dict[str, type[BrokenDirect]]" = {}


def mutant(cls: "type[BrokenDirect]") -> "type[BrokenDirect]":
    DIRECT_MUTANTS[cls.__name__] = cls
    return cls


class BrokenDirect(Engine):
    """A site whose ordering object is of a broken kind."""

    ordering_kind: type[TwoPhase] | type[Symmetric]
    focus: ClassVar[dict[str, Any]] = {}

    def __init__(self, *args: Any, **options: Any) -> None:
        broken = ProtocolInfo(options["protocol"], self.ordering_kind, direct=True)
        with patch.object(engine_module, "protocol_named", lambda _: broken):
            super().__init__(*args, **options)
        believe(self)

    @classmethod
    def protocol(cls) -> str:
        return "two_phase" if issubclass(cls.ordering_kind, TwoPhase) else "symmetric"


# --- two_phase ----------------------------------------------------------------------------------


@mutant
class ProposalIgnoresFinals(BrokenDirect):
    """OTHER-1, as printed in [GS] §2: a number exceeds those proposed here, not those fixed."""

    focus: ClassVar[dict[str, Any]] = BUSY

    class ordering_kind(TwoPhase):  # noqa: N801
        def _decide(self, stream: Stream, seq: int, number: Number) -> bool:
            clock = self._clock
            news = super()._decide(stream, seq, number)
            self._clock = clock
            return news

        def _fix(self, own: Any, number: Number) -> None:
            clock = self._clock
            super()._fix(own, number)
            self._clock = max(clock, self._clock if self.site in own.members else clock)


@mutant
class ForgetsItsPromises(BrokenDirect):
    """A proposal is not durable: after a restart others pass it."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(TwoPhase):  # noqa: N801
        def note(self, record: Note) -> None:
            if not isinstance(record, Promised):
                super().note(record)

        def restore(self, state: OrderingState) -> None:
            resumed = isinstance(state, ResumedTwoPhase)
            super().restore(replace(state, waiting=()) if resumed else state)


@mutant
class ProposesOutOfSeqOrder(BrokenDirect):
    """A member numbers what it is offered in one burst in another order than it was sent in."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, "origins": 2, "wake": MILLISECOND}

    class ordering_kind(TwoPhase):  # noqa: N801
        parked: tuple[Site, Offer] | None = None

        def receive(self, peer: Site, item: Item) -> None:
            if type(item) is Offer and self.parked is None:
                self.parked = (peer, item)
            else:
                super().receive(peer, item)

        def release(self) -> None:
            if self.parked is not None:
                parked, self.parked = self.parked, None
                super().receive(*parked)

    def drain(self) -> EngineBox:
        self.ordering.release()  # type: ignore[attr-defined]
        return super().drain()


@mutant
class FixesTheLowest(BrokenDirect):
    """The origin picks the lowest proposal: others may have passed it."""

    class ordering_kind(TwoPhase):  # noqa: N801
        def _fix(self, own: Any, number: Number) -> None:
            if own.proposals:
                number = min((clock, member) for member, clock in own.proposals.items())
            super()._fix(own, number)


@mutant
class PassesWhatIsProposed(BrokenDirect):
    """The lowest passes although its number is not fixed."""

    class ordering_kind(TwoPhase):  # noqa: N801
        def _wait(self, batch: Batch, number: Number) -> Any:
            waiting = super()._wait(batch, number)
            waiting.fixed = self.site > "b"
            return waiting


@mutant
class NumbersWithoutNames(BrokenDirect):
    """Numbers are clocks alone: of two that are equal each member has another first."""

    focus: ClassVar[dict[str, Any]] = BUSY

    class ordering_kind(TwoPhase):  # noqa: N801
        def append(self, key: Key, batch: Batch) -> None:
            super().append(Key(key.path, ""), batch)

        def _decide(self, stream: Stream, seq: int, number: Number) -> bool:
            return super()._decide(stream, seq, (number[0], self.site if seq % 2 else ""))


@mutant
class OriginForgetsWhatItFixed(BrokenDirect):
    """The fixed number is not durable: after a restart the origin asks, and some have passed."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(TwoPhase):  # noqa: N801
        def note(self, record: Note) -> None:
            super().note(record)
            if isinstance(record, Decided):
                self._fixed.clear()

        def restore(self, state: OrderingState) -> None:
            resumed = isinstance(state, ResumedTwoPhase)
            super().restore(replace(state, fixed=()) if resumed else state)


@mutant
class OffersWithoutAClock(BrokenDirect):
    """Causal order: members do not hear how far the origin has seen."""

    focus: ClassVar[dict[str, Any]] = {
        **BUSY,
        "causal": True,
        "deliver": "agreed",
        "table": UNEVEN,
        "replies": 0.8,
        "messages": 100,
        "rate": 500.0,
        "faults": (Fault("loss", 0.2),),
    }

    class ordering_kind(TwoPhase):  # noqa: N801
        def _offered(self, origin: Site, batch: Batch, clock: int) -> None:  # noqa: ARG002
            super()._offered(origin, batch, 0)


@mutant
class TwoPhaseTurnsTooSoon(BrokenDirect):
    """Causal order: an origin turns to another group before its earlier batches have numbers."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, "causal": True, "deliver": "agreed", "replies": 0.0}

    class ordering_kind(TwoPhase):  # noqa: N801
        def way(self, batch: Batch) -> str:  # noqa: ARG002
            return "any"


# --- symmetric ----------------------------------------------------------------------------------


@mutant
class HearsMembersOnly(BrokenDirect):
    """OTHER-2: members and sender heard is taken for everybody heard."""

    focus: ClassVar[dict[str, Any]] = BUSY

    class ordering_kind(Symmetric):  # noqa: N801
        def _safe_upto(self) -> Timestamp:
            stamp, batch = self._heap[0]
            near = (*self.members(batch), stamp[1])
            return min(
                ((clock, peer) for peer, clock in self._heard.items() if peer in near),
                default=self._highest,
            )


@mutant
class AnswersNulls(BrokenDirect):
    """A null is answered with a null: it never ends."""

    class ordering_kind(Symmetric):  # noqa: N801
        def receive(self, peer: Site, item: Item) -> None:
            super().receive(peer, item)
            if type(item) is Null:
                self._send_null(peer)


@mutant
class AskedButNotAhead(BrokenDirect):
    """Who is asked answers with its own next timestamp, below the one asked for."""

    class ordering_kind(Symmetric):  # noqa: N801
        def _wanted(self, peer: Site, stamp: Timestamp) -> None:
            self._send(peer, Null(max(1, min(stamp[0], self._clock))))


@mutant
class OneBelowWillDo(BrokenDirect):
    """A timestamp one below is taken for enough."""

    focus: ClassVar[dict[str, Any]] = BUSY

    class ordering_kind(Symmetric):  # noqa: N801
        def _safe_upto(self) -> Timestamp:
            return (super()._safe_upto()[0] + 1, "zzz")


@mutant
class NullsAreGivenTwice(BrokenDirect):
    """A null's timestamp is not durable: after a restart a batch gets a lower one."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES, "rate": 100.0}

    class ordering_kind(Symmetric):  # noqa: N801
        def note(self, record: Note) -> None:
            if not isinstance(record, Clocked):
                super().note(record)

        def restore(self, state: OrderingState) -> None:
            resumed = isinstance(state, ResumedSymmetric)
            super().restore(replace(state, clock=0) if resumed else state)


@mutant
class NullsBeforeWhatIsOwed(BrokenDirect):
    """A restarted site promises that nothing lower comes, then sends it again."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(Symmetric):  # noqa: N801
        def restarted(self, peer: Site | None) -> None:
            if peer is None:
                self._silent = False
                for other in self._heard:
                    self._send_null(other)
            super().restarted(peer)


@mutant
class ForgetsWhatItReceived(BrokenDirect):
    """What was acknowledged and has not passed is lost in a restart."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(Symmetric):  # noqa: N801
        def note(self, record: Note) -> None:
            if not isinstance(record, Stamped) or record.site == self.site:
                super().note(record)


@mutant
class TwoGateways(BrokenDirect):
    """An origin outside the domain is stamped for by two sites of it in turn."""

    focus: ClassVar[dict[str, Any]] = {
        **BUSY,
        "table": GroupTable.of({"alpha": ["a", "b", "c"]}, sites=["a", "b", "c", "x"]),
        "origins": ("x",),
    }

    class ordering_kind(Symmetric):  # noqa: N801
        def way(self, batch: Batch) -> str:
            if self.site != "x":
                return super().way(batch)
            return "a" if batch.seq % 2 else "c"


# --- both ---------------------------------------------------------------------------------------


@mutant
class TwoPhasePromisesEarly(PromisesEarly, BrokenDirect):
    """Proposals and fixed numbers leave before they are on disk."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}
    ordering_kind = TwoPhase


@mutant
class SymmetricPromisesEarly(PromisesEarly, BrokenDirect):
    """Timestamps leave before they are on disk."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}
    ordering_kind = Symmetric
