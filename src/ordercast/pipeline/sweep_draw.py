"""Group tables drawn at random for a sweep: [GS] §4.1's experiments and their local variant.

The same options and seed give the same table on every machine: only whole numbers are drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.sim.chance import Stream

SIZES = ("fixed", "exponential")
UNIFORM = "uniform"

_ATTEMPTS = 200  # per member of a local group, before its place counts as too narrow
_BELL = 12  # uniforms, whose sum has the variance of one squared range


@dataclass(frozen=True, slots=True)
class Drawing:
    """`groups` groups among `sites` sites. `spread` is the standard deviation, in sites, around a
    centre on the ring of all sites; None: uniform. `sizes` exponential: `size` is their mean."""

    sites: int
    groups: int
    size: int
    spread: float | None = None
    sizes: str = "fixed"


OPTIONS = ("sites", "groups", "size", "spread", "sizes")


def drawing_of(config: Mapping[str, Any]) -> Drawing:
    """From the options of a sweep, each of the right type already."""
    for name in ("sites", "size"):
        if name not in config:
            raise ConfigError(f"{name}: is missing; groups are drawn, since 'groups' is a number")
    spread = config.get("spread", UNIFORM)
    drawing = Drawing(
        config["sites"],
        config["groups"],
        config["size"],
        None if spread == UNIFORM else float(spread),
        config.get("sizes", SIZES[0]),
    )
    if drawing.size > drawing.sites:
        raise ConfigError(f"size: groups of {drawing.size} do not fit {drawing.sites} sites")
    return drawing


def site_names(count: int) -> tuple[Site, ...]:
    """In sort order, also by number."""
    width = len(str(count - 1))
    return tuple(f"s{number:0{width}d}" for number in range(count))


def draw_table(drawing: Drawing, seed: int) -> GroupTable:
    stream = Stream(seed, "groups")
    sites = site_names(drawing.sites)
    width = len(str(drawing.groups - 1))
    groups: dict[Group, tuple[Site, ...]] = {}
    for number in range(drawing.groups):
        size = _size(drawing, stream)
        if drawing.spread is None:
            members = _anywhere(drawing.sites, size, stream)
        else:
            members = _around(drawing.sites, size, drawing.spread, stream)
        groups[f"g{number:0{width}d}"] = tuple(sites[member] for member in members)
    return GroupTable(sites, groups)


def _size(drawing: Drawing, stream: Stream) -> int:
    """Exponential sizes are the discrete kind, geometric: 1 or more, `size` on average, at most
    all sites."""
    if drawing.sizes == SIZES[0]:
        return drawing.size
    size = 1
    while size < drawing.sites and stream.below(drawing.size):
        size += 1
    return size


def _anywhere(sites: int, size: int, stream: Stream) -> list[int]:
    if 2 * size > sites:
        return sorted(stream.sample(range(sites), size))
    found: set[int] = set()
    while len(found) < size:
        found.add(stream.below(sites))
    return sorted(found)


def _around(sites: int, size: int, spread: float, stream: Stream) -> list[int]:
    """Around a centre of their own, by a sum of uniforms: bell-shaped, and without any logarithm
    that machines may round differently."""
    centre = stream.below(sites)
    scale = round(spread * (1 << 16))
    found: set[int] = set()
    for _ in range(_ATTEMPTS * size):
        bell = sum(stream.bits(16) for _ in range(_BELL)) - _BELL * ((1 << 16) - 1) // 2
        found.add((centre + ((bell * scale + (1 << 31)) >> 32)) % sites)
        if len(found) == size:
            return sorted(found)
    raise ConfigError(f"spread: {spread:g} is too narrow for groups of {size} sites")
