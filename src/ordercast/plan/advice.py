"""`advise`: compare the builders' forests by an objective, choose one and say why."""

from collections.abc import Sequence
from dataclasses import dataclass

from ordercast.forest.cyclic_components import cyclic_components
from ordercast.forest.forest import Forest
from ordercast.forest.given_tree import GIVEN
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.metrics import Metrics
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.names import nearest
from ordercast.plan.candidates import BUILDERS, NAMED, Candidate, build_candidates
from ordercast.plan.objectives import (
    EVERY_OBJECTIVE,
    LAN,
    OBJECTIVES,
    NetworkModel,
    Values,
    cost_of,
)
from ordercast.plan.reasons import explain

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Plan:
    """The forest to use, why, and what the others would cost."""

    objective: str
    chosen: Candidate
    compared: tuple[Candidate, ...]  # in the order of BUILDERS; only the chosen one if asked for
    reasons: tuple[str, ...]
    cyclic: tuple[tuple[Group, ...], ...]
    domains: int

    @property
    def forest(self) -> Forest:
        return self.chosen.forest

    @property
    def metrics(self) -> Metrics:
        return self.chosen.metrics


def advise(
    table: GroupTable,
    builder: str = AUTO,
    objective: str = "delay",
    branching: int | None = None,
    tie: Sequence[Site] = (),
    rebalance: bool = False,
    partitioner: str | None = None,
    model: NetworkModel = LAN,
) -> Plan:
    """The best forest by the objective, or the one of the builder asked for.

    `partitioner`: for the builder `balanced`; by default the best that is installed.
    """
    check_options(builder, objective, branching, tie)
    indexed = IndexedTable.of(table)
    compared = build_candidates(
        table,
        indexed,
        BUILDERS if builder == AUTO else (builder,),
        cost=cost_of(objective, table, model),
        branching=branching,
        tie=tie,
        rebalanced=rebalance,
        partitioner=partitioner,
        model=model,
    )
    ranked = sorted(compared, key=lambda each: rank(each.values, objective, each.builder))
    cyclic = tuple(tuple(component) for component in cyclic_components(table))
    return Plan(
        objective=objective,
        chosen=ranked[0],
        compared=compared,
        reasons=tuple(explain(table, indexed, objective, builder == AUTO, ranked, cyclic, model)),
        cyclic=cyclic,
        domains=len(indexed.domains()),
    )


def check_options(
    builder: str, objective: str, branching: int | None, tie: Sequence[Site] = ()
) -> None:
    """Refuse what makes no sense before any work is done."""
    known = (*NAMED, GIVEN, AUTO)
    if builder not in known:
        raise ConfigError(f"builder: there is no builder {builder!r}{nearest(builder, known)}")
    if objective not in EVERY_OBJECTIVE:
        hint = nearest(objective, EVERY_OBJECTIVE)
        raise ConfigError(f"objective: there is no objective {objective!r}{hint}")
    if branching is not None:
        if branching < 2:
            raise ConfigError(f"branching: {branching} is too small (2 or more)")
        if builder not in ("balanced", AUTO):
            raise ConfigError(f"branching: shapes 'balanced' only, not {builder!r}")
    check_tie(builder, tie)


def check_tie(builder: str, tie: Sequence[Site]) -> None:
    if tie and builder not in ("greedy", AUTO):
        raise ConfigError(f"tie: settles ties of 'greedy' only, not of {builder!r}")


def rank(values: Values, objective: str, builder: str) -> tuple[float, ...]:
    """The objective, then the others, then the simplest; rounding noise decides nothing."""
    others = [name for name in OBJECTIVES if name != objective]
    found = [values.of(name) for name in (objective, *others)]
    return (*(float(f"{round(value, 12):.9g}") for value in found), (*NAMED, GIVEN).index(builder))
