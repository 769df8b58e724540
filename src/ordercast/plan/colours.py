"""The colour of each group: its own, or the colour of the site that orders it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ordercast.forest.forest import Forest
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.plan.captions import count

# Told apart by most readers with a colour vision deficiency, the first ones best.
PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9",
    "#8C564B", "#B5A400", "#6A3D9A", "#5D6D7E", "#2EC4B6", "#F06292",
)  # fmt: skip
INK, PAPER = "#22313F", "#FFFFFF"


@dataclass(frozen=True, slots=True)
class Colouring:
    of_group: Mapping[Group, str]
    of_site: Mapping[Site, str]  # of the sites that order groups; empty if groups have their own
    legend: Sequence[tuple[str, str]]  # colour, what it stands for
    repeats: bool = False  # there are more sites that order groups than colours

    @property
    def each_group(self) -> bool:
        return not self.of_site


def colour_groups(forest: Forest, table: GroupTable, order: Sequence[Site]) -> Colouring:
    """`order` is that of the sites on the page: neighbours get different colours."""
    groups = sorted(table.groups)
    if len(groups) <= len(PALETTE):
        of_group = dict(zip(groups, PALETTE, strict=False))
        return Colouring(of_group, {}, [(of_group[g], _said(g, table, forest)) for g in groups])
    ordered = Counter(forest.primary[group] for group in groups)
    primaries = [site for site in order if site in ordered]
    of_site = {site: PALETTE[i % len(PALETTE)] for i, site in enumerate(primaries)}
    of_group = {group: of_site[forest.primary[group]] for group in groups}
    if len(primaries) > len(PALETTE):
        return Colouring(of_group, of_site, (), repeats=True)
    legend = [(of_site[s], f"{count(ordered[s], 'group')} ordered by {s}") for s in primaries]
    return Colouring(of_group, of_site, legend)


def ink_on(filling: str) -> str:
    """The colour of text that is readable on it, by its luma."""
    red, green, blue = (int(filling[i : i + 2], 16) for i in (1, 3, 5))
    return INK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else PAPER


def _said(group: Group, table: GroupTable, forest: Forest) -> str:
    members = ", ".join(sorted(table.groups[group]))
    if len(members) > 24:
        members = count(len(table.groups[group]), "site")
    return f"{group} ({members}), ordered by {forest.primary[group]}"
