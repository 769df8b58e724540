"""Broken variants of the protocols on trees of their own kind: `metagroup`.

Each is a class of sites as in `mutants`; `focus` picks protocol, builder and a table in which the
mistake can matter, and no faults: the order alone must give it away.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar
from unittest.mock import patch

from ordercast.core import engine as engine_module
from ordercast.core.order.metagroup import Metagroup
from ordercast.core.order.propagation import Propagation
from ordercast.core.order.registry import protocol_named
from ordercast.core.outbox import Passed
from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable, Site
from ordercast.wire.frames import DOWN, Relay
from schedules.mutants import TWO_LEVELS, Broken, believe
from support.worlds.engines import TakesFromAnyone


class BrokenTree(Broken):
    breaks: ClassVar[tuple[str, ...]] = ("pairwise_order",)  # one of these checks must complain
    tree_kind: ClassVar[type[Propagation] | None] = None

    def __init__(self, name: Site, structure: Structure, *args: Any, **options: Any) -> None:
        info = protocol_named(options["protocol"])
        if self.tree_kind is not None:
            info = replace(info, make=self.tree_kind)
        with patch.object(engine_module, "protocol_named", lambda _: info):
            super().__init__(name, structure, *args, **options)
        believe(self)


TREE_MUTANTS: dict[str, type[BrokenTree]] = {}


def mutant(cls: type[BrokenTree]) -> type[BrokenTree]:
    TREE_MUTANTS[cls.__name__] = cls
    return cls


def doubled(table: GroupTable) -> GroupTable:
    """Every site twice: metagroups of two at least."""
    groups = {g: [f"{s}{i}" for s in members for i in "12"] for g, members in table.groups.items()}
    return GroupTable.of(groups, rates=table.rates)


CALM: dict[str, Any] = {
    "faults": (),
    "origins": None,
    "deliver": "agreed",
    "causal": False,
    "messages": 60,
    "rate": 5000.0,
}


@mutant
class StraightToTheMembers(TakesFromAnyone, BrokenTree):
    """OTHER-4: a parent sends straight to all members of a child metagroup, whose delegate sends
    them only what it places itself."""

    focus: ClassVar[dict[str, Any]] = {
        **CALM,
        "protocol": "metagroup",
        "builder": "metagroups",
        "table": doubled(TWO_LEVELS),
    }

    class tree_kind(Metagroup):  # noqa: N801
        def _pass(self, entry: Passed, item: Relay) -> None:
            batch, structure = entry.placed.batch, self.structure
            members = batch.members or structure.members(batch.group)
            mine, children = self._route(batch)
            receivers = [c for c in children if structure.delegate(c) == c or not entry.from_parent]
            for child in list(receivers):
                if structure.delegate(child) == child:
                    receivers += [
                        s for s in structure.children[child] if self._ordinary(s, members)
                    ]
            self._numbers[batch.group] = entry.placed.number + batch.count - 1
            self.environment.persist(entry)
            for receiver in receivers:
                self.environment.send(receiver, DOWN, item)
            if mine:
                self._log.append(entry.placed)
            self.environment.passed(entry, receivers, mine=mine)

        def _ordinary(self, site: Site, members: Sequence[Site]) -> bool:
            return site in members and self.structure.delegate(site) != site
