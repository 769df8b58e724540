"""FIFO: the messages of one origin to one group come in the order they were sent ([GS] §1 (a))."""

from collections.abc import Iterator

from ordercast.check.verdict import Verdict, Witness, row_witness
from ordercast.check.view import SiteView, View
from ordercast.history.rows import Delivered


def check_fifo(view: View) -> Verdict:
    """Rows whose (incarnation, seq) is below one delivered before at the site, per origin, group.

    The highest before is enough to compare with: if any is above the row, the highest is.
    """
    count = 0
    witness: Witness | None = None
    for site in view.sites:
        for row, before in overtaken_rows(view, site):
            count += 1
            if witness is None:
                incarnation, seq, position = before
                other = [row.origin, incarnation, row.group_name, seq]
                after = {"position": position, "message": other}
                witness = {**row_witness(row), "after": after}
    return Verdict("fifo", count, witness)


def overtaken_rows(view: View, site: SiteView) -> Iterator[tuple[Delivered, tuple[int, int, int]]]:
    """The rows of a site that come too late, and the highest before each: its incarnation, seq and
    position."""
    highest = dict(view.before.highest.get(site.name, {}))
    for row in site.rows:
        stream = (row.origin, row.group_name)
        before = highest.get(stream)
        if before is None or (row.incarnation, row.seq) >= before[:2]:
            highest[stream] = (row.incarnation, row.seq, row.position)
        else:
            yield row, before
