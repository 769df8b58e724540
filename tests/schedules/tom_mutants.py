"""Broken variants of `tom`: the printed errors of [TOM] (errata TOM-1 to TOM-7), and mistakes that
its repair invites. Each names the checks of which one must complain.
"""

from typing import Any, ClassVar

from ordercast.core.link import Link
from ordercast.core.order.bodies import name_of
from ordercast.core.order.tom import Tom
from ordercast.core.outbox import Headed, Passed
from ordercast.core.structure import Structure
from ordercast.forest.labels import Label
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.messages import Batch, Vector
from ordercast.model.options import MILLISECOND
from ordercast.sim.faults import Fault
from ordercast.sim.networks import WanSpec
from ordercast.wire.frames import DOWN, Item, Relay
from ordercast.wire.tom import Bid
from schedules.mutants import TWO_LEVELS
from schedules.tree_mutants import CALM, BrokenTree, mutant
from support.worlds.engines import TakesFromAnyone

# Thirteen children of one site.
WIDE = GroupTable.of(
    {
        "all": ["hub", *(f"s{i:02}" for i in range(13))],
        "hub2": ["hub", "s00"],
        "hub3": ["hub", "s01"],
        "hub4": ["hub", "s10"],
    },
    rates={"all": 0.0},
)
TOM: dict[str, Any] = {**CALM, "protocol": "tom", "builder": "greedy", "table": TWO_LEVELS}
LOSSY: dict[str, Any] = {**TOM, "on_failure": "exclude", "faults": (Fault("loss", 0.2),)}
CRASHING: dict[str, Any] = {
    **TOM,
    "on_failure": "wait",
    "durability": "sync",
    "rate": 500.0,
    "messages": 120,
    "faults": (Fault("loss", 0.2), Fault("crash", count=4), Fault("restart", count=4)),
}


class Anyone(TakesFromAnyone, BrokenTree):
    """Takes final headers from any sender."""


class Multicasts(Tom):
    """Who places a batch sends its final header straight to every receiver."""

    def _route(self, batch: Batch) -> tuple[bool, tuple[Site, ...]]:
        members = batch.members or self.structure.members(batch.group)
        if not self._orders(batch):
            return (self.site in members, ())
        return (self.site in members, tuple(s for s in members if s != self.site))

    def _orders(self, batch: Batch) -> bool:
        self._routes.clear()
        return self.structure.primary(batch.group, batch.members) == self.site


# --- the printed errors -------------------------------------------------------------------------


@mutant
class FinalHeadersMulticast(Anyone):
    """TOM-3: the ordering node multicasts final headers directly: groups with different ordering
    nodes come in different orders."""

    focus: ClassVar[dict[str, Any]] = TOM
    tree_kind = Multicasts


@mutant
class OrderedByTheSources(Anyone):
    """TOM-2: the ordering node is the longest common prefix of the pending *sources'* labels; for
    one that sends alone, itself."""

    focus: ClassVar[dict[str, Any]] = TOM

    class tree_kind(Multicasts):  # noqa: N801
        def submit(self, batch: Batch) -> None:
            self._place(self.site, batch)

        def _orders(self, batch: Batch) -> bool:
            return batch.origin == self.site


@mutant
class DigitLabels(BrokenTree):
    """TOM-4: labels are digits, so the prefix of children 10 and 12 is child 1."""

    focus: ClassVar[dict[str, Any]] = {
        **TOM,
        "table": WIDE,
        "messages": 12,
        "implicit": 0.8,
    }
    breaks = ("liveness", "breakdown")

    class structure_kind(Structure):  # noqa: N801
        def primary(self, group: Group, members: tuple[Site, ...] = ()) -> Site:
            right = super().primary(group, members)
            digits = {_digits(label): site for site, label in self.labels.label.items()}
            labels = [_digits(self.labels.label[s]) for s in members or self.members(group)]
            least, greatest = min(labels), max(labels)
            length = next(
                (i for i, (a, b) in enumerate(zip(least, greatest, strict=False)) if a != b),
                min(len(least), len(greatest)),
            )
            return digits.get(least[:length], right) if members else right


def _digits(label: Label) -> str:
    return "".join(map(str, label))


@mutant
class ReceiverBeforeOrderingNode(BrokenTree):
    """TOM-1: the test for a receiver comes first, so an ordering node that is one never orders."""

    focus: ClassVar[dict[str, Any]] = TOM
    breaks = ("liveness",)

    class tree_kind(Tom):  # noqa: N801
        def _bid_arrives(self, bid: Bid) -> None:
            if bid.group not in self.structure.groups_of[self.site]:
                super()._bid_arrives(bid)


