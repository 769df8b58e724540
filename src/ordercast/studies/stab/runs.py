"""[STAB]: the points of its tables and figures, and what is measured at each, by the simulator.

Points name a tree as `ordercast stability` does (`tree`, `random_tree` with its seed), `members`
beside it. All protocols run on the same tree; above 1,365 members `full_dist` is left out.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.trigger import best_limit
from ordercast.model.options import SECOND
from ordercast.pipeline.sweeps.stability_rounds import of_round
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.sim.rounds.tracking import Setting, track
from ordercast.sim.rounds.tree import TreeShape, parse_random_tree, parse_tree
from ordercast.sim.rounds.tree_network import CostModel
from ordercast.studies.stab.s_full_dist import StructuredFullDist
from ordercast.studies.stab.traffic import DataLoad, measure_load
from ordercast.studies.stab.triggering import Buffers, measure_trigger

Points = list[dict[str, Any]]

STRUCTURED = ("s_coordp", "s_train")
MOST_FULL_DIST = 1_365  # members

TABLE_3 = tuple((b, z) for b in (2, 3, 4) for z in range(1, b + 1))
_HEIGHT = 5
_QUICK_WIDEST = 3  # of b
_RANDOM_TREES = 10
_QUICK_RANDOM_TREES = 2
_COMPLETE = ((2, 2), (2, 3), (2, 4), (2, 5), (3, 3), (3, 4), (3, 5), (4, 3), (4, 4), (4, 5))
_SCALE = (50, 100, 200, 500, 1_000, MOST_FULL_DIST, 2_000, 5_000, 10_000, 20_000)
_QUICK_SCALE = (50, 200, 1_000)
_QUICK_ELSEWHERE = 200  # members, at most
_SETTINGS: tuple[dict[str, str], ...] = ({}, {"placement": "shuffled"}, {"links": "wan"})

S_FULL_DIST = "s_full_dist"
_VARIANT_SIZES = (50, 200, 1_000, 5_000, 20_000, 100_000)
_LARGEST_SLOW = 5_000  # members, with slow routers or long links everywhere
_VARIANTS = (("senders", 1, "lan"), ("total", 1, "lan"), ("senders", 5, "lan"),
             ("senders", 10, "lan"), ("senders", 1, "wide"), ("total", 1, "wide"))  # fmt: skip
_MOST_MEMBERS = {"full_dist": 1_000, S_FULL_DIST: 20_000, "coordp": 20_000, "train": 20_000}

BUSY = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9)
_QUICK_BUSY = (0.0, 0.5, 0.8)
_DATA_BYTES = 1_000
_LARGER_TREES, _LARGER_BUSY = ("b=3,p=5,z=1", "n=1000,b=4"), (0.0, 0.4, 0.8)  # 202, 1,000 members
# Members: every datum goes to all of them, as long as a round lasts.
_MOST_LOADED = {"full_dist": 150, "train": 150, "coordp": 500}
_ROUNDS = 6  # measured in each run

# The trigger: 15 members on a WAN, where much is sent during a round.
TRIGGER_TREE = "b=2,p=3,z=2"
BUFFER = 40
RATE = 60  # messages a second from each member
MEASURED_LIMIT = 0  # stands for the limit that every member measures for itself
_REPAIR_MS = 300
_LOSSES = (0.0, 0.005)
_LIMITS = (2, 5, 10, 15, 20, 25, 28, 30, 32, 34, 36, 38, 40, 45)
_QUICK_LIMITS = (5, 15, 25, 30, 34, 36, 45)
_PATIENCE = 2 * SECOND


# --- rounds ---------------------------------------------------------------------------------------


def table_3(quick: bool) -> Points:
    """Near-complete trees of height 5."""
    return _trees([(b, _HEIGHT, z) for b, z in TABLE_3], quick)


def _trees(shapes: Sequence[tuple[int, int, int]], quick: bool) -> Points:
    narrow = [shape for shape in shapes if shape[0] <= _QUICK_WIDEST or not quick]
    trees = [f"b={b},p={p},z={z}" for b, p, z in narrow]
    return [{"members": parse_tree(tree).n, "tree": tree} for tree in trees]


def with_random_trees(quick: bool) -> Points:
    """Table 3's sizes, complete and random."""
    found = table_3(quick)
    seeds = range(1, 1 + (_QUICK_RANDOM_TREES if quick else _RANDOM_TREES))
    for point, seed in product(list(found), seeds):
        shape = parse_tree(point["tree"])
        drawn = f"n={shape.n},b={shape.b},p={shape.p},seed={seed}"
        found.append({"members": shape.n, "random_tree": drawn})
    return found


def complete_trees(quick: bool) -> Points:
    """§4: every inner node has b children."""
    return _trees([(b, p, b) for b, p in _COMPLETE], quick)


def sizes(quick: bool) -> Points:
    """From 50 to 20,000 members, four children each: the protocol's tree is the network's; or its
    members sit anywhere; or the root's children are far away."""
    return [
        {"members": n, "tree": f"n={n},b=4", **setting}
        for n, setting in product(_QUICK_SCALE if quick else _SCALE, _SETTINGS)
        if not (quick and setting and n > _QUICK_ELSEWHERE)
    ]


