"""Pairwise order: any two sites deliver their common messages in one order ([GS] §1 (c))."""

from ordercast.check.tangles import Knot, MessageNumber, SiteNumber
from ordercast.check.verdict import Verdict, Witness, plain
from ordercast.check.view import View

Pair = tuple[SiteNumber, SiteNumber]
Inversion = tuple[MessageNumber, MessageNumber]


def check_pairwise_order(view: View) -> Verdict:
    """Pairs of sites that disagree on at least one pair of messages.

    The witness is the first pair of sites, by name, and the first neighbours in the order of their
    common messages at one that the other has the other way round.
    """
    found = find_inversions(view)
    witness = _witness(view, min(found), found[min(found)]) if found else None
    return Verdict("pairwise_order", len(found), witness)


def find_inversions(view: View) -> dict[Pair, Inversion]:
    """Two messages that two sites order differently lie in one tangle: only those are compared."""
    pairs: dict[Pair, Inversion] = {}
    for knot in view.knots:
        for pair, inversion in _inversions(knot).items():
            known = pairs.get(pair)
            if known is None or _place(view, pair, inversion) < _place(view, pair, known):
                pairs[pair] = inversion
    return pairs


def _witness(view: View, pair: Pair, inversion: Inversion) -> Witness:
    return {
        "sites": [view.sites[site].name for site in pair],
        "messages": [plain(view.messages[message]) for message in inversion],
        "positions": {
            view.sites[site].name: [view.position(site, message) for message in inversion]
            for site in pair
        },
    }


def _inversions(knot: Knot) -> dict[Pair, Inversion]:
    """Per pair of sites that disagree, the first neighbours in their common order that do.

    If no neighbours in the common order of one site are inverted at the other, nothing is. Each
    row is compared once with each site that has its message too.
    """
    found: dict[Pair, Inversion] = {}
    for one, order in knot.orders.items():
        last: dict[SiteNumber, MessageNumber] = {}
        for message in order:
            for other in knot.deliverers[message]:
                if other <= one or (one, other) in found:
                    continue
                before = last.get(other)
                places = knot.places[other]
                if before is not None and places[message] < places[before]:
                    found[one, other] = (before, message)
                last[other] = message
    return found


def _place(view: View, pair: Pair, inversion: Inversion) -> int:
    return view.places[pair[0]][inversion[0]]
