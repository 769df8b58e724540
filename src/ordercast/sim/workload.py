"""The messages that the applications send: sender, time, group and size.

Submissions are drawn from a stream of their own, one after the other: the n-th is the same whatever
happens to earlier ones. Origins may be any site of the roster: members, sites outside the group,
sites of other domains. Arrivals are a Poisson process. A share of the messages may instead answer
deliveries, at once and where they happen.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ordercast.core.batches import NO_EXTRAS, Extras
from ordercast.forest.indexed_table import IndexedTable
from ordercast.model.envelope import HeaderRun
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.headers import HeaderItems
from ordercast.model.options import SECOND
from ordercast.sim.chance import ONE, Chance
from ordercast.sim.config import SimConfig

_SCATTER = 2_654_435_769  # odd, so numbers are spread over all of `ONE`
_HEAD = 8  # bytes at the front of a payload that make it unlike any other
_FILLER = bytes(range(256))


class Submission(NamedTuple):
    """A batch that an application wants to send; to `members` when it names no group."""

    at: int
    origin: Site
    group: Group
    members: tuple[Site, ...]
    number: int  # of its first message, counted over the run
    sizes: tuple[int, ...]
    headers: HeaderItems = ()  # of each message

    def payloads(self) -> list[bytes]:
        return [payload_of(self.number + place, size) for place, size in enumerate(self.sizes)]

    def extras(self) -> Extras:
        if not self.headers:
            return NO_EXTRAS
        return Extras((HeaderRun(0, len(self.sizes), self.headers),))


def payload_of(number: int, size: int) -> bytes:
    """The payload of the run's n-th message: its number, then filler, `size` bytes in all."""
    head = number.to_bytes(_HEAD, "big")
    if size <= _HEAD:
        return head[_HEAD - size :]
    if size > len(_FILLER):
        return head + (_FILLER * (size // len(_FILLER) + 1))[: size - _HEAD]
    return head + _FILLER[: size - _HEAD]


def headers_of(number: int, share: float) -> HeaderItems:
    """The headers of a submission whose first message is the run's n-th: one to four, or none. They
    are not drawn: what else is sent is the same whatever the share."""
    if number * _SCATTER % ONE >= share * ONE:
        return ()
    count = 1 + number % 4
    return tuple((f"header {n}", _FILLER[: number % 64] + b"%d" % number) for n in range(count))


def mean_gap(config: SimConfig) -> int:
    """Nanoseconds between two messages."""
    return max(1, round(SECOND / config.rate))


def horizon(config: SimConfig) -> int:
    """How long sending is expected to take: where the safety phase ends."""
    return max(1, config.messages) * mean_gap(config)


def submissions(config: SimConfig, seed: int) -> Iterator[Submission]:
    """The submissions of a run that answer nothing, in the order of time."""
    stream = Chance(seed, "workload")
    origins = _origins(config, stream)
    letters = _Letters(config, stream)
    gap = mean_gap(config)
    last = config.messages - answers(config)
    now, number = 0, 1
    while number <= last:
        count = min(1 + stream.below(config.batch), last - number + 1)
        now += stream.exponential(gap * count)
        origin = origins[stream.below(len(origins))]
        yield letters.write(now, origin, number, count)
        number += count


def answers(config: SimConfig) -> int:
    """How many of the messages answer a delivery."""
    return int(config.messages * config.replies)


class Replies:
    """Submissions that an application makes when something is delivered to it.

    Every other delivery is answered, to any group, until there have been enough. The delivery
    happened before the answer: causal order is about such pairs.
    """

    def __init__(self, config: SimConfig, seed: int) -> None:
        self._stream = Chance(seed, "replies")
        self._letters = _Letters(config, self._stream)
        self._number = config.messages - answers(config) + 1
        self._last = config.messages

    def answer(self, now: int, site: Site) -> Submission | None:
        if self._number > self._last or self._stream.bits(1):
            return None
        number, self._number = self._number, self._number + 1
        return self._letters.write(now, site, number, 1)


class _Letters:
    """Draws to whom a submission goes and how large its messages are."""

    def __init__(self, config: SimConfig, stream: Chance) -> None:
        table = config.table
        self._stream = stream
        self._groups = sorted(table.groups)
        self._shares = list(accumulate(int(table.rate(group) * ONE) for group in self._groups))
        self._domains = _domains(table)
        self._implicit = config.implicit
        self._headers = config.headers
        self._least = min(_HEAD, config.payload)
        self._sizes = config.payload - self._least + 1

    def write(self, at: int, origin: Site, number: int, count: int) -> Submission:
        stream, shares = self._stream, self._shares
        group = self._groups[bisect_right(shares, (stream.bits(64) * shares[-1]) >> 64)]
        members: tuple[Site, ...] = ()
        if self._implicit and stream.chance(self._implicit):
            group, members = "", _listed(stream, self._domains)
        sizes = tuple([self._least + stream.below(self._sizes) for _ in range(count)])
        headers = headers_of(number, self._headers) if self._headers else ()
        return Submission(at, origin, group, members, number, sizes, headers)


def _origins(config: SimConfig, stream: Chance) -> list[Site]:
    if isinstance(config.origins, tuple):
        return list(config.origins)
    sites = sorted(config.table.sites)
    return sites if config.origins is None else sorted(stream.sample(sites, config.origins))


def _domains(table: GroupTable) -> list[list[Site]]:
    indexed = IndexedTable.of(table)
    return [[indexed.sites[site] for site in sites] for sites, _ in indexed.domains()]


def _listed(stream: Chance, domains: Sequence[Sequence[Site]]) -> tuple[Site, ...]:
    """Some sites of one domain: no order covers the sites of two."""
    domain = stream.choice(domains)
    return tuple(sorted(stream.sample(domain, stream.between(1, len(domain)))))
