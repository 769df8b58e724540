"""The states of the ordering objects in a checkpoint, with all that they need to go on after a
restart.

Each class belongs to the protocol whose name it bears. They are data, apart from the code that uses
them, because that code can be compiled and these cannot.
"""

from typing import Any

from msgspec import Struct

from ordercast.core.outbox import OrderingState, StreamSeqs
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Key
from ordercast.wire.frames import Final
from ordercast.wire.ring import Token
from ordercast.wire.swap import ChainMark, Count, Counted, CountValue, Follows, MarkValue, Swap
from ordercast.wire.tom import MessageName

Share = tuple[Site, int, Batch | None]
"""A request: (child, how many numbers, None), or the site's own (site, 1, its batch)."""


class Ask(Struct, frozen=True, array_like=True, gc=False):
    """A request: its first message, the last message combined behind it, and the site that issued
    it."""

    batch: Batch
    last: MessageName
    issuer: Site


class ArrowState(Struct, frozen=True, kw_only=True):
    link: Site
    value: MessageName


class ArrowCountingState(ArrowState, frozen=True, kw_only=True):
    numbers: tuple[tuple[MessageName, int], ...]
    successors: tuple[tuple[MessageName, Ask], ...]


class ChainState(Struct, frozen=True, kw_only=True):
    number: int
    last: MessageName
    seqs: StreamSeqs
    waiting: tuple[Follows | Counted, ...]


class CombiningState(Struct, frozen=True, kw_only=True):
    value: MessageName
    gathered: tuple[Ask, ...]


class CombiningCountingState(Struct, frozen=True, kw_only=True):
    given: int
    gathered: tuple[Share, ...]
    asked: tuple[Share, ...]


class DebtsState(Struct, frozen=True, kw_only=True):
    said: dict[Site, int]
    got: dict[Site, int]
    requests: tuple[tuple[Site, Swap | Count | CountValue | ChainMark | MarkValue], ...]
    headers: tuple[tuple[Follows | Counted, tuple[Site, ...]], ...]
    answers: tuple[tuple[Site, Final], ...]


class HybridState(Struct, frozen=True, kw_only=True):
    gathered: tuple[Ask, ...]


class CoreHybridState(ArrowState, frozen=True, kw_only=True):
    """At a site of the core, which has an arrow."""

    gathered: tuple[Ask, ...]


class GroupState(ArrowState, frozen=True, kw_only=True):
    """At a site of an arrow group below the core. `begun`, `open`: at the group's top."""

    gathered: tuple[Ask, ...]
    begun: Ask | None
    open: Ask | None
    mark: int


class DirectState(OrderingState, frozen=True, kw_only=True):
    key: Key
    numbers: dict[Group, int]
    seqs: StreamSeqs


class TwoPhaseState(DirectState, frozen=True, kw_only=True):
    clock: int


class ResumedTwoPhase(TwoPhaseState, frozen=True, kw_only=True):
    """The same where a restart goes on in the epoch."""

    waiting: tuple[tuple[Batch, int, Site, bool], ...]
    fixed: tuple[tuple[int, Group, int, int, Site], ...]


class ResumedSymmetric(DirectState, frozen=True, kw_only=True):
    """Where a restart goes on in the epoch."""

    clock: int
    through: StreamSeqs
    stamped: tuple[tuple[Batch, int, Site], ...]


class ResumedRing(DirectState, frozen=True, kw_only=True):
    """Where a restart goes on in the epoch."""

    token: tuple[Token | None, bool, int]  # as it is or was sent on; whether it is here; passed
    through: StreamSeqs
    given: tuple[tuple[Batch, int], ...]
    waiting: tuple[Batch, ...]


class ResumedReduction(DirectState, frozen=True, kw_only=True):
    """Where a restart goes on in the epoch."""

    swaps: Any  # the state of the swap object
    debts: DebtsState
    chain: ChainState
    queue: tuple[Batch, ...]
    open: tuple[tuple[MessageName, int], ...]
    through: StreamSeqs
    closing: bool
    closed: bool


class PropagationState(OrderingState, frozen=True, kw_only=True):
    base: tuple[int, ...]
    counter: int
    numbers: dict[Group, int]
    seqs: StreamSeqs


class TomState(PropagationState, frozen=True, kw_only=True):
    heard: StreamSeqs
    heads: tuple[bytes, ...]  # `Headed`, packed
