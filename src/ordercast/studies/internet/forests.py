"""Forests of up to 100,000 sites by computation: the load and depth of each builder's trees, the
size of the domain and its layout, and the planner's choice.

The delays are those of the simulator's wide area. A site needs 20 µs for a message that it receives
or sends, as the planner assumes. Every site sends 0.1 messages a second.
"""

import time
from collections.abc import Callable

from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.packing import pack_layout
from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest, numbers_of, under_one_root
from ordercast.forest.greedy import build_greedy
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metrics import measure_indexed
from ordercast.forest.star import build_star
from ordercast.forest.tree import Tree
from ordercast.model.groups import GroupTable
from ordercast.model.limits import FOLDED_BYTES, VECTOR_ENTRIES
from ordercast.pipeline.sweeps.swept_verb import Config, Measured, Measures
from ordercast.plan.advice import rank
from ordercast.plan.objectives import evaluate, unit_rate
from ordercast.plan.reasons import BYTES_OUTSIDE
from ordercast.sim.network_model import model_of
from ordercast.sim.networks import WanSpec
from ordercast.studies.internet.tables import domain_share, zipf_table

BUILDERS: dict[str, Callable[[GroupTable], Forest]] = {
    "star": build_star,
    "greedy": build_greedy,
    "balanced": build_balanced,
}
LAYOUT_MB = FOLDED_BYTES / 1e6  # of a layout that fits into a frame
ENTRIES = VECTOR_ENTRIES  # groups in one array of stability
MEMORY_MB = 4_000  # of a site, for its layout
_IDLE = 1e-9  # messages a second: nobody waits


def forest_costs(config: Config, seed: int, _run: str) -> Measured:
    """`builder/measure`, and measures of the table itself."""
    table = zipf_table(config["sites"], config["drawn"], seed)
    indexed = IndexedTable.of(table)
    model = model_of(WanSpec(), table.sites)
    measures: Measures = {
        "domain_share": domain_share(table),
        "domains": float(domains := len(indexed.domains())),
        "memory_mb": BYTES_OUTSIDE * domains * len(table.sites) / 1e6,
        "layout_mb": _layout_bytes(table) / 1e6,
        "groups_most": float(max(map(len, indexed.groups_of))),
    }
    found = {}
    for name, build in BUILDERS.items():
        begun = time.process_time()
        forest = build(table)
        took = time.process_time() - begun
        parent, primary = numbers_of(forest, indexed)
        metrics = measure_indexed(indexed, parent, primary)
        found[name] = evaluate(indexed, parent, primary, metrics, unit_rate(table), model)
        idle = evaluate(indexed, parent, primary, metrics, _IDLE, model)
        measures |= {
            f"{name}/seconds": took,
            f"{name}/depth_mean": metrics.depth_mean,
            f"{name}/depth_max": float(metrics.depth_max),
            f"{name}/tree_depth": float(max(Tree.of(parent).depth)),
            f"{name}/utilisation": found[name].utilisation,
            f"{name}/idle_delay_ms": 1e3 * idle.delay,
        }
    best = min(found, key=lambda name: rank(found[name], "delay", name))
    return Measured(measures | {f"{name}/chosen": float(name == best) for name in BUILDERS})


def _layout_bytes(table: GroupTable) -> int:
    """The size of the layout, which every site has and the manager sends to a newcomer. It is
    computed for one domain with all groups on a star; other forests and several domains take about
    as many bytes."""

    def star(part: GroupTable, _builder: str, _protocol: str) -> Forest:
        return under_one_root(build_star(part))

    layout = first_layout(
        table.sites, table.sites[:3], table.groups, "star", "propagation", star, whole=True
    )
    return len(pack_layout(layout))
