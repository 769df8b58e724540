"""Soak campaign: random group tables of many shapes through every forest builder.

Each forest must be correct for its table, must not depend on the order in which the table is
written, and must cost what a plain walk along its paths counts. The last is the check of the
metrics, which take short cuts.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metrics import extra_sites, measure
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable
from support.judges.forests import problems
from tools.soak.campaign import Outcome

BUILDERS: Mapping[str, Callable[[GroupTable], Forest]] = {
    "greedy": build_greedy,
    "star": build_star,
    "balanced": build_balanced,
    "balanced without METIS": partial(build_balanced, partitioner="builtin"),
}


def run(seed: int) -> Outcome:
    rng = random.Random(seed)
    shape, table = draw_table(rng)
    rewritten = rewrite(table, rng)
    wrong = []
    for name, build in BUILDERS.items():
        forest = build(table)
        complaint = faults(forest, table)
        if complaint is None and build(rewritten) != forest:
            complaint = "the forest depends on the order of the table"
        if complaint is not None:
            wrong.append(f"{name}: {complaint}")
    counters = {"forests": 2 * len(BUILDERS), "groups": len(table.groups), f"{shape} tables": 1}
    return Outcome(not wrong, counters, f"{shape} table: {'; '.join(wrong)}")


def faults(forest: Forest, table: GroupTable) -> str | None:
    """What is wrong with a forest: the first of its problems stands for all."""
    found = problems(forest, table)
    if found:
        return found[0] + (f" (and {len(found) - 1} more)" if len(found) > 1 else "")
    walked = [len(extra) for _, extra in sorted(extra_sites(forest, table).items())]
    if walked != list(measure(forest, table).extra):
        return "the metrics count other extra sites than a walk"
    return None


def draw_table(rng: random.Random) -> tuple[str, GroupTable]:
    """A table of one of the shapes below; mostly small, now and then some hundred sites."""
    shape = rng.choice(sorted(SHAPES))
    count = rng.choice((rng.randint(1, 8), rng.randint(2, 40), rng.randint(20, 200)))
    members = SHAPES[shape](rng, count)
    groups = {f"g{number}": [f"s{site}" for site in them] for number, them in enumerate(members)}
    rates = {group: rng.choice((0.0, 1.0, rng.uniform(0, 1000))) for group in groups}
    idle = [f"s{count + number}" for number in range(rng.choice((0, 0, 3)))]
    sites = [f"s{site}" for site in range(count)] + idle
    return shape, GroupTable.of(groups, sites=sites, rates=rates if rng.random() < 0.5 else None)


def rewrite(table: GroupTable, rng: random.Random) -> GroupTable:
    """The same table with sites, groups and members in another order."""

    def shuffled(names: Mapping[str, object] | tuple[str, ...]) -> list[str]:
        return rng.sample(sorted(names), len(names))

    groups = {group: shuffled(table.groups[group]) for group in shuffled(table.groups)}
    return GroupTable.of(groups, sites=shuffled(table.sites), rates=table.rates)


def anywhere(rng: random.Random, sites: int) -> list[list[int]]:
    size = rng.randint(1, min(sites, 8))
    return [rng.sample(range(sites), rng.randint(1, size)) for _ in range(rng.randint(1, sites))]


def local(rng: random.Random, sites: int) -> list[list[int]]:
    """Neighbours on a ring, as when groups follow places."""
    spread = rng.uniform(0.5, 5)
    groups = []
    for _ in range(rng.randint(1, sites)):
        centre = rng.randrange(sites)
        drawn = [round(rng.gauss(centre, spread)) % sites for _ in range(rng.randint(1, 6))]
        groups.append(list(dict.fromkeys(drawn)))
    return groups


def chain(rng: random.Random, sites: int) -> list[list[int]]:
    """Pairs along a path, sometimes closed to a ring."""
    pairs = [[site, site + 1] for site in range(sites - 1)]
    if rng.random() < 0.5 and sites > 2:
        pairs.append([sites - 1, 0])
    return pairs or [[0]]


def giant(rng: random.Random, sites: int) -> list[list[int]]:
    return [list(range(sites)), *anywhere(rng, sites)]


def nested(rng: random.Random, sites: int) -> list[list[int]]:
    order = rng.sample(range(sites), sites)
    return [order[: rng.randint(1, sites)] for _ in range(rng.randint(1, 10))]


def all_pairs(rng: random.Random, sites: int) -> list[list[int]]:
    """Of a few sites: a path is forced wherever the primary is a member."""
    few = rng.sample(range(sites), min(sites, 12))
    return [[a, b] for a in few for b in few if a < b] or [[0]]


SHAPES: Mapping[str, Callable[[random.Random, int], list[list[int]]]] = {
    "all-pairs": all_pairs,
    "anywhere": anywhere,
    "chain": chain,
    "giant": giant,
    "local": local,
    "nested": nested,
}
