"""What a decoded frame of a flush must satisfy beyond its types, as `wire.checks` has it."""

from collections.abc import Callable
from typing import Any, Final

from ordercast.model.epochs import Counts, Included
from ordercast.wire.checks import check_group, check_length, check_number, check_placed, check_site
from ordercast.wire.epochs import Fetch, Logged, Pages, Past, Whole
from ordercast.wire.limits import ITEMS, LASTS, MEMBERS


def check_counts(counts: Counts, where: str) -> None:
    check_length(counts, 0, LASTS, where)
    for epoch, group, number, members in counts:
        check_number(epoch, 1, f"{where}: epoch")
        check_group(group, where)
        check_number(number, 0, f"{where}: number of {group!r}")
        check_length(members, 0, MEMBERS, f"{where}: members")


def check_included(included: Included, where: str) -> None:
    check_length(included, 0, LASTS, where)
    for origin, incarnation, group, seq in included:
        check_site(origin, where)
        check_number(incarnation, 1, f"{where}: incarnation of {origin!r}")
        check_group(group, where)
        check_number(seq, 1, f"{where}: seq of {origin!r}")


def _logged(frame: Logged) -> None:
    check_number(frame.flush, 1, "flush")
    check_counts(frame.counts, "counts")
    check_included(frame.lasts, "lasts")
    check_length(frame.holds, 0, LASTS, "holds")
    for epoch, group in frame.holds:
        check_number(epoch, 1, "holds: epoch")
        check_group(group, "holds")


def _past(frame: Past) -> None:
    check_number(frame.flush, 1, "flush")
    check_counts(tuple(need[:4] for need in frame.needs), "needs")
    for need in frame.needs:
        if need[4]:
            check_site(need[4], "needs")


def _fetch(frame: Fetch) -> None:
    check_number(frame.epoch, 1, "epoch")
    check_group(frame.group, "group")
    check_number(frame.after, 0, "after")


def _pages(frame: Pages) -> None:
    check_number(frame.epoch, 1, "epoch")
    check_group(frame.group, "group")
    check_number(frame.after, 0, "after")
    check_length(frame.batches, 0, ITEMS, "batches")
    for place, placed in enumerate(frame.batches):
        check_placed(placed, f"batches[{place}]")


def _whole(frame: Whole) -> None:
    check_number(frame.flush, 1, "flush")


FLUSH_RULES: Final[dict[type, Callable[[Any], None]]] = {
    Logged: _logged,
    Past: _past,
    Fetch: _fetch,
    Pages: _pages,
    Whole: _whole,
}
