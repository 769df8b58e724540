"""A plan as the JSON object other people's scripts rely on, and as text for a terminal."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ordercast.forest.forest import Forest
from ordercast.forest.metrics import extra_groups, extra_sites
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.plan import protocols
from ordercast.plan.advice import Plan
from ordercast.plan.candidates import Candidate
from ordercast.plan.levels import by_level
from ordercast.plan.protocols import ProtocolAdvice
from ordercast.plan.reasons import show
from ordercast.plan.trade_off import Step

NAMED_EXTRAS = 1_000_000  # over all groups: up to here they are named, and more are counted
DRAWN_AS_TEXT = 40  # sites: up to here they are shown one by one
_WIDTH = 88
_LEVELS = 24  # of a larger forest, that are shown


def as_json(
    plan: Plan,
    table: GroupTable,
    advice: ProtocolAdvice | None = None,
    *,
    seconds: float,
    full: bool = False,
    steps: Sequence[Step] = (),
) -> dict[str, Any]:
    """Without `advice`, nothing about protocols. `steps`: the trade-off, if it is asked for."""
    metrics, forest = plan.metrics, plan.forest
    groups, sites = sorted(table.groups), sorted(table.sites)
    named = full or sum(metrics.extra) <= NAMED_EXTRAS
    extra: Mapping[Group, list[Site] | int]
    extra = extra_sites(forest, table) if named else dict(zip(groups, metrics.extra, strict=True))
    return {
        "builder": plan.chosen.builder,
        "objective": plan.objective,
        "reasons": list(plan.reasons),
        "detail": forest.detail,
        "parent": {site: forest.parent[site] for site in sites},
        "primary": {group: forest.primary[group] for group in groups},
        "groups": {
            group: {"depth": depth, "extra": extra[group], "messages": messages}
            for group, depth, messages in zip(groups, metrics.depth, metrics.messages, strict=True)
        },
        "sites": {site: {"load": load} for site, load in zip(sites, metrics.load, strict=True)},
        "summary": {
            "sites": len(sites),
            "groups": len(groups),
            "domains": plan.domains,
            "depth_mean": metrics.depth_mean,
            "depth_max": metrics.depth_max,
            "extra_mean": metrics.extra_mean,
            "load_max": metrics.load_max,
            "cyclic": [list(component) for component in plan.cyclic],
            "seconds": seconds,
        },
        "compared": compared(plan),
        **({} if advice is None else protocols.as_json(advice)),
        **({"trade_off": [_step(step) for step in steps]} if steps else {}),
    }


def compared(plan: Plan) -> dict[str, dict[str, Any]]:
    """Every builder's measures; an overloaded one has no delay."""
    return {c.builder: _measures(c) for c in plan.compared}


def _measures(candidate: Candidate) -> dict[str, Any]:
    values, metrics = candidate.values, candidate.metrics
    return {
        "delay_ms": None if values.overloaded else values.delay * 1e3,
        "load": values.load,
        "messages": values.messages,
        "busiest": candidate.busiest,
        "utilisation": values.utilisation,
        "depth_mean": metrics.depth_mean,
        "depth_max": metrics.depth_max,
        "extra_mean": metrics.extra_mean,
        "load_max": metrics.load_max,
    }


def _step(step: Step) -> dict[str, Any]:
    return {
        "objective": step.objective,
        "builder": step.candidate.builder,
        **_measures(step.candidate),
    }


def trade_off_lines(steps: Sequence[Step]) -> list[str]:
    """One row per objective, from the quickest forest to the least loaded one."""
    rows = [
        ("", "", "mean", "extra", "highest", "messages", "estimated"),
        ("best by", "builder", "depth", "sites", "load", "per send", "delay"),
    ]
    for step in steps:
        metrics, values = step.candidate.metrics, step.candidate.values
        rows.append(
            (
                step.objective,
                step.candidate.builder,
                f"{metrics.depth_mean:,.2f}",
                f"{metrics.extra_mean:,.2f}",
                f"{metrics.load_max:,}",
                f"{values.messages:,.2f}",
                "overloaded" if values.overloaded else show(values.delay, "delay"),
            )
        )
    return ["Between short delays and low load:", *aligned(rows, left=(0, 1))]


