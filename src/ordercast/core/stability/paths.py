"""The place of each site in the rounds of a domain. All sites of its tree take part, relays too.

The circle is the tree in preorder, so its first site is the root. The structured protocols run on
the tree of the forest, whose links exist anyway. Where that would overload a site (a star) or take
too long (a chain) they run on another tree over the same circle, with `BRANCHING` children for each
site. All sites of an epoch have the same structure, so they agree on the places.
"""

from ordercast.core.stability.rounds import RoundPaths
from ordercast.core.structure import Structure
from ordercast.model.groups import Site

BRANCHING = 4
MOST_CHILDREN = 16
MOST_DEPTH = 16


def paths_of(site: Site, structure: Structure, *, structured: bool) -> RoundPaths[Site]:
    root = structure.root(site)
    known = structure.round_paths.get((root, structured))
    if known is None:
        known = structure.round_paths[root, structured] = _paths(root, structure, structured)
    return known


def _paths(root: Site, structure: Structure, structured: bool) -> RoundPaths[Site]:
    ring: list[Site] = []
    ahead = [root]
    while ahead:
        ring.append(site := ahead.pop())
        ahead.extend(reversed(structure.children[site]))
    widest = max(len(structure.children[site]) for site in ring)
    deepest = max(structure.depth(site) for site in ring)
    if not structured or (widest <= MOST_CHILDREN and deepest <= MOST_DEPTH):
        return RoundPaths(ring, {site: structure.children[site] for site in ring})
    return RoundPaths(
        ring,
        {
            site: ring[BRANCHING * place + 1 : BRANCHING * place + 1 + BRANCHING]
            for place, site in enumerate(ring)
        },
    )
