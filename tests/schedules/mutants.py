"""Broken variants of the protocols that the schedules must catch: the printed errors, and
mistakes that look harmless. Each is a class of sites; what it breaks is its docstring.
"""

from collections import deque
from contextlib import ExitStack
from typing import Any, ClassVar
from unittest.mock import patch

from msgspec.structs import replace

from ordercast.core import engine as engine_module
from ordercast.core.engine import Engine
from ordercast.core.gate import Gate
from ordercast.core.link import Incoming, Link, Take
from ordercast.core.order.interface import ProtocolInfo
from ordercast.core.order.propagation import Propagation
from ordercast.core.outbox import Passed
from ordercast.core.structure import Structure
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.messages import Batch, DeliveredBatch, Delivery, Placed, Vector
from ordercast.wire.frames import DOWN, UP, Data, Item, Relay
from support.worlds.engines import PromisesEarly, TakesFromAnyone

# r orders `top` and m, below it, `low`: x may know of a message to `top` before m does.
TWO_LEVELS = GroupTable.of(
    {
        "a1": ["r", "m"],
        "a2": ["r", "m", "x"],
        "a3": ["r", "x"],
        "a4": ["r", "x"],
        "low": ["m", "l"],
        "top": ["r", "m", "l", "x"],
    },
    rates={"a1": 1.0, "a2": 1.0, "a3": 1.0, "a4": 1.0, "low": 10.0, "top": 10.0},
)

MUTANTS: "dict[str, type[Broken]]" = {}


def believe(site: Engine) -> None:
    """Let the site take whatever its peers say. The checks of that would catch a mutant first, and
    nobody would see that the guarantees catch it too."""
    site.ordering.check = lambda peer, item: None  # type: ignore[method-assign] # noqa: ARG005


def mutant(cls: "type[Broken]") -> "type[Broken]":
    MUTANTS[cls.__name__] = cls
    return cls


class Broken(Engine):
    """A site whose ordering object, links, gate or structure is of a broken kind."""

    ordering_kind: type[Propagation] | None = None
    link_kind: type[Link] | None = None
    gate_kind: type[Gate] | None = None
    structure_kind: type[Structure] | None = None
    focus: ClassVar[dict[str, Any]] = {}  # of the schedules: where the mistake can matter

    def __init__(self, name: Site, structure: Structure, *args: Any, **options: Any) -> None:
        if self.structure_kind is not None:
            structure = self.structure_kind(structure.epoch, structure.table, structure.forest)
        with ExitStack() as parts:
            if self.ordering_kind is not None:
                broken = ProtocolInfo("propagation", self.ordering_kind)
                parts.enter_context(patch.object(engine_module, "protocol_named", lambda _: broken))
            if self.gate_kind is not None:
                parts.enter_context(patch.object(engine_module, "Gate", self.gate_kind))
            super().__init__(name, structure, *args, **options)

    def link(self, peer: Site) -> Link:
        if self.link_kind is None or peer in self.links:
            return super().link(peer)
        made = self.link_kind(peer, self.boot, self.options.limits, self.options.timing)
        self.links[peer] = made
        return made


# --- the printed errors -------------------------------------------------------------------------


@mutant
class SenderOverwritten(Broken):
    """GS-1: forwarding overwrites the sender, so the number expected from it is not advanced."""

    class link_kind(Link):  # noqa: N801
        def receive(self, now: int, frame: Data, take: Take) -> None:
            before = self.incoming[frame.lane].got
            super().receive(now, frame, take)
            if frame.lane == DOWN and frame.number % 5 == 0:
                self.incoming[frame.lane].got = before


@mutant
class SequenceNeverIncremented(Broken):
    """GS-2: an origin gives every submission to a primary the same number."""

    class link_kind(Link):  # noqa: N801
        def flush(self, now: int, down: Any, late: Any) -> bool:
            before = len(late)
            waits = super().flush(now, down, late)
            for place in range(before, len(late)):
                peer, frame = late[place]
                if isinstance(frame, Data) and frame.lane == UP:
                    late[place] = (peer, replace(frame, number=1))
            return waits


@mutant
class ProperAncestorsOnly(Broken):
    """GS-3: forward only to children that are ancestors of a member, not to members themselves."""

    class structure_kind(Structure):  # noqa: N801
        def routes(self, site: Site, members: Any) -> tuple[Site, ...]:
            found = super().routes(site, members)
            return tuple(c for c in found if any(self.routes(c, members)))


@mutant
class DuplicateBlocksTheQueue(Broken):
    """GS-4: a repeat sorts to the head of the wait queue and stays there."""

    class link_kind(Link):  # noqa: N801
        stuck = False

        def receive(self, now: int, frame: Data, take: Take) -> None:
            if frame.lane == DOWN and frame.number <= self.incoming[DOWN].got:
                self.stuck = True
            if not (self.stuck and frame.lane == DOWN):
                super().receive(now, frame, take)


