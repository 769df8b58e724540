"""Offsets: how far a query has read each site, and the ranges of positions that its tasks read.

An offset is `{site: [attempt, position]}`: everything up to this position was read, and it was
delivered in this attempt or an earlier one. Position 0 is before the first that is kept. Spark
keeps it as JSON, with the sites sorted.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.names import NAME_PATTERN, shown


class Offset(NamedTuple):
    """The place of a site's deliveries behind which reading goes on."""

    attempt: int
    position: int


Offsets: TypeAlias = dict[Site, Offset]

BEGINNING = Offset(1, 0)


class PositionRange(NamedTuple):
    """What one task reads: the positions after `after`, up to `last`. `anew`: the positions of the
    site began anew since `after`, so all positions up to `last` are read. Where rollbacks are told,
    `attempt` is the highest attempt that counts; the rollbacks in `told` come first, and `read` is
    how far the query had read before them. `joins`: the site is new to the query, so nothing is
    lost below the first position that is kept."""

    site: Site
    after: int
    last: int
    anew: bool = False
    attempt: int = 1
    told: tuple[Offset, ...] = ()
    read: int = 0
    joins: bool = False


def offsets_from(told: object, what: str) -> Offsets:
    """Offsets from JSON that was decoded. `what` names the option or file in the message."""
    if not isinstance(told, Mapping):
        raise ConfigError(f"{what}: {shown(told)} is not {{site: [attempt, position]}}")
    found: Offsets = {}
    for site, pair in told.items():
        if not isinstance(site, str) or not NAME_PATTERN.fullmatch(site):
            raise ConfigError(f"{what}: {shown(site)} is not the name of a site")
        if not (
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and all(type(number) is int and 0 <= number <= LARGEST_NUMBER for number in pair)
            and pair[0] > 0
        ):
            raise ConfigError(f"{what}: {site}: {shown(pair)} is not [attempt, position]")
        found[site] = Offset(*pair)
    return dict(sorted(found.items()))


def offsets_in(text: str, what: str) -> Offsets:
    try:
        told = json.loads(text)
    except ValueError:
        raise ConfigError(f"{what}: {shown(text)} is not JSON, 'earliest' or 'latest'") from None
    return offsets_from(told, what)


def as_json(offsets: Mapping[Site, Offset]) -> dict[str, Any]:
    """The offsets as Spark keeps them. It writes the keys in the order that they have here."""
    return {site: list(offsets[site]) for site in sorted(offsets)}


def limited(start: Offsets, end: Offsets, most: int) -> Offsets:
    """An end at most `most` positions behind the start. Each site has a share in proportion to the
    positions it lacks, and at least one position while any are left to give."""
    behind = {site: max(0, to.position - _after(start, site, to)) for site, to in end.items()}
    total = sum(behind.values())
    if total <= most:
        return end
    left, found = most, dict(end)
    for site in sorted(behind, key=lambda each: (behind[each], each)):
        if not behind[site]:
            continue
        share = min(left, behind[site], max(1, most * behind[site] // total))
        left -= share
        found[site] = Offset(end[site].attempt, _after(start, site, end[site]) + share)
    return found


def spans(start: Offsets, end: Offsets, most: int | None) -> list[PositionRange]:
    """The ranges between two offsets, by site. `most`: positions of one range."""
    found = []
    for site, to in sorted(end.items()):
        joins = site not in start
        anew = not joins and to.position < start[site].position
        after = _after(start, site, to)
        step = most or max(1, to.position - after)
        if anew and to.position == 0:
            found.append(PositionRange(site, 0, 0, True, to.attempt))
        found += [
            PositionRange(
                site, at, min(at + step, to.position), anew and at == after, to.attempt, joins=joins
            )
            for at in range(after, to.position, step)
        ]
    return found


def _after(start: Offsets, site: Site, to: Offset) -> int:
    """Where reading begins. A site's end below its start means that its positions began anew."""
    after = start.get(site, BEGINNING).position
    return 0 if to.position < after else after
