"""Which ordering protocol suits the groups: every one's costs, the best by the objective, and why.

Each protocol is measured on the plan's forest, or on the best one that it runs on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ordercast.core.order.registry import PROTOCOLS
from ordercast.forest.forest import numbers_of
from ordercast.forest.given_tree import GIVEN
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.groups import GroupTable, Site
from ordercast.plan.advice import AUTO, Plan, rank
from ordercast.plan.candidates import Candidate, build_candidates
from ordercast.plan.chain_costs import (
    arrow,
    arrow_counting,
    combining,
    combining_counting,
    hybrid,
    ring,
)
from ordercast.plan.objectives import (
    LAN,
    OBJECTIVES,
    TIMED,
    NetworkModel,
    Values,
    cost_of,
    unit_rate,
    values_of,
)
from ordercast.plan.protocol_costs import Costs, Ground, on_a_tree, symmetric, tom, two_phase
from ordercast.plan.reasons import listed, show

YES, RELAYS, NO = "yes", "relays too", "no"
_PASSING, _ALL = "what passes it", "the domain"


class Profile(NamedTuple):
    """The costs of a message; whether only its origin and the members of its group take part in it,
    in general; and what a crashed site holds up at level `agreed`, until it is back or excluded."""

    costs: Callable[[Ground], Costs]
    genuine: str
    stops: str


PROFILES: Mapping[str, Profile] = {
    "propagation": Profile(on_a_tree, RELAYS, _PASSING),
    "centralized": Profile(on_a_tree, RELAYS, "the domain (centre)"),
    "metagroup": Profile(on_a_tree, RELAYS, _PASSING),
    "two_phase": Profile(two_phase, YES, "its groups"),
    "symmetric": Profile(symmetric, NO, _ALL),
    "tom": Profile(tom, RELAYS, _PASSING),
    "ring": Profile(ring, NO, _ALL),
    "arrow": Profile(arrow, NO, _ALL),
    "combining": Profile(combining, NO, _ALL),
    "hybrid": Profile(hybrid, NO, _ALL),
    "arrow_counting": Profile(arrow_counting, NO, _ALL),
    "combining_counting": Profile(combining_counting, NO, _ALL),
}
"""By protocol; among equals the first is recommended."""

_BUILD_MORE = 5_000  # sites, at most: forests are built that the plan itself does not compare
_NAMED = 3  # others that are named beside the best
_CLEARLY = 1.25  # times better in another objective


@dataclass(frozen=True, slots=True)
class Option:
    """A protocol on its forest, and what it would cost."""

    protocol: str
    builder: str
    values: Values
    busiest: Site
    genuine: str


@dataclass(frozen=True, slots=True)
class ProtocolAdvice:
    """`options` in the order of PROFILES; those without a forest here are left out, and named."""

    chosen: Option
    options: Sequence[Option]
    reasons: Sequence[str]


def advise_protocol(
    plan: Plan, table: GroupTable, builder: str = AUTO, model: NetworkModel = LAN
) -> ProtocolAdvice:
    """`plan` is what `advise` made of the same table with the same builder and model."""
    indexed, rate = IndexedTable.of(table), unit_rate(table)
    grounds: dict[str, Ground] = {}

    def option(protocol: str, on: Candidate) -> Option:
        if on.builder not in grounds:
            grounds[on.builder] = Ground(indexed, *numbers_of(on.forest, indexed))
        return _option(protocol, on.builder, grounds[on.builder], rate, model)

    forests = {candidate.builder: candidate for candidate in plan.compared}
    options, missing = [], []
    for protocol in PROFILES:
        usable = _forests(protocol, plan, table, indexed, forests, model)
        if not usable:
            missing.append(protocol)
            continue
        found = [option(protocol, each) for each in usable]
        options.append(min(found, key=lambda each: rank(each.values, plan.objective, each.builder)))
    ranked = sorted(options, key=lambda each: _order(each, plan.objective))
    reasons = [*_explain(ranked, plan.objective, rate * len(table.groups))]
    if len(table.sites) <= _BUILD_MORE:
        ranked += [option(*other) for other in _on_others(plan)]
    reasons += _alternatives(ranked[0], ranked, plan.objective)
    if missing:
        reasons.append(
            f"Not compared: {', '.join(missing)}, for which other forests would have to be built"
            f" ({'--builder auto builds them' if builder != AUTO else 'there are many sites'})."
        )
    return ProtocolAdvice(ranked[0], options, reasons)


def as_json(advice: ProtocolAdvice) -> dict[str, Any]:
    """What is added to the plan's object."""
    return {
        "protocol": advice.chosen.protocol,
        "protocol_builder": advice.chosen.builder,
        "protocol_reasons": list(advice.reasons),
        "protocols": {
            option.protocol: {
                "builder": option.builder,
                "delay_ms": None if option.values.overloaded else option.values.delay * 1e3,
                "messages": option.values.messages,
                "load": option.values.load,
                "busiest": option.busiest,
                "utilisation": option.values.utilisation,
                "genuine": option.genuine,
                "crash_stops": PROFILES[option.protocol].stops,
            }
            for option in advice.options
        },
    }


