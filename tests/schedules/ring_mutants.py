"""Broken variants of `ring`, which the schedules must catch; as in `direct_mutants`."""

from typing import Any, ClassVar

from msgspec.structs import replace

from ordercast.core.order.kept_states import ResumedRing
from ordercast.core.order.ring import Ring
from ordercast.core.outbox import Note, OrderingState, Stamped, Visited
from ordercast.model.groups import Site
from ordercast.model.messages import Batch, Key
from ordercast.model.options import MILLISECOND
from ordercast.sim.faults import Fault
from ordercast.wire.frames import Item
from ordercast.wire.ring import RepairRange, Token
from schedules.direct_mutants import BUSY, CRASHES, BrokenDirect
from support.worlds.engines import PromisesEarly

RING_MUTANTS: "dict[str, type[BrokenRing]]" = {}


def mutant(cls: "type[BrokenRing]") -> "type[BrokenRing]":
    RING_MUTANTS[cls.__name__] = cls
    return cls


class BrokenRing(BrokenDirect):
    ordering_kind: type[Ring]  # type: ignore[assignment]

    @classmethod
    def protocol(cls) -> str:
        return "ring"


@mutant
class HeadersToMembersOnly(BrokenRing):
    """OTHER-3, SWAP-6: who is no member is not told of a number, and waits for it for ever."""

    focus: ClassVar[dict[str, Any]] = BUSY

    class ordering_kind(Ring):  # noqa: N801
        def _tell(self, site: Site, number: int, batch: Batch) -> None:
            if site in self.members(batch):
                super()._tell(site, number, batch)

        def _missing(self, now: int, number: int) -> list[RepairRange]:  # noqa: ARG002
            return []


@mutant
class HolesArePassed(BrokenRing):
    """What has come passes, although a lower number has not."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, "faults": (Fault("loss", 0.2),)}

    class ordering_kind(Ring):  # noqa: N801
        def _advance(self) -> None:
            for number in sorted(self._entries):
                giver, batch = self._entries.pop(number)
                self._passed = max(number, self._passed)
                if batch is not None:
                    self.append(Key((number,), giver), batch)


@mutant
class NumbersWithoutTheToken(BrokenRing):
    """A site numbers at once, above all that it has seen."""

    focus: ClassVar[dict[str, Any]] = BUSY

    class ordering_kind(Ring):  # noqa: N801
        def submit(self, batch: Batch) -> None:
            super().submit(batch)
            while self._waiting:
                last = max([self._passed, *self._entries, *self._given])
                self._give(last + 1, self._waiting.popleft())


@mutant
class TheTokenIsMadeAgain(BrokenRing):
    """Who has waited for the token for long makes a new one, as it was, within the epoch."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, "faults": (Fault("loss", 0.2),)}

    class ordering_kind(Ring):  # noqa: N801
        waited_since = 0

        def flush(self, now: int) -> int:
            if self._token is not None or not self._waiting:
                self.waited_since = now
            elif now > self.waited_since + 20 * MILLISECOND and self._sent is not None:
                self._token, self._fresh = replace(self._sent, turn=self._sent.turn + 9), True
            return super().flush(now)


@mutant
class RepeatsAreTaken(BrokenRing):
    """A token that was sent twice, since its sender has restarted, is taken twice."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(Ring):  # noqa: N801
        def receive(self, peer: Site, item: Item) -> None:
            if type(item) is Token:
                self._turn = item.turn - 1
            super().receive(peer, item)


@mutant
class TheTokenIsForgotten(BrokenRing):
    """That the token is here, or was sent on, is not durable."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(Ring):  # noqa: N801
        def note(self, record: Note) -> None:
            if not isinstance(record, Visited):
                super().note(record)

        def restore(self, state: OrderingState) -> None:
            if isinstance(state, ResumedRing):
                state = replace(state, token=(None, False, state.token[2]))
            super().restore(state)


@mutant
class NumbersAreForgotten(BrokenRing):
    """What was numbered is not durable: after a restart it gets another number."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(Ring):  # noqa: N801
        def note(self, record: Note) -> None:
            if not isinstance(record, Stamped):
                super().note(record)


@mutant
class NobodyAsks(BrokenRing):
    """What a restart has lost is not asked for in the token."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(Ring):  # noqa: N801
        def _missing(self, now: int, number: int) -> list[RepairRange]:  # noqa: ARG002
            return []


@mutant
class ForgottenTooSoon(BrokenRing):
    """What was given is forgotten when the token comes back, whether all have it or not."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}

    class ordering_kind(Ring):  # noqa: N801
        def _forget_given(self, floor: int) -> None:  # noqa: ARG002
            super()._forget_given(1 << 60)


@mutant
class TheTokenLeavesEarly(PromisesEarly, BrokenRing):
    """Numbers and token leave before they are on disk."""

    focus: ClassVar[dict[str, Any]] = {**BUSY, **CRASHES}
    ordering_kind = Ring
