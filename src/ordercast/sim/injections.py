"""When and where faults happen: a list of injections, drawn from the faults of a configuration.

They are drawn before the run, each fault from a stream of its own. So the list does not depend on
what the sites do, and adding a fault leaves the others where they were. All end within the safety
phase, apart from links that are cut for good.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND, NEVER
from ordercast.sim.chance import Chance
from ordercast.sim.faults import COUNTS, CUTS, Fault, Faults, links_of, total


class Injection(NamedTuple):
    """`kind` begins on `sites` (towards `others`), or ends if it is a value of `ENDS`. A crash
    until `NEVER` is for good."""

    at: int
    kind: str
    sites: tuple[Site, ...]
    others: tuple[Site, ...] = ()
    until: int = 0
    amount: int = 0  # slow: the longest delay that is added to a frame


ENDS = {
    "partition": "heal", "oneway": "heal_oneway", "pause": "resume", "slow": "swift",
    "lag": "keep_up",
}  # fmt: skip

# A fault without a length lasts at most the length of the safety phase divided by this.
_SHARE = {
    "lose": 4, "partition": 3, "oneway": 3, "clog": 2, "pause": 4, "slow": 2, "crash": 4,
    "lag": 2,
}  # fmt: skip
_LEAST = MILLISECOND // 10


def draw_injections(
    faults: Faults, sites: Sequence[Site], horizon: int, seed: int
) -> list[Injection]:
    """All injections in the order of time; `horizon` is where the safety phase ends."""
    found: list[Injection] = []
    numbered: dict[str, int] = {}
    returning = total(faults, "restart")
    for fault in faults:
        number = numbered[fault.kind] = numbered.get(fault.kind, 0) + 1
        if fault.kind not in COUNTS or fault.kind == "restart" or not sites:
            continue
        stream = Chance(seed, f"fault {fault.kind} {number}")
        if fault.kind == "crash":
            found += _crashes(fault, sites, horizon, stream, min(returning, fault.count))
            returning -= min(returning, fault.count)
            continue
        if fault.kind in CUTS:
            found += _cuts(fault, sites, horizon, stream)
            continue
        for _ in range(fault.count):
            found += _DRAW[fault.kind](fault, sites, horizon, stream)
    return sorted(found, key=lambda injection: injection.at)


def _span(fault: Fault, horizon: int, stream: Chance) -> tuple[int, int]:
    stop = horizon if fault.stop is None else min(fault.stop, horizon)
    start = stream.between(min(fault.start, stop), stop)
    drawn = stream.between(_LEAST, max(_LEAST, horizon // _SHARE[fault.kind]))
    return start, min(horizon, start + (drawn if fault.length is None else fault.length))


def _crashes(
    fault: Fault, sites: Sequence[Site], horizon: int, stream: Chance, returning: int
) -> list[Injection]:
    """`returning` of the crashes end in a restart. No other crash hits a site that stays away."""
    order = stream.shuffled(fault.sites or sites)
    found = []
    for number in range(fault.count):
        start, until = _span(fault, horizon, stream)
        if number < returning:
            site = order[number % max(1, len(order) - (fault.count - returning))]
            found += [Injection(start, "crash", (site,)), Injection(until, "restart", (site,))]
        elif number - returning < len(order):
            site = order[-1 - (number - returning)]
            found.append(Injection(start, "crash", (site,), until=NEVER))
    return found


def _lose(fault: Fault, sites: Sequence[Site], horizon: int, stream: Chance) -> list[Injection]:
    site = stream.choice(fault.sites or sites)
    start, until = _span(fault, horizon, stream)
    return [Injection(start, "lose", (site,)), Injection(until, "restart", (site,))]


def _one_site(fault: Fault, sites: Sequence[Site], horizon: int, stream: Chance) -> list[Injection]:
    site = stream.choice(fault.sites or sites)
    start, until = _span(fault, horizon, stream)
    amount = stream.between(MILLISECOND, 20 * MILLISECOND) if fault.kind == "slow" else 0
    return [
        Injection(start, fault.kind, (site,), (), until, amount),
        Injection(until, ENDS[fault.kind], (site,), (), until, amount),
    ]


def _partition(
    fault: Fault, sites: Sequence[Site], horizon: int, stream: Chance
) -> list[Injection]:
    order = stream.shuffled(sites)
    cut = stream.between(1, max(1, len(order) - 1))
    side = sorted(fault.sites or order[:cut])
    rest = tuple(site for site in sorted(sites) if site not in side)
    start, until = _span(fault, horizon, stream)
    return [
        Injection(start, fault.kind, tuple(side), rest, until),
        Injection(until, ENDS[fault.kind], tuple(side), rest, until),
    ]


def _cuts(fault: Fault, sites: Sequence[Site], horizon: int, stream: Chance) -> list[Injection]:
    """Cut this many links, each at its time, for good."""
    links = links_of(fault, sites)
    if fault.kind == "cut":
        links = [(a, b) for a, b in links if a < b]
    stop = horizon if fault.stop is None else min(fault.stop, horizon)
    return [
        Injection(stream.between(min(fault.start, stop), stop), fault.kind, (a,), (b,))
        for a, b in stream.sample(links, fault.count)
    ]


def _swizzle(fault: Fault, sites: Sequence[Site], horizon: int, stream: Chance) -> list[Injection]:
    """Clog half the links one by one, release them in another order."""
    chosen = sorted(fault.sites or sites)
    links = [(a, b) for a in chosen for b in sites if a != b]
    clogged = stream.sample(links, (len(links) + 1) // 2)
    start, until = _span(fault, horizon, stream)
    middle = (start + until) // 2
    begins = sorted(stream.between(start, middle) for _ in clogged)
    released = stream.shuffled(sorted(stream.between(middle, until) for _ in clogged))
    return [
        Injection(begin, "clog", (a,), (b,), release)
        for (a, b), begin, release in zip(clogged, begins, released, strict=True)
    ]


def _change(fault: Fault, sites: Sequence[Site], horizon: int, stream: Chance) -> list[Injection]:
    """Let a site ask for a change. The edit is drawn then, from the groups that the site knows."""
    stop = horizon if fault.stop is None else min(fault.stop, horizon)
    at = stream.between(min(fault.start, stop), stop)
    return [Injection(at, fault.kind, (stream.choice(fault.sites or sites),))]


_DRAW = {
    "join": _change,
    "leave": _change,
    "switch": _change,
    "partition": _partition,
    "oneway": _partition,
    "clog": _swizzle,
    "lose": _lose,
    "pause": _one_site,
    "slow": _one_site,
    "lag": _one_site,
}