def round_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure` of one round each."""
    shape = shape_of(config)
    measures: Measures = {}
    for protocol in PROTOCOLS:
        if protocol == "full_dist" and shape.n > MOST_FULL_DIST:
            continue
        setting = Setting(
            protocol, shape, config.get("placement", "same"), config.get("links", "lan")
        )
        for name, value in of_round(track(setting, seed)).items():
            measures[f"{protocol}/{name}"] = value
    return Measured(measures)


def variants(quick: bool) -> Points:
    """Arrays and single numbers, slower routers, links that are long everywhere."""
    return [
        {"members": n, "tree": f"n={n},b=4", "array": array, "router": router, "links": links}
        for n in ((50, 200, 1_000) if quick else _VARIANT_SIZES)
        for array, router, links in _VARIANTS
        if n <= _LARGEST_SLOW or (router, links) == (1, "lan")
    ]


def variant_costs(config: Config, seed: int, _run: str) -> Measured:
    """`protocol/measure`; `s_full_dist` as well, and of very many members only what scales."""
    shape = parse_tree(config["tree"])
    measures: Measures = {}
    for protocol in (*PROTOCOLS, S_FULL_DIST):
        if shape.n > _MOST_MEMBERS.get(protocol, shape.n):
            continue
        named = "s_coordp" if protocol == S_FULL_DIST else protocol
        setting = Setting(
            named, shape, links=config["links"], array=config["array"], router_ms=config["router"]
        )
        if protocol == S_FULL_DIST:
            found = track(setting, seed, lambda _: StructuredFullDist)
        else:
            found = track(setting, seed)
        for name in ("rtt_ms", "rounds", "messages_on_hops", "queue_cpu", "processed_root"):
            measures[f"{protocol}/{name}"] = of_round(found)[name]
    return Measured(measures)


def shape_of(config: Config) -> TreeShape:
    if "random_tree" in config:
        return parse_random_tree(config["random_tree"])
    return parse_tree(config["tree"])


# --- data beside them -----------------------------------------------------------------------------


def loads(quick: bool) -> Points:
    trees = ("b=2,p=5,z=1",) if quick else ("b=2,p=5,z=1", "b=3,p=4,z=3")
    found = list(product(trees, _QUICK_BUSY if quick else BUSY))
    if not quick:
        found += product(_LARGER_TREES, _LARGER_BUSY)
    return [{"members": parse_tree(tree).n, "tree": tree, "busy": busy} for tree, busy in found]


def load_costs(config: Config, seed: int, _run: str) -> Measured:
    """f(r) of each protocol, with r such that data alone keeps every processor this busy."""
    shape = shape_of(config)
    costs, size = CostModel(), CostModel().header + _DATA_BYTES
    each = costs.send(size) + shape.n * costs.receive(size)
    rate = config["busy"] * SECOND / each
    data = DataLoad(rate, _DATA_BYTES) if rate else None
    measures: Measures = {}
    for protocol in PROTOCOLS:
        if shape.n > _MOST_LOADED.get(protocol, shape.n):
            continue
        found = measure_load(Setting(protocol, shape), data, seed, rounds=_ROUNDS)
        measures[f"{protocol}/rtt_ms"] = found.rtt_ms
        measures[f"{protocol}/rate"] = rate
        measures[f"{protocol}/queue_cpu"] = float(found.longest_cpu)
    return Measured(measures)


# --- the trigger ----------------------------------------------------------------------------------


def limits(quick: bool) -> Points:
    members = parse_tree(TRIGGER_TREE).n
    return [
        {"members": members, "loss": loss, "limit": limit, "messages": 200 if quick else 500}
        for loss, limit in product(
            _LOSSES, (*(_QUICK_LIMITS if quick else _LIMITS), MEASURED_LIMIT)
        )
    ]


def trigger_costs(config: Config, seed: int, _run: str) -> Measured:
    """Rounds, stops and time to stable with X = `limit`, and what §6 would choose from the f and α
    of this very run: its own formula, and the mended one."""
    measured = config["limit"] == MEASURED_LIMIT
    if measured:
        buffers = Buffers(BUFFER, config["messages"], anyone_asks=True, patience=_PATIENCE)
    else:
        buffers = Buffers(BUFFER, config["messages"], config["limit"])
    setting = Setting("s_coordp", parse_tree(TRIGGER_TREE), links="wan")
    data = DataLoad(RATE, 200, config["loss"], _REPAIR_MS * 1_000_000)
    found = measure_trigger(setting, data, buffers, seed)
    members = setting.shape.n
    measures: dict[str, float] = {
        "rounds": found.rounds,
        "stops": found.stops / members,
        "first_stops": found.first_stops,
        "stopped_share": found.stopped_ns / found.end_ns / members,
        "first_stopped_share": found.first_stopped_ns / found.end_ns,
        "stable_share": found.stable / (members * config["messages"]),
    }
    if found.rounds:
        q, alpha = found.round_ms * RATE / 1e3, found.alpha
        measures |= {
            "time_to_stable_ms": found.time_to_stable_ms,
            "round_ms": found.round_ms,
            "alpha": alpha,
            "meanwhile": q,
            "mended_limit": best_limit(BUFFER, round(q), round(1000 * alpha), 1000),
            "printed_limit": max(BUFFER - q, (BUFFER - 2 * q) / (1 - alpha) if alpha < 1 else 0),
        }
        if not measured:
            measures["rounds_formula"] = config["messages"] / (alpha * config["limit"])
    return Measured({name: float(value) for name, value in measures.items()})
