"""[GS] §4.1's experiment: random groups, their propagation forest, and what it costs.

One run draws a table and gives, for the three methods that the paper compares, depth, extra sites,
load, and when the first, the mean and the last member of a group gets a message. Measures are named
`protocol/measure`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, pstdev

from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metrics import measure
from ordercast.forest.star import build_star
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.studies.gs.heuristics import at_random, depth_by

# The constants of the point-to-point network in [GS] §4.1, those of `sim --network p2p`. The paper
# leaves them open; here a site needs a fifth of the network's latency to put a message out.
P_MS, L_MS = 1.0, 5.0
OTHER_LATENCIES = (1.0, 20.0)
"""L in milliseconds at which the last member's delay is told as well: as long as P, where
processing is significant, and so many times P that latency dominates."""

TIMED = 5  # times a forest is computed when its time is measured; the quickest counts


def forest_costs(config: Config, seed: int, _run: str) -> Measured:
    """Graphs 1 to 5."""
    table = draw_table(drawing_of(config), seed)
    measures: Measures = {}
    for protocol, found in (
        ("propagation", _propagation(table)),
        ("centralized", _centralized(table)),
        ("two_phase", _two_phase(table)),
    ):
        measures |= {f"{protocol}/{name}": float(value) for name, value in found.items()}
    measures["propagation/depth_mean_at_random"] = depth_by(at_random(seed), table)
    return Measured(measures)


def set_up_costs(config: Config, seed: int, _run: str) -> Measured:
    """The cost of computing and installing a forest, and what a message then saves.

    Installing is [GS] §5.1's Open: from the manager to each root, and down every tree, so one
    message for each site of a tree. Saved is what a multicast takes by two-phase and not by
    propagation (Table 1).
    """
    table = draw_table(drawing_of(config), seed)
    took = []
    for _ in range(TIMED):
        begun = time.perf_counter()
        forest = build_greedy(table)
        took.append(time.perf_counter() - begun)
    metrics = measure(forest, table)
    indexed = IndexedTable.of(table)
    sites = sum(1 for groups in indexed.groups_of if groups)
    compute_ms = min(took) * 1e3
    install_ms = _install_ms(forest, indexed)
    sizes = [len(members) for members in indexed.members]
    saved = fmean(3 * n - sent for n, sent in zip(sizes, metrics.messages, strict=True))
    two_phase_ms = fmean(3 * L_MS + (2 * n + 1) * P_MS for n in sizes)
    propagation_ms = fmean(_delays(Structure(1, table, forest), g)[-1] for g in indexed.groups)
    saved_ms = two_phase_ms - propagation_ms
    measures = {
        "compute_ms": compute_ms,
        "install_ms": install_ms,
        "install_messages": float(sites),
        "saved_messages": saved,
        "saved_ms": saved_ms,
        "pays_in_messages": float(saved > 0),
        "pays_in_delay": float(saved_ms > 0),
    }
    if saved > 0:
        measures["break_even_messages"] = sites / saved
    if saved_ms > 0:
        measures["break_even_delay"] = (compute_ms + install_ms) / saved_ms
    return Measured(measures)


def _propagation(table: GroupTable) -> Mapping[str, float]:
    forest = build_greedy(table)
    metrics = measure(forest, table)
    structure = Structure(1, table, forest)
    hops = [
        [structure.depth(site) - structure.depth(forest.primary[group]) for site in members]
        for group, members in table.groups.items()
    ]
    ways = [_ways(structure, group) for group in table.groups]
    return {
        "depth_mean": metrics.depth_mean,
        "depth_max": metrics.depth_max,
        "extra_mean": metrics.extra_mean,
        "extra_share": fmean(extra > 0 for extra in metrics.extra),
        "load_max": metrics.load_max,
        "member_depth_mean": fmean(fmean(each) for each in hops),
        "member_depth_sd": fmean(pstdev(each) for each in hops),
        **_delay_measures([_after(each, L_MS) for each in ways]),
        **_other_last_ms(lambda l_ms: [_after(each, l_ms)[-1] for each in ways]),
    }


def _centralized(table: GroupTable) -> Mapping[str, float]:
    """One centre for all groups, the site in most of them: it receives each message once and
    sends it to every other member (errata GS-10). `load_star`: with a centre for each domain."""
    indexed = IndexedTable.of(table)
    memberships = [len(groups) for groups in indexed.groups_of]
    centre = memberships.index(max(memberships))
    load = sum(1 + len(members) - (centre in members) for members in indexed.members)
    delays = []
    for members in indexed.members:
        others = len(members) - (centre in members)
        at_centre = [L_MS + P_MS] if centre in members else []
        delays.append(at_centre + [2 * L_MS + (2 + i) * P_MS for i in range(others)])
    return {
        "load_max": load,
        "load_star": measure(build_star(table), table).load_max,
        **_delay_measures(delays),
    }


def _two_phase(table: GroupTable) -> Mapping[str, float]:
    """From [GS]'s description: a member receives the message, answers, and receives the final
    number, so three per membership; a source sends, receives and sends n times each. `load_mean`:
    of the sites that are in any group."""
    indexed = IndexedTable.of(table)
    sizes = [len(members) for members in indexed.members]
    received = [3 * len(groups) for groups in indexed.groups_of if groups]
    delays = [[3 * L_MS + (n + 2 + i) * P_MS for i in range(n)] for n in sizes]
    return {
        "load_max": max(received),
        "load_mean": fmean(received),
        "load_source": 3 * fmean(sizes),
        "load_one_source": 3 * sum(sizes),
        **_delay_measures(delays),
        **_other_last_ms(lambda l_ms: [3 * l_ms + (2 * n + 1) * P_MS for n in sizes]),
    }


def last_at(l_ms: float) -> str:
    """The measure of the last member's delay at another L."""
    return f"delay_last_ms_at_{l_ms:g}"


