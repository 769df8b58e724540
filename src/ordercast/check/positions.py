"""Positions: a site's deliveries are numbered without holes, each number once."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

from ordercast.check.verdict import Verdict, Witness
from ordercast.check.view import SiteView, View

PositionFault: TypeAlias = dict[str, int | str]


def check_positions(view: View) -> Verdict:
    """Sites whose live positions are not base+1 … n; a gap fills the position at which it stands.

    A base lets the numbers go on at base+1 wherever they were before; without any, the base is 0.
    """
    count = 0
    witness: Witness | None = None
    for site in view.sites:
        fault = first_fault(view, site)
        if fault is None:
            continue
        count += 1
        if witness is None:
            witness = {"site": site.name, **fault}
    return Verdict("positions", count, witness)


def first_fault(view: View, site: SiteView) -> PositionFault | None:
    """What the witness shows: the first hole, or else the first position delivered at twice."""
    return next(find_faults(view, site), None)


def find_faults(view: View, site: SiteView) -> Iterator[PositionFault]:
    """Every hole, then every position that is delivered at twice."""
    delivered = [row.position for row in site.rows]
    last = view.before.last_position(site.name)  # up to there it was looked at before
    starts = {0, *(base.position for base in site.bases)}
    # A gap that lies below a base may have lost the rows below it.
    gaps = sorted({gap for gap in site.gap_positions if gap > last})
    filled = {*delivered, *starts, last}
    for gap in gaps:
        if gap - 1 in filled:
            filled.add(gap)
    needed = sorted({*delivered, *(gap for gap in gaps if gap > max(starts))})
    for position in needed:
        if position - 1 not in filled:
            yield {"position": position, "fault": f"nothing at {position - 1}"}
    for before, position in pairwise([last, *delivered] if last else delivered):
        if before == position:
            yield {"position": position, "fault": "delivered at twice"}