def rows_of(advice: ProtocolAdvice) -> list[tuple[str, ...]]:
    """The table behind the advice, its headings first; the chosen one is marked."""
    rows: list[tuple[str, ...]] = [
        ("", "", "on", "estimated", "messages", "highest", "busiest", "", "a crash"),
        ("", "protocol", "forest", "delay", "per send", "load", "is busy", "genuine", "stops"),
    ]
    for option in advice.options:
        values = option.values
        rows.append(
            (
                "*" if option is advice.chosen else "",
                option.protocol,
                option.builder,
                "overloaded" if values.overloaded else show(values.delay, "delay"),
                f"{values.messages:,.2f}",
                f"{values.load:,.1f} at {option.busiest}",
                f"{values.utilisation * 100:,.1f} %",
                option.genuine,
                PROFILES[option.protocol].stops,
            )
        )
    return rows


LEFT = (0, 1, 2, 5, 7, 8)
"""Columns that begin at the left."""


def _forests(
    protocol: str,
    plan: Plan,
    table: GroupTable,
    indexed: IndexedTable,
    forests: dict[str, Candidate],
    model: NetworkModel,
) -> list[Candidate]:
    """The plan's choice; where the protocol does not run on every forest, those that the plan
    compares and it runs on, or else its own, built."""
    wanted = PROTOCOLS[protocol].builders
    if not wanted:
        return [plan.chosen]
    wanted_here = (*wanted, GIVEN) if PROTOCOLS[protocol].given else wanted
    usable = [forests[name] for name in wanted_here if name in forests]
    if usable or len(table.sites) > _BUILD_MORE:
        return usable
    built = build_candidates(
        table, indexed, wanted[:1], cost=cost_of(plan.objective, table, model), branching=None,
        tie=(), rebalanced=False, model=model,
    )  # fmt: skip
    forests.update({candidate.builder: candidate for candidate in built})
    return list(built)


def _option(
    protocol: str, builder: str, ground: Ground, rate: float, model: NetworkModel
) -> Option:
    costs, table = PROFILES[protocol].costs(ground), ground.table
    values = values_of(table, costs.messages, costs.load, costs.arrive, rate, model)
    busiest = table.sites[values.busiest] if table.sites else ""
    return Option(protocol, builder, values, busiest, _genuine(protocol, ground))


def _genuine(protocol: str, ground: Ground) -> str:
    """The answer of the profile, for these groups: a protocol is genuine here if there are no
    relays, or if every group has all sites of its domain."""
    kind, members = PROFILES[protocol].genuine, ground.table.members
    if kind == RELAYS and not any(ground.metrics.extra):
        return YES
    alone = all(len(members[g]) == len(sites) for sites, groups in ground.domains for g in groups)
    return YES if kind == NO and alone else kind


def _on_others(plan: Plan) -> Iterator[tuple[str, Candidate]]:
    """Protocols that run anywhere, on the forests that the plan compared and did not choose."""
    anywhere = [protocol for protocol in PROFILES if not PROTOCOLS[protocol].builders]
    others = [each for each in plan.compared if each.builder != plan.chosen.builder]
    return ((protocol, each) for each in others for protocol in anywhere)


def _order(option: Option, objective: str) -> tuple[float, ...]:
    return (
        *rank(option.values, objective, option.builder)[:-1],
        list(PROFILES).index(option.protocol),
    )


def _explain(ranked: Sequence[Option], objective: str, rate: float) -> Iterator[str]:
    """Why the first of them; `rate`: messages per second to all groups together."""
    chosen, others = ranked[0], ranked[1:]
    best = _shown(chosen, objective)
    same = [o.protocol for o in others if _shown(o, objective) == best]
    worse = [o for o in others if o.protocol not in same]
    what = {"delay": "is the quickest", "load": "has the lowest highest load",
            "messages": "sends the fewest messages",
            "mixed": "is the best between delay, load and messages"}[objective]  # fmt: skip
    told = f"{chosen.protocol} on {chosen.builder} {what} ({_value(chosen, objective)})"
    if objective in TIMED and chosen.values.overloaded:
        most = rate / chosen.values.utilisation
        told = (
            f"Every protocol gives some site more than it can handle at {rate:,.0f} messages per"
            f" second; {chosen.protocol} on {chosen.builder} the least, {_value(chosen, objective)}"
            f" (it takes fewer than {most:,.0f} per second)"
        )
    if same:
        told += f"; {listed(same)} {'are' if len(same) > 1 else 'is'} equal"
    able = [o for o in worse if chosen.values.overloaded or not o.values.overloaded]
    named = able[:_NAMED] if objective in TIMED else worse[:_NAMED]
    if named:
        told += f"; then {', '.join(f'{o.protocol} {_value(o, objective)}' for o in named)}"
    if objective in TIMED and len(able) < len(worse):
        told += f"; overloaded: {listed([o.protocol for o in worse if o not in able])}"
    yield f"{told}. Here members of a group send in turn, and what an origin does counts."


def _alternatives(chosen: Option, every: Sequence[Option], objective: str) -> Iterator[str]:
    for other in OBJECTIVES:
        if other == objective:
            continue
        least = min(every, key=lambda option: _order(option, other))
        ours = chosen.values.of(other)
        if least.values.of(other) * _CLEARLY < ours and not least.values.overloaded:
            yield (
                f"If {other} {'matter' if other == 'messages' else 'matters'} more:"
                f" {least.protocol} on {least.builder},"
                f" {_value(least, other)} against {_value(chosen, other)}"
                f" (--objective {other} shapes forests for it, too)."
            )


def _value(option: Option, objective: str) -> str:
    busy = objective in TIMED and option.values.overloaded
    at = f" at {option.busiest}" if objective == "load" or busy else ""
    return _shown(option, objective) + at


def _shown(option: Option, objective: str) -> str:
    if objective in TIMED and option.values.overloaded:
        return f"{option.values.utilisation * 100:,.0f} % busy"
    return show(option.values.of(objective), objective)
