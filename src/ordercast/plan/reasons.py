"""Why a forest was chosen, in sentences that need no knowledge of the papers."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec

from ordercast.forest.forest import numbers_of
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.tree import Tree
from ordercast.model.groups import Group, GroupTable
from ordercast.model.limits import DEEPEST, FOLDED_BYTES, VECTOR_ENTRIES
from ordercast.plan.candidates import Candidate
from ordercast.plan.objectives import (
    ASSUMED_RATE,
    LAN,
    OBJECTIVES,
    TIMED,
    NetworkModel,
    total_rate,
)

_MOST = 0.5  # of the traffic is ordered at the root: a tree then spreads little load
_MANY = 20  # groups; in fewer, a root that orders most of them is nothing to warn of
_BUSY = 0.7  # of its time: a site with little left for bursts
_WORTH_SAYING = 1.25  # times better in another objective
_LARGE = 1_000  # sites of a domain
_SMALL = 50  # times smaller than the domain: rounds of stability are mostly for others
_LISTED = 5  # names that are written out
_MEMORY = 1e9  # bytes at every site for its layout: more is said
_PACKED = 9  # bytes of a layout for each site, group and membership, besides names (measured)
BYTES_OUTSIDE = 36  # of a layout in memory, for each domain and site: who is outside (measured)

_BEST = {
    "delay": "has the shortest estimated delay, {} on average until the last member has a message",
    "load": "puts the least on its busiest site, {}",
    "messages": "needs the fewest messages, {} per send on average",
    "mixed": "is the best between delay, load and messages, {} by the measure of all three",
}


def explain(
    table: GroupTable,
    indexed: IndexedTable,
    objective: str,
    compares: bool,
    ranked: Sequence[Candidate],
    cyclic: Sequence[Sequence[Group]],
    model: NetworkModel = LAN,
) -> list[str]:
    """`ranked`: the candidates, the chosen one first; `compares`: the planner made the choice."""
    chosen = ranked[0]
    sentences: list[str] = []
    if compares:
        sentences.append(_verdict(ranked, objective, bool(table.rates)))
        sentences.extend(_alternatives(ranked, objective))
    else:
        sentences.append(_asked(chosen))
    sentences.extend(_traffic(table, ranked, model))
    sentences.extend(_structure(indexed, ranked))
    sentences.extend(_rebalanced(chosen))
    sentences.extend(_cycles(cyclic, len(indexed.groups)))
    sentences.extend(_large_domain(indexed))
    sentences.extend(_limits(indexed, chosen))
    sentences.extend(_idle_sites(indexed))
    return sentences


def show(value: float, objective: str) -> str:
    """A value of an objective for a person; an overloaded structure has no delay."""
    if objective != "delay":
        return f"{value:,.2f}".rstrip("0").rstrip(".")
    return f"{value * 1e3:,.2f} ms"


def _verdict(ranked: Sequence[Candidate], objective: str, rated: bool) -> str:
    chosen, *others = ranked
    best = chosen.values.of(objective)
    if objective in TIMED and chosen.values.overloaded:
        return (
            f"Every builder gives some site more than it can handle; {chosen.builder} the least:"
            f" {chosen.busiest} would need {_percent(chosen.values.utilisation)} of its time."
        )
    what = _BEST[objective].format(show(best, objective))
    if objective == "load":
        counted = "groups counted by their rates" if rated else "one message to each group"
        what += f" ({chosen.busiest}; {counted})"
    equal = [c for c in others if _same(c.values.of(objective), best)]
    worse = [_comparison(c, objective, best) for c in others if c not in equal]
    sentence = f"{chosen.builder} {what}"
    if worse:
        sentence += f"; {', '.join(worse)}"
    if equal:
        names = listed([c.builder for c in equal])
        sentence += f"; {names} {'does' if len(equal) == 1 else 'do'} as well in that,"
        sentence += f" but {chosen.builder} {_tie_break(chosen, equal[0], objective)}"
    return f"{sentence}."


def _comparison(candidate: Candidate, objective: str, best: float) -> str:
    if objective in TIMED and candidate.values.overloaded:
        return f"{candidate.builder} is overloaded"
    value = candidate.values.of(objective)
    return f"{candidate.builder} {show(value, objective)} ({_more(value, best)})"


def _tie_break(chosen: Candidate, other: Candidate, objective: str) -> str:
    words = {"delay": "is quicker", "load": "loads its busiest site less", "messages": "sends less"}
    for name in OBJECTIVES:
        if name != objective and not _same(chosen.values.of(name), other.values.of(name)):
            return words[name]
    return "is simpler"


def _alternatives(ranked: Sequence[Candidate], objective: str) -> Iterator[str]:
    """What another objective would have chosen, when it is clearly better there."""
    chosen, *others = ranked
    for name in OBJECTIVES:
        if name == objective or not others:
            continue
        best = min(others, key=lambda candidate: candidate.values.of(name))
        value, ours = best.values.of(name), chosen.values.of(name)
        if value * _WORTH_SAYING >= ours or best.values.overloaded:
            continue
        subject = {
            "delay": f"If delay matters more: {best.builder} takes {show(value, name)}",
            "load": f"If load matters more: the busiest site of {best.builder}, {best.busiest}, "
            f"has a load of {show(value, name)}",
            "messages": f"If messages matter more: {best.builder} needs {show(value, name)} a send",
        }[name]
        instead = "is overloaded" if name == "delay" and chosen.values.overloaded else ""
        against = f"{chosen.builder} {instead or show(ours, name)}"
        yield f"{subject}, {against}; --objective {name} looks for the best of that."


def _asked(chosen: Candidate) -> str:
    values = chosen.values
    delay = "no bounded delay" if values.overloaded else f"delay {show(values.delay, 'delay')}"
    return (
        f"{chosen.builder} was asked for: estimated {delay}, {show(values.messages, 'messages')}"
        f" messages per send, the busiest site is {chosen.busiest}."
    )


def _traffic(table: GroupTable, ranked: Sequence[Candidate], model: NetworkModel) -> Iterator[str]:
    rate = total_rate(table)
    if not table.rates:
        yield (
            f"No rates are given, so {ASSUMED_RATE:,.0f} messages per second in all are assumed,"
            " the same to each group."
        )
    elif rate == 0:
        yield "All rates are 0: every group counts the same, and no site is ever busy."
    for candidate in ranked:
        values = candidate.values
        if values.overloaded:
            yield (
                f"With {candidate.builder}, {candidate.busiest} is overloaded: it would have to"
                f" handle {values.utilisation / model.handling_s:,.0f} messages per second, and at"
                f" {model.handling_s * 1e6:.0f} microseconds each it manages"
                f" {1 / model.handling_s:,.0f}."
            )
        elif candidate is ranked[0] and values.utilisation >= _BUSY:
            yield (
                f"{candidate.busiest} is busy {_percent(values.utilisation)} of the time:"
                " little is left for bursts."
            )


def _structure(indexed: IndexedTable, ranked: Sequence[Candidate]) -> Iterator[str]:
    for candidate in ranked:
        if candidate.builder != "balanced":
            continue
        if candidate is ranked[0] and candidate.forest.detail:
            yield f"balanced: {candidate.forest.detail}."
        if find_spec("pymetis") is None:
            yield (
                "The extra 'partition' is not installed, so balanced used its built-in partitioner;"
                " pip install 'ordercast[partition]' usually gives a better tree."
            )
        share, root = _ordered_at_the_root(indexed, candidate)
        if share >= _MOST and len(indexed.groups) >= _MANY:
            yield (
                f"{_percent(share)} of the messages begin at the root of the balanced tree, {root}:"
                " most groups reach across the whole tree instead of being local, so it cannot take"
                " much load off its root."
            )


def _ordered_at_the_root(indexed: IndexedTable, candidate: Candidate) -> tuple[float, str]:
    """The root that orders most of the traffic, and its share of all."""
    at_root: dict[str, float] = {}
    for group, weight in zip(indexed.groups, indexed.weights, strict=True):
        primary = candidate.forest.primary[group]
        if candidate.forest.parent[primary] is None:
            at_root[primary] = at_root.get(primary, 0.0) + weight
    total = sum(indexed.weights)
    if not at_root or total <= 0:
        return 0.0, ""
    root = max(at_root, key=lambda site: (at_root[site], site))
    return at_root[root] / total, root


def _rebalanced(chosen: Candidate) -> Iterator[str]:
    if chosen.before is None:
        return
    before, after = chosen.before, chosen.metrics
    if before.load_max == after.load_max and before.depth_max == after.depth_max:
        yield "Rebalancing found nothing to move."
        return
    yield (
        f"Rebalancing brought the highest load from {before.load_max:,} to {after.load_max:,};"
        f" the mean depth went from {before.depth_mean:.2f} to {after.depth_mean:.2f}."
    )


def _cycles(cyclic: Sequence[Sequence[Group]], groups: int) -> Iterator[str]:
    if not cyclic:
        return
    involved = len({group for component in cyclic for group in component})
    largest = max(cyclic, key=len)
    sets = f"{len(cyclic):,} sets of them, the largest " if len(cyclic) > 1 else ""
    yield (
        f"{involved:,} of {groups:,} groups overlap in rings ({sets}{_names(largest)}): when a site"
        " fails there, the survivors must agree about all these groups together, which costs more"
        " than about two at a time."
    )


def _large_domain(indexed: IndexedTable) -> Iterator[str]:
    """What a large domain costs beside its messages: docs/planner.md has the measurements."""
    sites = max((len(members) for members, _ in indexed.domains()), default=0)
    if sites < _LARGE:
        return
    yield (
        f"The groups of {sites:,} sites overlap, so these are one domain: a join or a leave stops"
        " all of them for a moment, and changes wait for each other. If members come and go"
        " often, keep groups apart that need no common order."
    )
    mean = sum(map(len, indexed.members)) / len(indexed.members)
    if mean * _SMALL < sites:
        yield (
            f"A group has {mean:,.1f} members on average: reports within groups (stability ="
            ' "plain") take far fewer frames than rounds through the whole domain.'
        )


def _limits(indexed: IndexedTable, chosen: Candidate) -> Iterator[str]:
    """What a running cluster could not hold."""
    deepest = max(Tree.of(numbers_of(chosen.forest, indexed)[0]).depth, default=0)
    if deepest > DEEPEST:
        yield (
            f"A tree of {chosen.builder} is {deepest:,} sites deep, and no epoch opens one deeper"
            f" than {DEEPEST:,}: a cluster cannot use this forest."
        )
    groups, site = max(
        zip(map(len, indexed.groups_of), indexed.sites, strict=True), default=(0, "")
    )
    if groups > VECTOR_ENTRIES:
        yield (
            f"{site} is in {groups:,} groups, and what sites tell each other of stability has room"
            f" for {VECTOR_ENTRIES:,}: divide them between several sites."
        )
    domains = len(indexed.domains())
    memory = BYTES_OUTSIDE * domains * len(indexed.sites)
    if memory > _MEMORY:
        yield (
            f"There are {domains:,} domains among {len(indexed.sites):,} sites: who is outside of"
            f" which takes {memory / 1e9:,.1f} GB of memory at every site. Groups that never meet"
            " are better in clusters of their own."
        )
    if (packed := packed_bytes(indexed)) > FOLDED_BYTES:
        yield (
            f"The layout of so many sites and groups has about {packed / 1e6:,.0f} MB, and a frame"
            f" room for {FOLDED_BYTES / 1e6:,.0f}: it cannot be sent to a new site."
        )


def packed_bytes(indexed: IndexedTable) -> int:
    """About as many as the layout takes in a frame; it is not built."""
    parts = len(indexed.sites) + len(indexed.groups) + sum(map(len, indexed.members))
    return sum(map(len, (*indexed.sites, *indexed.groups))) + _PACKED * parts


def _idle_sites(indexed: IndexedTable) -> Iterator[str]:
    idle = [
        site for site, groups in zip(indexed.sites, indexed.groups_of, strict=True) if not groups
    ]
    if idle:
        are, take = ("is", "takes") if len(idle) == 1 else ("are", "take")
        yield f"{_names(idle)} {are} in no group and {take} no part."


def _names(names: Sequence[str]) -> str:
    if len(names) <= _LISTED + 1:
        return listed(names)
    return f"{', '.join(names[:_LISTED])} and {len(names) - _LISTED:,} more"


def listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _same(a: float, b: float) -> bool:
    return f"{a:.9g}" == f"{b:.9g}"


def _more(value: float, best: float) -> str:
    if best <= 0:
        return "more"
    ratio = value / best
    if ratio < 1.0005:
        return "hardly more"
    return f"{ratio:,.1f} times as much" if ratio >= 2 else f"{_percent(ratio - 1)} more"


def _percent(share: float) -> str:
    """Rounded away from the ends, so that 99.7 % is not called all."""
    percent = share * 100
    if 0 < percent < 1 or 99 < percent < 100:
        return f"{percent:.1f} %"
    return f"{percent:,.0f} %"
