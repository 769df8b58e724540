"""Acyclic order: the union of all sites' orders has no cycle.

Stronger than pairwise order: three sites that share one message pairwise can each agree with each
of the others and still form a ring.
"""

from ordercast.check.pairwise_order import find_inversions
from ordercast.check.tangles import MessageNumber, SiteNumber
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import View

Cycle = list[tuple[MessageNumber, SiteNumber]]
MAX_LOOKED = 5_000_000  # messages looked at in the search for a shortest cycle: a few seconds


def check_acyclic_order(view: View) -> Verdict:
    """Messages that lie on a cycle: exactly those in tangles."""
    count = sum(len(knot.messages) for knot in view.knots)
    if not count:
        return Verdict("acyclic_order", 0)
    cycle, truncated = shortest_cycle(view)
    return Verdict("acyclic_order", count, _witness(view, cycle), truncated=truncated)


def shortest_cycle(view: View) -> tuple[Cycle, bool]:
    """A shortest cycle, and whether the search was stopped before it was known to be one.

    Two sites that disagree are a cycle of two, and the pairwise check has found it. Otherwise
    three is the least there can be, so the search ends with the first cycle of three; else the
    first message, by id, on a shortest cycle is its start.
    """
    inversions = find_inversions(view)
    if inversions:
        pair = min(inversions)
        return list(zip(inversions[pair], pair, strict=True)), False
    best: Cycle = []
    looked = 0
    for knot in view.knots:
        for message in knot.messages:
            limit = len(best) if best else len(knot.messages) + 1
            cycle, more = knot.shortest_cycle_through(message, limit)
            best = cycle or best
            looked += more
            if len(best) == 3:
                return best, False
            if best and looked > MAX_LOOKED:
                return best, True
    return best, False


def _witness(view: View, cycle: Cycle) -> Witness:
    """`messages[i]` comes before the next one (the last before the first) at `sites[i]`."""
    following = [message for message, _ in cycle[1:]] + [cycle[0][0]]
    return {
        "messages": [plain(view.messages[message]) for message, _ in cycle],
        "sites": [view.sites[site].name for _, site in cycle],
        "positions": [
            [view.position(site, message), view.position(site, after)]
            for (message, site), after in zip(cycle, following, strict=True)
        ],
    }