def as_text(plan: Plan, table: GroupTable, advice: ProtocolAdvice) -> str:
    """The comparisons, of forests and of protocols, the reasons, and the forest itself."""
    counts = (len(table.groups), "group"), (len(table.sites), "site"), (plan.domains, "domain")
    head = ", ".join(f"{count:,} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    parts = [f"{head}; objective: {plan.objective}"]
    parts.append("\n".join(comparison(plan, table)))
    parts.append("\n".join(bullet(reason) for reason in plan.reasons))
    parts.append("\n".join(["Protocols:", *aligned(protocols.rows_of(advice), protocols.LEFT)]))
    parts.append("\n".join(bullet(reason) for reason in advice.reasons))
    small = len(table.sites) <= DRAWN_AS_TEXT
    if small:
        parts.append("\n".join(["Who forwards to whom:", *tree(plan, table)]))
    else:
        parts.append("\n".join(["The forest by level (0: the roots):", *_levels(plan, table)]))
    return "\n\n".join(parts)


def bullet(sentence: str) -> str:
    return textwrap.fill(
        sentence,
        width=_WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def comparison(plan: Plan, table: GroupTable) -> list[str]:
    """One row per builder; the chosen one is marked."""
    rows = [
        ("", "", "mean", "", "extra", "highest", "messages", "busiest", "estimated"),
        ("", "builder", "depth", "max", "sites", "load", "per send", "is busy", "delay"),
    ]
    sites = sorted(table.sites)
    for candidate in plan.compared:
        metrics, values = candidate.metrics, candidate.values
        load = max(metrics.load, default=0)
        where = f" at {sites[metrics.load.index(load)]}" if sites else ""
        rows.append(
            (
                "*" if candidate is plan.chosen else "",
                candidate.builder,
                f"{metrics.depth_mean:,.2f}",
                f"{metrics.depth_max:,}",
                f"{metrics.extra_mean:,.2f}",
                f"{load:,}{where}",
                f"{values.messages:,.2f}",
                f"{values.utilisation * 100:,.1f} %",
                "overloaded" if values.overloaded else show(values.delay, "delay"),
            )
        )
    return aligned(rows, left=(0, 1, 5))


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def tree(plan: Plan, table: GroupTable) -> Iterator[str]:
    """The forest as indented text: children below their parent, what each site orders."""
    forest = plan.forest
    load = dict(zip(sorted(table.sites), plan.metrics.load, strict=True))
    ordered, extra = _ordered_by(forest), extra_groups(forest, table)
    member = {site for members in table.groups.values() for site in members}
    children: dict[Site | None, list[Site]] = {}
    for site in sorted(forest.parent, reverse=True):
        children.setdefault(forest.parent[site], []).append(site)
    stack = [(0, root) for root in children.get(None, []) if root in member]
    while stack:
        depth, site = stack.pop()
        notes = [f"orders {', '.join(ordered[site])}"] if site in ordered else []
        notes.append(f"load {load[site]}")
        if site in extra:
            notes.append(f"extra for {', '.join(extra[site])}")
        yield f"{'  ' * (depth + 1)}{site}  ({'; '.join(notes)})"
        stack.extend((depth + 1, child) for child in children.get(site, []))


def _ordered_by(forest: Forest) -> dict[Site, list[Group]]:
    ordered: dict[Site, list[Group]] = {}
    for group in sorted(forest.primary):
        ordered.setdefault(forest.primary[group], []).append(group)
    return ordered


def _levels(plan: Plan, table: GroupTable) -> Iterator[str]:
    """A large forest by level, level 0 being the roots."""
    levels = by_level(plan.forest, table, plan.metrics.load)
    rows = [("level", "sites", "groups ordered", "mean load", "highest load")]
    for number, level in enumerate(levels):
        rows.append(
            (
                f"{number:,}",
                f"{len(level.load):,}",
                f"{level.ordered:,}",
                f"{level.load_mean:,.1f}",
                f"{max(level.load):,}",
            )
        )
    lines = aligned(rows, left=())
    if len(lines) > _LEVELS + 2:
        half = _LEVELS // 2
        skipped = len(lines) - 1 - 2 * half
        lines = [*lines[: half + 1], f"... {skipped:,} more levels ...", *lines[-half:]]
    yield from (f"  {line}" for line in lines)