@mutant
class ExtraNodesSendBackUp(BrokenTree):
    """TOM-1: a site that is no receiver sends everything to its parent, final headers too."""

    focus: ClassVar[dict[str, Any]] = {
        **TOM,
        "table": GroupTable.of(
            {"p": ["c", "d"], "q": ["c", "b"], "s": ["c", "b"], "t": ["b", "a"], "u": ["c", "a"]}
        ),
    }
    breaks = ("liveness",)

    class tree_kind(Tom):  # noqa: N801
        def _route(self, batch: Batch) -> tuple[bool, tuple[Site, ...]]:
            mine, children = super()._route(batch)
            self._routes.clear()
            above = self.structure.parent(self.site)
            return (True, children) if mine or above is None else (False, (above,))


@mutant
class PassesAHeadWithoutItsBody(BrokenTree):
    """TOM-4: a receiver delivers what is complete, whatever it lacks before it."""

    focus: ClassVar[dict[str, Any]] = LOSSY

    class tree_kind(Tom):  # noqa: N801
        def _pass(self, entry: Passed, item: Relay) -> None:
            heads, self._heads = self._heads, type(self._heads)()
            super()._pass(entry, item)
            heads.extend(self._heads)
            self._heads = heads

        def _advance(self) -> None:
            for head in [head for head in self._heads if head.complete]:
                self._heads.remove(head)
                self.environment.persist(head.entry)
                self._log_head(head)


@mutant
class OrdersAsHeadersCome(BrokenTree):
    """TOM-7: a hop reorders within an (origin, receivers) pair, and the ordering node goes by it:
    what it then takes for a repeat is lost."""

    focus: ClassVar[dict[str, Any]] = {**TOM, "wake": 20 * MILLISECOND}
    breaks = ("lost", "liveness")

    class tree_kind(Tom):  # noqa: N801
        def _bid(self, bid: Bid) -> None:
            if bid.origin == self.site:
                super()._bid(bid)
            else:
                self.__dict__.setdefault("parked", []).append(bid)

        def flush(self, now: int) -> int:
            for bid in reversed(self.__dict__.pop("parked", [])):
                super()._bid(bid)
            return super().flush(now)

        def _release(self) -> None:
            for origin, queue in self._waiting.items():
                for batch in [batch for batch in queue if name_of(batch) in self._bids]:
                    if self.environment.room():
                        queue.remove(batch)
                        self._place_next(origin, batch)


@mutant
class CausalByClocks(BrokenTree):
    """TOM-6: causal order by numbers alone. One that is higher does not tell that another is still
    on its way, so the ordering node places what has come. Bids travel where headers did before, so
    it shows only where frames are lost."""

    focus: ClassVar[dict[str, Any]] = {**LOSSY, "causal": True}
    breaks = ("causal_order",)

    class tree_kind(Tom):  # noqa: N801
        def _past_has_passed(self, past: Vector) -> bool:  # noqa: ARG002
            return True


# --- mistakes that the repair invites -----------------------------------------------------------


@mutant
class ReordersFinalHeaders(BrokenTree):
    """Final headers overtake each other on a link down the label tree."""

    focus: ClassVar[dict[str, Any]] = {**TOM, "wake": 20 * MILLISECOND}

    class link_kind(Link):  # noqa: N801
        def push(self, lane: int, item: Item) -> int:
            count = super().push(lane, item)
            out = self.outgoing[lane]
            if lane == DOWN and out.sent < out.last - 1 and self.peer < "m":
                out.items[-1], out.items[-2] = out.items[-2], out.items[-1]
            return count


@mutant
class NeverFetches(BrokenTree):
    """A body that was lost with a restart stays lost."""

    focus: ClassVar[dict[str, Any]] = CRASHING
    breaks = ("liveness",)

    class tree_kind(Tom):  # noqa: N801
        def _fetch(self) -> None:
            pass


@mutant
class NeverBidsAgain(BrokenTree):
    """A header that was lost with the restart of a hop stays lost."""

    focus: ClassVar[dict[str, Any]] = CRASHING
    breaks = ("liveness",)

    class tree_kind(Tom):  # noqa: N801
        def _bid_again(self) -> None:
            self._bidding = False


@mutant
class ForgetsHeads(BrokenTree):
    """Headers that waited for bodies are forgotten by a restart, though acknowledged."""

    focus: ClassVar[dict[str, Any]] = {**CRASHING, "network": WanSpec()}
    breaks = ("liveness", "agreement", "breakdown", "pairwise_order")

    class tree_kind(Tom):  # noqa: N801
        def note(self, record: Headed) -> None:
            pass
