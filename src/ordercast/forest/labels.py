"""Labels on a forest ([TOM] §3.2): each site's is the prefix of its children's.

A label is a tuple, one index per level: written as digits, as printed, labels are ambiguous beyond
ten children (TOM-4 of docs/errata.md). The ordering node of a set of receivers is the site whose
label is the longest common prefix of theirs (TOM-2: of the receivers, never of the sources): their
lowest common ancestor. Labels route a header to any site of the tree, up first and then down
(TOM-1).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ordercast.model.groups import Site

Label: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Labels:
    label: Mapping[Site, Label]
    site: Mapping[Label, Site]

    @classmethod
    def of(cls, parent: Mapping[Site, Site | None]) -> "Labels":
        """Roots get 0, 1, … and so do the children of a site, in the order of their names."""
        children: dict[Site | None, list[Site]] = {}
        for site in sorted(parent):
            children.setdefault(parent[site], []).append(site)
        label: dict[Site, Label] = {}
        waiting: list[tuple[Site | None, Label]] = [(None, ())]
        for above, prefix in waiting:  # grows while it is read
            for index, site in enumerate(children.get(above, ())):
                label[site] = (*prefix, index)
                waiting.append((site, label[site]))
        return cls(label, {own: site for site, own in label.items()})

    def ordering_node(self, receivers: Iterable[Site]) -> Site | None:
        """The site whose label is their longest common prefix; None: they are in several trees."""
        return self.site.get(common_prefix([self.label[site] for site in receivers]))

    def next_hop(self, at: Site, to: Site) -> Site | None:
        """From `at` one step towards `to`: to the child whose label leads there, or else to the
        parent; None: it is there, or there is no way."""
        here, there = self.label[at], self.label[to]
        if here == there or here[:1] != there[:1]:
            return None
        if is_prefix(here, there):
            return self.site[there[: len(here) + 1]]
        return self.site[here[:-1]]

    def path(self, at: Site, to: Site) -> list[Site]:
        """The sites that a header passes from `at` (left out) to `to`; empty: none, or no way."""
        found: list[Site] = []
        while (hop := self.next_hop(at, to)) is not None:
            found.append(hop)
            at = hop
        return found


def common_prefix(labels: Sequence[Label]) -> Label:
    """The longest prefix of all labels. It is also the common prefix of the least and the
    greatest."""
    least, greatest = min(labels), max(labels)
    length = 0
    while length < len(least) and least[length] == greatest[length]:
        length += 1
    return least[:length]


def is_prefix(prefix: Label, label: Label) -> bool:
    return label[: len(prefix)] == prefix
