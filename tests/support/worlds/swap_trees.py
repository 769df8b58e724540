"""A tree of pure swap objects with FIFO links, in which a test chooses what arrives next."""

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from ordercast.core.order.arrow import ArrowSwap
from ordercast.core.order.arrow_counting import ArrowCounting
from ordercast.core.order.arrow_groups import GroupSwap
from ordercast.core.order.combining import CombiningSwap
from ordercast.core.order.combining_counting import CombiningCounting
from ordercast.core.order.hybrid import HybridSwap
from ordercast.core.order.swaps import (
    Found,
    NumberKnown,
    SendCount,
    SendMark,
    Step,
    SwapObject,
    SwapSend,
    Tell,
    TellMark,
    ask_of,
)
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Batch, pack_payloads
from ordercast.studies.swap.tree import Say, SwapTree
from ordercast.wire.swap import NOBODY, ChainMark, MarkValue
from ordercast.wire.tom import MessageName

Parents = Mapping[str, str | None]
Make = Callable[[str, Parents], SwapObject]


def message(origin: str, seq: int = 1) -> Batch:
    return Batch(origin, 1, "g", seq, 1, pack_payloads([b"%d" % seq]))


def name(origin: str, seq: int = 1) -> MessageName:
    return (origin, 1, "g", seq)


def depth(parents: Parents, site: str) -> int:
    above = parents[site]
    return 0 if above is None else 1 + depth(parents, above)


def hybrid(site: str, parents: Parents) -> SwapObject:
    core = [s for s in parents if depth(parents, s) <= 1]
    return HybridSwap(site, parents[site], core)


def hybrid_of(size: int) -> Make:
    """`hybrid:N`: the core has so many sites."""

    def make(site: str, parents: Parents) -> SwapObject:
        nearest = sorted(parents, key=lambda s: (depth(parents, s), s))
        return HybridSwap(site, parents[site], nearest[:size])

    return make


def hybrid_with(core: int, size: int) -> Make:
    """`hybrid:N:M`: groups of so many sites below the core."""
    plain = hybrid_of(core)

    def make(site: str, parents: Parents) -> SwapObject:
        tops = tops_below(core, size, parents)
        above = parents[site]
        near = [s for s in parents if parents[s] == site or s == above]
        group = [s for s in near if site in tops and tops.get(s) == tops[site]]
        return GroupSwap(site, above, group) if group and above else plain(site, parents)

    return make


def tops_below(core: int, size: int, parents: Parents) -> Mapping[str, str]:
    table = GroupTable(tuple(sorted(parents)), {"g": tuple(sorted(parents))})
    (root,) = (site for site, above in parents.items() if above is None)
    structure = Structure(1, table, Forest("given", dict(parents), {"g": root}))
    return structure.tellers.tops_below(root, core, size)


OBJECTS: dict[str, Make] = {
    "arrow": lambda site, parents: ArrowSwap(site, parents[site] or site),
    "combining": lambda site, parents: CombiningSwap(site, parents[site]),
    "hybrid": hybrid,
    "hybrid:1": hybrid_of(1),
    "hybrid:3": hybrid_of(3),
    "hybrid:99": hybrid_of(99),
    "hybrid:1:2": hybrid_with(1, 2),
    "hybrid:1:3": hybrid_with(1, 3),
    "hybrid:2:4": hybrid_with(2, 4),
    "hybrid:1:4": hybrid_with(1, 4),
    "hybrid:1:99": hybrid_with(1, 99),
    "arrow_counting": lambda site, parents: ArrowCounting(site, parents[site] or site),
    "combining_counting": lambda site, parents: CombiningCounting(site, parents[site]),
}


def random_parents(rng: Random, sites: int) -> Parents:
    names = [f"s{number}" for number in range(sites)]
    return {n: names[rng.randrange(i)] if i else None for i, n in enumerate(names)}


def distance(parents: Parents, a: str, b: str) -> int:
    def path(site: str) -> list[str]:
        above = parents[site]
        return [site] if above is None else [site, *path(above)]

    up, other = path(a), path(b)
    common = next(site for site in up if site in other)
    return up.index(common) + other.index(common)


