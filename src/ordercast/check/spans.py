"""Spans: which seqs of a stream are known, as ranges without holes. Each has a tag, its epoch.

A stream in order is one span per epoch, however many messages it has.
"""

from bisect import bisect_right
from typing import TypeAlias

Span: TypeAlias = tuple[int, int, int]
"""First, last, tag."""
Spans: TypeAlias = list[Span]
"""Sorted; no two overlap."""


def tag_of(spans: Spans, number: int) -> int | None:
    """The tag of the span that holds the number."""
    at = bisect_right(spans, number, key=_first) - 1
    if at >= 0 and number <= spans[at][1]:
        return spans[at][2]
    return None


def add(spans: Spans, number: int, tag: int) -> None:
    """Put in a number. One that is there keeps its tag."""
    if spans:
        first, last, own = spans[-1]
        if number == last + 1 and own == tag:  # nearly always
            spans[-1] = (first, number, own)
            return
    at = bisect_right(spans, number, key=_first)
    if at and number <= spans[at - 1][1]:
        return
    first = last = number
    if at < len(spans) and spans[at][0] == number + 1 and spans[at][2] == tag:
        last = spans.pop(at)[1]
    if at and spans[at - 1][1] == number - 1 and spans[at - 1][2] == tag:
        at -= 1
        first = spans.pop(at)[0]
    spans.insert(at, (first, last, tag))


def _first(span: Span) -> int:
    return span[0]
