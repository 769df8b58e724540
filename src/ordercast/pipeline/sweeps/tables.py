"""The group tables of a sweep: read from a file, or drawn at random.

Drawn are those of [GS] §4.1's experiments, and their local variant.

The same options and seed give the same table on every machine: only whole numbers are drawn.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, GroupTable, Site, parse_groups
from ordercast.model.verb_options import Number, ReadFile, VerbOption, WholeNumber, Word, by_name
from ordercast.pipeline.sweeps.swept_verb import Config
from ordercast.sim.chance import Chance

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


class _Groups(WholeNumber):
    """How many to draw, or the file that they are in."""

    def check(self, value: Any, where: str, read: ReadFile) -> None:
        if isinstance(value, str):
            parse_groups(read(value), source=value)
        else:
            super().check(value, where, read)


class _Spread(Number):
    def check(self, value: Any, where: str, read: ReadFile) -> None:
        if value != UNIFORM:
            super().check(value, where, read)


OPTIONS: Mapping[str, VerbOption] = by_name(
    (
        VerbOption("sites", WholeNumber(1), "how many"),
        VerbOption("groups", _Groups(1), "how many to draw, or their file"),
        VerbOption("size", WholeNumber(1), "members of a group, or their mean"),
        VerbOption("spread", _Spread(0.01, 1e6), "of local groups; or uniform"),
        VerbOption("sizes", Word(SIZES), "all of one size, or exponential"),
    )
)


def drawing_of(config: Config) -> Drawing:
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
        raise ConfigError(f"size: groups of {drawing.size:,} do not fit {drawing.sites:,} sites")
    return drawing


def table_of(config: Config, seed: int, read: ReadFile) -> GroupTable:
    """The groups of a run: drawn from its seed, or those of the file."""
    groups = config.get("groups")
    if groups is None:
        raise ConfigError("groups: is missing: a file, or how many to draw")
    if isinstance(groups, int):
        return draw_table(drawing_of(config), seed)
    for option in OPTIONS:
        if option != "groups" and option in config:
            raise ConfigError(f"{option}: says how groups are drawn, but {groups!r} is a file")
    return parse_groups(read(groups), source=groups)


def table_like(config: Config, read: ReadFile) -> GroupTable:
    """The table itself, or one with the same sites that takes no time to draw."""
    if isinstance(config.get("groups"), int):
        sites = site_names(drawing_of(config).sites)
        return GroupTable(sites, {"g": sites[:1]})
    return table_of(config, 0, read)


def site_names(count: int) -> tuple[Site, ...]:
    """In sort order, also by number."""
    width = len(str(count - 1))
    return tuple(f"s{number:0{width}d}" for number in range(count))


def draw_table(drawing: Drawing, seed: int) -> GroupTable:
    stream = Chance(seed, "groups")
    sites = site_names(drawing.sites)
    width = len(str(drawing.groups - 1))
    groups: dict[Group, tuple[Site, ...]] = {}
    for place in range(drawing.groups):
        size = _size(drawing, stream)
        if drawing.spread is None:
            members = _anywhere(drawing.sites, size, stream)
        else:
            members = _around(drawing.sites, size, drawing.spread, stream)
        groups[f"g{place:0{width}d}"] = tuple(sites[member] for member in members)
    return GroupTable(sites, groups)


def _size(drawing: Drawing, stream: Chance) -> int:
    """Exponential sizes are the discrete kind, geometric: 1 or more, `size` on average, at most
    all sites."""
    if drawing.sizes == SIZES[0]:
        return drawing.size
    size = 1
    while size < drawing.sites and stream.below(drawing.size):
        size += 1
    return size


def _anywhere(sites: int, size: int, stream: Chance) -> list[int]:
    if 2 * size > sites:
        return sorted(stream.sample(range(sites), size))
    found: set[int] = set()
    while len(found) < size:
        found.add(stream.below(sites))
    return sorted(found)


def _around(sites: int, size: int, spread: float, stream: Chance) -> list[int]:
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
    raise ConfigError(f"spread: {spread:g} is too narrow for groups of {size:,} sites")