class Network:
    """`links`: what is on its way, per directed link; `found`: message -> predecessor or number."""

    def __init__(self, objects: Mapping[str, Any]) -> None:
        self.objects = dict(objects)
        self.links: dict[tuple[str, str], deque[Any]] = defaultdict(deque)
        self.found: dict[MessageName, MessageName | int] = {}
        self.where: dict[MessageName, str] = {}  # a site multicasts it
        self.hops: dict[MessageName, int] = defaultdict(int)  # of the message that a request is for
        self.words = 0  # of joining and leaving
        self.chained: MessageName = NOBODY
        self.dead: set[str] = set()  # what is said to them is lost

    @classmethod
    def of(cls, protocol: str, parents: Parents) -> "Network":
        return cls({site: OBJECTS[protocol](site, parents) for site in parents})

    def issue(self, origin: str, seq: int = 1) -> None:
        self._follow(origin, self.objects[origin].swap(ask_of(message(origin, seq), origin)))

    def turn(self, site: str) -> None:
        self._follow(site, self.objects[site].turn())

    def deliver(self, source: str, target: str) -> None:
        """The first that is on its way on this link arrives."""
        step, at = self.links[source, target].popleft(), self.objects[target]
        if isinstance(step, SwapSend):
            self.hops[step.ask.batch.origin, 1, "g", step.ask.batch.seq] += 1
            self._follow(target, at.receive(source, step.ask))
        elif isinstance(step, SendCount):
            self._follow(target, at.count(source, step.count))
        elif isinstance(step, Tell):
            self._follow(target, at.told(source, step.name, step.value))
        elif isinstance(step, SendMark):
            at.check_mark(source, ChainMark(1, step.mark))
            self._follow(target, at.marked(source, step.mark))
        elif isinstance(step, TellMark):
            at.check_mark(source, MarkValue(1, step.mark, step.last))
            self._follow(target, at.mark_told(source, step.mark, step.last))
        else:
            self._follow(target, at.hear(source, step.word, self.chained))

    def kill(self, site: str) -> None:
        """The site says nothing more, and what is on its way from and to it is lost."""
        del self.objects[site]
        self.dead.add(site)
        for link in [link for link in self.links if site in link]:
            del self.links[link]

    def under_way(self) -> list[tuple[str, str]]:
        return sorted(link for link, queue in self.links.items() if queue)

    def settle(self, rng: Random) -> None:
        """Everything arrives, in any order that FIFO links allow, and nothing waits to combine."""
        while True:
            ready = self.under_way()
            waiting = [site for site, at in sorted(self.objects.items()) if _waits(at)]
            if not ready and not waiting:
                return
            choice = rng.randrange(len(ready) + len(waiting))
            if choice < len(ready):
                self.deliver(*ready[choice])
            else:
                self.turn(waiting[choice - len(ready)])

    def say(self, site: str, steps: Sequence[Step | Say]) -> None:
        self._follow(site, steps)

    def _follow(self, site: str, steps: Sequence[Step | Say]) -> None:
        for step in steps:
            if isinstance(step, (Found, NumberKnown)):
                batch = step.batch
                of = (batch.origin, batch.incarnation, batch.group, batch.seq)
                assert of not in self.found, f"{of} is placed twice"
                self.found[of] = step.after if isinstance(step, Found) else step.place
                self.where[of] = site
            else:
                self.words += isinstance(step, Say)
                if step.peer not in self.dead:
                    self.links[site, step.peer].append(step)

    def chain(self) -> list[MessageName]:
        """All messages in order: each but the first has its predecessor, and each one successor."""
        if all(isinstance(place, int) for place in self.found.values()):
            order = sorted(self.found, key=lambda of: self.found[of])
            assert [self.found[of] for of in order] == list(range(1, len(order) + 1))
            return order
        after = {before: of for of, before in self.found.items()}
        assert len(after) == len(self.found), "two messages have one predecessor"
        order, last = [], NOBODY
        while last in after:
            last = after[last]
            order.append(last)
        assert len(order) == len(self.found), "the chain is broken"
        return order


def _waits(at: Any) -> bool:
    swaps = at.swaps if isinstance(at, SwapTree) else at
    return bool(swaps.waiting()) and not (isinstance(at, SwapTree) and at._locker)


def require_order(chain: list[MessageName], issued: dict[str, int]) -> None:
    """All messages are chained, those of an origin in their order."""
    assert len(chain) == sum(issued.values())
    for origin, count in issued.items():
        assert [seq for o, _, _, seq in chain if o == origin] == list(range(1, count + 1))
