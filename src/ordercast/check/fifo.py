"""FIFO: the messages of one origin to one group come in the order they were sent ([GS] §1 (a))."""

from ordercast.check.verdict import Verdict, Witness, plain, row_witness
from ordercast.check.view import View
from ordercast.history.rows import Delivered


def check_fifo(view: View) -> Verdict:
    """Rows whose (incarnation, seq) is below one delivered before at the site, per origin, group.

    The highest before is enough to compare with: if any is above the row, the highest is.
    """
    count = 0
    witness: Witness | None = None
    for site in view.sites:
        highest: dict[tuple[str, str], tuple[int, int, Delivered]] = {}
        for row in site.rows:
            stream = (row.origin, row.group_name)
            before = highest.get(stream)
            if before is None or (row.incarnation, row.seq) >= before[:2]:
                highest[stream] = (row.incarnation, row.seq, row)
                continue
            count += 1
            if witness is None:
                other = before[2]
                witness = {
                    **row_witness(row),
                    "after": {"position": other.position, "message": plain(other.id)},
                }
    return Verdict("fifo", count, witness)