@mutant
class GraphInsteadOfTree(TakesFromAnyone, Broken):
    """GS-11: a primary sends straight to every member: unique paths, but no one merged order."""

    class ordering_kind(Propagation):  # noqa: N801
        def _route(self, batch: Batch) -> tuple[bool, tuple[Site, ...]]:
            members = batch.members or self.structure.members(batch.group)
            if self.structure.primary(batch.group, batch.members) != self.site:
                return (self.site in members, ())
            return (self.site in members, tuple(s for s in members if s != self.site))


# --- ordering -----------------------------------------------------------------------------------


@mutant
class TwoPrimaries(Broken):
    """A group has two primaries, by origin."""

    class structure_kind(Structure):  # noqa: N801
        asker: Site = ""

        def primary(self, group: Group, members: tuple[Site, ...] = ()) -> Site:
            found = super().primary(group, members)
            everyone = members or self.members(group)
            others = [site for site in everyone if site != found]
            return others[0] if others and self.asker > found else found

    def may_accept(self, group: Group, members: tuple[Site, ...]) -> bool:
        self.structure.asker = self.name  # type: ignore[attr-defined]
        return super().may_accept(group, members)


@mutant
class ForwardsBeforeOrdering(Broken):
    """A site forwards at once but orders for itself only when the next batch comes."""

    class ordering_kind(Propagation):  # noqa: N801
        late: Passed | None = None

        def _pass(self, entry: Passed, item: Relay) -> None:
            if entry.from_parent and self.late is None:
                _, children = self._route(entry.placed.batch)
                for child in children:
                    self.environment.send(child, DOWN, item)
                self.late = entry
                return
            super()._pass(entry, item)
            if self.late is not None:
                late, self.late = self.late, None
                mine, _ = self._route(late.placed.batch)
                self.environment.persist(late)
                self.environment.passed(late, (), mine=mine)


@mutant
class MergesDifferentlyPerChild(Broken):
    """The merge happens at the wrong site: its own batches reach one child before the parent's."""

    class ordering_kind(Propagation):  # noqa: N801
        parked: Relay | None = None

        def _pass(self, entry: Passed, item: Relay) -> None:
            _, children = self._route(entry.placed.batch)
            super()._pass(entry, item)
            if len(children) > 1 and not entry.from_parent:
                link = self.environment.links[children[0]]  # type: ignore[attr-defined]
                items = link.outgoing[DOWN].items
                if len(items) > 1 and link.outgoing[DOWN].sent < link.outgoing[DOWN].last - 1:
                    items[-1], items[-2] = items[-2], items[-1]


@mutant
class ReordersItsOwnQueue(Broken):
    """A relay sends to one child in another order than it delivers."""

    class link_kind(Link):  # noqa: N801
        held: tuple[int, Item] | None = None

        def push(self, lane: int, item: Item) -> int:
            count = super().push(lane, item)
            out = self.outgoing[lane]
            if lane == DOWN and out.sent < out.last - 1 and self.peer < "e":
                out.items[-1], out.items[-2] = out.items[-2], out.items[-1]
            return count


@mutant
class KeyForgetsOthers(Broken):
    """A key counts only what was relayed for the site itself, not what passed it for others."""

    class ordering_kind(Propagation):  # noqa: N801
        def receive(self, peer: Site, item: Item) -> None:
            base = self._base
            super().receive(peer, item)
            if type(item) is Relay and not self._route(item.placed.batch)[0]:
                self._base = base


@mutant
class DeliversToNonMembers(Broken):
    """A relay that is not a member delivers what it forwards."""

    class ordering_kind(Propagation):  # noqa: N801
        def _route(self, batch: Batch) -> tuple[bool, tuple[Site, ...]]:
            _, children = super()._route(batch)
            self._routes.clear()
            return (True, children)


class Torn(DeliveredBatch, frozen=True):
    """Unpacks to other deliveries than those of its batch."""

    made: tuple[Delivery, ...] = ()

    def deliveries(self) -> list[Delivery]:
        return list(self.made)


@mutant
class SplitsABatch(Broken):
    """The last message of a batch is delivered behind the next batch at some sites."""

    class gate_kind(Gate):  # noqa: N801
        rest: Delivery | None = None

        def deliver(self, placed: Placed) -> DeliveredBatch:
            whole = super().deliver(placed)
            made = whole.deliveries()
            if self.rest is not None:
                rest, self.rest = self.rest, None
                first = made[0]
                moved = replace(rest, position=first.position)
                made[:1] = [replace(first, position=rest.position), moved]
            elif placed.batch.count > 1 and self.stability.site < "d":  # type: ignore[attr-defined]
                self.rest = made.pop()
            return Torn(whole.position, whole.epoch, placed, whole.attempt, tuple(made))


