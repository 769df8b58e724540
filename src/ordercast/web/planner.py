"""The Planner page: groups as text in, the builders' forests side by side out."""

import json
import time
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, parse_groups
from ordercast.plan import protocols
from ordercast.plan.advice import Plan, advise
from ordercast.plan.candidates import Candidate
from ordercast.plan.protocols import advise_protocol
from ordercast.plan.report import compared
from ordercast.sim.options import inline_table
from ordercast.web.forest_picture import ForestShape, draw_forest

MOST_SITES, MOST_GROUPS, MOST_MEMBERS = 2_000, 5_000, 50_000
DRAWN = 300  # sites: no larger forest is drawn
EXAMPLE = """\
[groups]
sales  = ["ada", "ben", "cem"]
stock  = ["cem", "dia", "eva"]
alerts = ["ben", "cem", "eva"]
night  = ["eva", "fay"]
"""


def plan_text(text: str, objective: str) -> dict[str, Any]:
    name = "groups.json" if text.lstrip().startswith("{") else "groups.toml"
    table = parse_groups(text, source=name)
    members = sum(map(len, table.groups.values()))
    for what, count, most in (
        ("sites", len(table.sites), MOST_SITES),
        ("groups", len(table.groups), MOST_GROUPS),
        ("members", members, MOST_MEMBERS),
    ):
        if count > most:
            raise ConfigError(
                f"{what}: {count:,} are too many for the page ({most:,}); see 'ordercast plan'"
            )
    begun = time.perf_counter()
    plan = advise(table, objective=objective)
    advice = advise_protocol(plan, table)
    upper, lower, *rows = protocols.rows_of(advice)
    head = [f"{one} {other}".strip() for one, other in zip(upper, lower, strict=True)]
    return {
        "seconds": round(time.perf_counter() - begun, 3),
        "summary": f"{len(table.groups):,} groups, {len(table.sites):,} sites,"
        f" {plan.domains:,} domain{'' if plan.domains == 1 else 's'}",
        "chosen": plan.chosen.builder,
        "reasons": list(plan.reasons),
        "builders": [_builder(candidate, plan, table) for candidate in plan.compared],
        "protocols": [head, *rows],
        "protocol_reasons": list(advice.reasons),
        "sim": f"ordercast sim {inline_table(table)!r} --builder {plan.chosen.builder}",
    }


def as_toml(table: GroupTable) -> str:
    """A groups file. Names need no escaping; one with a dot would be a path, so keys are quoted."""
    lines = ["[groups]"]
    lines += [f'"{g}" = {json.dumps(list(members))}' for g, members in sorted(table.groups.items())]
    if table.rates:
        lines += ["", "[rates]", *(f'"{g}" = {rate}' for g, rate in sorted(table.rates.items()))]
    return "\n".join(lines) + "\n"


def _builder(candidate: Candidate, plan: Plan, table: GroupTable) -> dict[str, Any]:
    forest = candidate.forest
    shape = ForestShape(forest.parent, table.groups, forest.primary)
    small = len(table.sites) <= DRAWN
    return {
        "builder": candidate.builder,
        "chosen": candidate is plan.chosen,
        "figures": compared(plan)[candidate.builder],
        "detail": forest.detail,
        "svg": draw_forest(shape) if small else "",
    }
