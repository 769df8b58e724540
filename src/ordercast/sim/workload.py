"""What the applications send: who, when, to whom, how much.

Drawn from a stream of its own, one submission after the other, so the n-th submission is the same
whatever becomes of the ones before. Origins may be any site of the roster: members, sites outside
the group, sites of other domains. Arrivals are a Poisson process.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ordercast.forest.indexed import IndexedTable
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.options import SECOND
from ordercast.sim.chance import ONE, Stream
from ordercast.sim.config import SimConfig

_HEAD = 8  # bytes of a payload that make it unlike any other
_FILLER = bytes(range(256))


class Submission(NamedTuple):
    """A batch that an application wants to send; to `members` when it names no group."""

    at: int
    origin: Site
    group: Group
    members: tuple[Site, ...]
    number: int  # of its first message, counted over the run
    sizes: tuple[int, ...]

    def payloads(self) -> list[bytes]:
        return [payload_of(self.number + place, size) for place, size in enumerate(self.sizes)]


def payload_of(number: int, size: int) -> bytes:
    """The payload of the run's n-th message: its number, then filler, `size` bytes in all."""
    head = number.to_bytes(_HEAD, "big")
    if size <= _HEAD:
        return head[_HEAD - size :]
    if size > len(_FILLER):
        return head + (_FILLER * (size // len(_FILLER) + 1))[: size - _HEAD]
    return head + _FILLER[: size - _HEAD]


def mean_gap(config: SimConfig) -> int:
    """Nanoseconds between two messages."""
    return max(1, round(SECOND / config.rate))


def horizon(config: SimConfig) -> int:
    """How long sending is expected to take: where the safety phase ends."""
    return max(1, config.messages) * mean_gap(config)


def submissions(config: SimConfig, seed: int) -> Iterator[Submission]:
    """All submissions of a run in the order of time."""
    stream = Stream(seed, "workload")
    bits, below = stream.bits, stream.below
    table = config.table
    origins = _origins(config, stream)
    groups = sorted(table.groups)
    shares = list(accumulate(int(table.rate(group) * ONE) for group in groups))
    domains = _domains(table)
    gap = mean_gap(config)
    least = min(_HEAD, config.payload)
    sizes_above = config.payload - least + 1
    now, number = 0, 1
    while number <= config.messages:
        count = min(1 + below(config.batch), config.messages - number + 1)
        now += stream.exponential(gap * count)
        origin = origins[below(len(origins))]
        group = groups[bisect_right(shares, (bits(64) * shares[-1]) >> 64)]
        members: tuple[Site, ...] = ()
        if config.implicit and stream.chance(config.implicit):
            group, members = "", _listed(stream, domains)
        sizes = tuple([least + below(sizes_above) for _ in range(count)])
        yield Submission(now, origin, group, members, number, sizes)
        number += count


def _origins(config: SimConfig, stream: Stream) -> list[Site]:
    if isinstance(config.origins, tuple):
        return list(config.origins)
    sites = sorted(config.table.sites)
    return sites if config.origins is None else sorted(stream.sample(sites, config.origins))


def _domains(table: GroupTable) -> list[list[Site]]:
    indexed = IndexedTable.of(table)
    return [[indexed.sites[site] for site in sites] for sites, _ in indexed.domains()]


def _listed(stream: Stream, domains: Sequence[Sequence[Site]]) -> tuple[Site, ...]:
    """Some sites of one domain: no order covers the sites of two."""
    domain = stream.choice(domains)
    return tuple(sorted(stream.sample(domain, stream.between(1, len(domain)))))
