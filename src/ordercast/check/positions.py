"""Positions: a site's deliveries are numbered without holes, each number once."""

from itertools import pairwise

from ordercast.check.verdict import Verdict, Witness
from ordercast.check.view import SiteView, View


def check_positions(view: View) -> Verdict:
    """Sites whose live positions are not base+1 … n; a gap fills the position at which it stands.

    A base lets the numbers go on at base+1 wherever they were before; without any, the base is 0.
    """
    count = 0
    witness: Witness | None = None
    for site in view.sites:
        fault = _first_fault(site)
        if fault is None:
            continue
        count += 1
        if witness is None:
            witness = {"site": site.name, **fault}
    return Verdict("positions", count, witness)


def _first_fault(site: SiteView) -> dict[str, int | str] | None:
    delivered = [row.position for row in site.rows]
    starts = {0, *(base.position for base in site.bases)}
    # A gap that lies below a base may have lost the rows below it.
    gaps = sorted(set(site.gap_positions))
    filled = {*delivered, *starts}
    for gap in gaps:
        if gap - 1 in filled:
            filled.add(gap)
    needed = sorted({*delivered, *(gap for gap in gaps if gap > max(starts))})
    for position in needed:
        if position - 1 not in filled:
            return {"position": position, "fault": f"nothing at {position - 1}"}
    for before, position in pairwise(delivered):
        if before == position:
            return {"position": position, "fault": "delivered at twice"}
    return None