# --- links --------------------------------------------------------------------------------------


@mutant
class ForgetsTheWaitQueue(Broken):
    """When a hole is filled, what had come early is dropped, but counted as received."""

    class link_kind(Link):  # noqa: N801
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.incoming = [Forgetful() for _ in self.incoming]


class Forgetful(Incoming):
    def hand_up(self, peer: Site, lane: int, take: Take) -> bool:
        early = self.early
        while self.got + 1 in early:
            if self.got + 2 not in early:
                take(peer, lane, early[self.got + 1])
            self.got += 1
            self.done += lane == UP
            del early[self.got]
        return False


@mutant
class TakesRepeatsAgain(Broken):
    """A late copy of an item is handed up a second time."""

    class link_kind(Link):  # noqa: N801
        def receive(self, now: int, frame: Data, take: Take) -> None:
            if frame.lane == DOWN and frame.number + len(frame.items) - 1 <= self.incoming[1].got:
                for item in frame.items:
                    take(self.peer, DOWN, item)
            super().receive(now, frame, take)


@mutant
class NeverRepairs(Broken):
    """What is lost is neither asked for nor sent again."""

    class link_kind(Link):  # noqa: N801
        def alarm(self, now: int) -> None:  # noqa: ARG002
            self.resend_at = self.repair_at = 1 << 62

        def repair(self, now: int, frame: Any) -> None:
            pass


@mutant
class HandsUpOutOfOrder(Broken):
    """Submissions are taken as they arrive: an origin's messages lose their order."""

    class link_kind(Link):  # noqa: N801
        def receive(self, now: int, frame: Data, take: Take) -> None:
            inc = self.incoming[frame.lane]
            if frame.lane == UP and frame.number == inc.got + 2 and not inc.early:
                for item in frame.items:
                    take(self.peer, UP, item)
                return
            super().receive(now, frame, take)


# --- safe, causal, restart ----------------------------------------------------------------------


@mutant
class SafeIgnoresThePrefix(Broken):
    """`safe` delivers a stable batch although one before it is not stable."""

    class gate_kind(Gate):  # noqa: N801
        def settle(self) -> list[Placed]:
            waiting = list(self._unsettled)
            for placed in waiting:
                last = placed.number + placed.batch.count - 1
                if self.stability.stable(placed.batch.group) >= last:
                    self._unsettled = deque([placed, *(p for p in waiting if p is not placed)])
                    return super().settle()
            return []


@mutant
class CausalHoldIgnoresAGroup(Broken):
    """The primary does not wait for the last group in a batch's past."""

    focus: ClassVar[dict[str, Any]] = {
        "causal": True,
        "deliver": "agreed",
        "table": TWO_LEVELS,
        "origins": None,
        "builder": "greedy",
    }

    class ordering_kind(Propagation):  # noqa: N801
        def _past_has_passed(self, past: Vector) -> bool:
            return super()._past_has_passed(past[:-1])


@mutant
class CausalForgetsOwnMessages(Broken):
    """An origin leaves for another primary before its earlier messages are stable."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        own = self.own

        def release() -> None:
            while own._outbound:
                own._released += 1
                own.submit(own._outbound.popleft())

        own._release = release  # type: ignore[method-assign]


@mutant
class RestartForgetsItsCounter(Broken):
    """A restarted primary counts from 1 again."""

    class ordering_kind(Propagation):  # noqa: N801
        def replay(self, record: Passed) -> None:
            super().replay(record)
            self._counter = 0


@mutant
class RestartForgetsItsSeqs(Broken):
    """A restarted origin numbers its messages from 1 again."""

    def start(self, now: int) -> None:
        if self.boot > 1:
            self.own.last_seq = {}
        super().start(now)


@mutant
class PromisesBeforeDurable(PromisesEarly, Broken):
    """Acknowledgements leave before what they acknowledge is on disk."""


@mutant
class CorruptsAPayload(Broken):
    """A relay changes what it forwards."""

    class ordering_kind(Propagation):  # noqa: N801
        def _pass(self, entry: Passed, item: Relay) -> None:
            batch = entry.placed.batch
            if entry.from_parent and batch.count == 1 and len(batch.body) > 4:
                body = batch.body[:-1] + bytes([batch.body[-1] ^ 1])
                placed = replace(entry.placed, batch=replace(batch, body=body))
                entry, item = replace(entry, placed=placed), Relay(placed)
            super()._pass(entry, item)
