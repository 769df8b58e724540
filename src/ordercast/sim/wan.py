"""Wide-area delays: sites in regions, and the one-way delay between each two regions.

The built-in regions are spread over the sites in the order of their names. A file of one's own is
TOML:

    jitter = "2ms"                 # added to each frame's delay, drawn between 0 and this
    [regions]
    eu = ["a", "b"]
    us = ["c"]
    [delays.eu]                    # one-way; the way back is the same unless given
    eu = "1ms"
    us = "40ms"

or CSV, each site a region of its own, with the header `from,to,delay` and rows such as `a,b,40ms`.
"""

import csv
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.names import nearest
from ordercast.model.notation import duration, require_known
from ordercast.model.options import MILLISECOND

_KEYS = ("jitter", "regions", "delays")
_TENTH = -1  # the built-in jitter: a tenth of the delay

# One-way milliseconds, near half of the round trips that public clouds publish.
_REGIONS = ("us-east", "us-west", "europe", "asia", "oceania", "south-america")
_MATRIX = (
    (1, 31, 38, 80, 99, 58),
    (31, 1, 66, 52, 70, 88),
    (38, 66, 1, 105, 130, 92),
    (80, 52, 105, 1, 52, 128),
    (99, 70, 130, 52, 1, 155),
    (58, 88, 92, 128, 155, 1),
)


@dataclass(frozen=True, slots=True)
class Wan:
    """`regions` empty: the sites are dealt out to the regions of `between`, name by name."""

    source: str
    regions: Mapping[str, tuple[Site, ...]]
    between: Mapping[str, Mapping[str, int]]
    jitter: int

    def check(self, sites: Sequence[Site]) -> None:
        region = self._region_of(sites)
        for site in sites:
            if site not in region:
                hint = nearest(site, region)
                raise ConfigError(f"{self.source}: site {site!r} is in no region{hint}")
        for a in sorted(set(region.values())):
            for b in sorted(set(region.values())):
                self._between(a, b)

    def delays(self, sites: Sequence[Site]) -> Callable[[Site, Site], tuple[int, int]]:
        """For two sites: the least delay, and how many nanoseconds above it to draw from."""
        region = self._region_of(sites)

        def delay(a: Site, b: Site) -> tuple[int, int]:
            least = self._between(region[a], region[b])
            return least, 1 + (least // 10 if self.jitter == _TENTH else self.jitter)

        return delay

    def _region_of(self, sites: Sequence[Site]) -> dict[Site, str]:
        if self.regions:
            return {site: name for name, inside in self.regions.items() for site in inside}
        names = list(self.between)
        return {site: names[place % len(names)] for place, site in enumerate(sorted(sites))}

    def _between(self, a: str, b: str) -> int:
        found = self.between.get(a, {}).get(b)
        if found is None:
            found = self.between.get(b, {}).get(a)
        if found is None:
            raise ConfigError(f"{self.source}: delays: there is none between {a!r} and {b!r}")
        return found


BUILT_IN = Wan(
    source="wan",
    regions={},
    between={
        a: {b: ms * MILLISECOND for b, ms in zip(_REGIONS, row, strict=True)}
        for a, row in zip(_REGIONS, _MATRIX, strict=True)
    },
    jitter=_TENTH,
)


def parse_wan(text: str, source: str) -> Wan:
    if source.lower().endswith(".csv"):
        return _from_csv(text, source)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: {error}") from None
    for key in data:
        require_known(key, _KEYS, source)
    regions = _regions(data.get("regions"), source)
    between = _delays(data.get("delays"), regions, source)
    jitter = duration(data.get("jitter", "0ms"), f"{source}: jitter")
    return Wan(source, regions, between, jitter)


def _regions(data: Any, source: str) -> dict[str, tuple[Site, ...]]:
    if not isinstance(data, dict) or not data:
        raise ConfigError(f"{source}: the table [regions] of name = [sites] is missing")
    regions: dict[str, tuple[Site, ...]] = {}
    placed: dict[Site, str] = {}
    for name, sites in data.items():
        if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
            raise ConfigError(f"{source}: regions.{name}: must be a list of sites, not {sites!r}")
        for site in sites:
            if site in placed:
                both = f"{placed[site]!r} and {name!r}"
                raise ConfigError(f"{source}: regions: site {site!r} is in {both}")
            placed[site] = name
        regions[name] = tuple(sites)
    return regions


def _delays(
    data: Any, regions: Mapping[str, tuple[Site, ...]], source: str
) -> dict[str, dict[str, int]]:
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: the table [delays] is missing")
    between: dict[str, dict[str, int]] = {}
    for name, row in data.items():
        require_known(name, regions, f"{source}: delays")
        if not isinstance(row, dict):
            raise ConfigError(f"{source}: delays.{name}: must be a table of region = delay")
        between[name] = {}
        for other, value in row.items():
            require_known(other, regions, f"{source}: delays.{name}")
            between[name][other] = duration(value, f"{source}: delays.{name}.{other}")
    return between


def _from_csv(text: str, source: str) -> Wan:
    rows = list(csv.reader(text.splitlines()))
    if not rows or [cell.strip() for cell in rows[0]] != ["from", "to", "delay"]:
        raise ConfigError(f"{source}: the first line must be from,to,delay")
    between: dict[str, dict[str, int]] = {}
    for number, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) != 3:
            raise ConfigError(f"{source}: line {number}: has {len(row)} fields, not 3")
        a, b, delay = (cell.strip() for cell in row)
        between.setdefault(a, {})[b] = duration(delay, f"{source}: line {number}")
        between.setdefault(b, {})
    for site in between:
        between[site].setdefault(site, 0)
    return Wan(source, {site: (site,) for site in between}, between, 0)