def _other_last_ms(delays: Callable[[float], Sequence[float]]) -> dict[str, float]:
    return {last_at(l_ms): fmean(delays(l_ms)) for l_ms in OTHER_LATENCIES}


def _delays(structure: Structure, group: Group) -> list[float]:
    return _after(_ways(structure, group), L_MS)


def _after(ways: Sequence[tuple[int, int]], l_ms: float) -> list[float]:
    return sorted(hops * l_ms + sends * P_MS for hops, sends in ways)


def _ways(structure: Structure, group: Group) -> list[tuple[int, int]]:
    """The time until each member has a message to the group with nothing else under way, as
    multiples of L and P: a site sends to its children one after another, each send takes P, each
    hop another L."""
    members = structure.groups[group]
    wanted = set(members)
    arrivals = [(1, 1, structure.primary(group))]
    found = []
    for hops, sends, site in arrivals:  # grows while it is read
        if site in wanted:
            found.append((hops, sends))
        below = structure.routes(site, members)
        arrivals += [(hops + 1, sends + i + 1, child) for i, child in enumerate(below)]
    return found


def _delay_measures(delays: Sequence[Sequence[float]]) -> dict[str, float]:
    return {
        "delay_first_ms": fmean(min(each) for each in delays),
        "delay_mean_ms": fmean(fmean(each) for each in delays),
        "delay_last_ms": fmean(max(each) for each in delays),
    }


def _install_ms(forest: Forest, indexed: IndexedTable) -> float:
    """Until the last site has the Open that the manager, an outside process, sends to the roots."""
    used = {site for site, groups in zip(indexed.sites, indexed.groups_of, strict=True) if groups}
    children: dict[Site | None, list[Site]] = {}
    for site, parent in forest.parent.items():
        if site in used:
            children.setdefault(parent, []).append(site)
    last = 0.0
    waiting: list[tuple[float, Site | None]] = [(0.0, None)]
    for at, place in waiting:  # grows while it is read
        last = max(last, at)
        below = children.get(place, [])
        waiting += [(at + (i + 1) * P_MS + L_MS, child) for i, child in enumerate(below)]
    return last
