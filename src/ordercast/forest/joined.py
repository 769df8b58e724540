"""All trees of a forest under one root: then one order covers sends to any of its sites.

[GS] §3.1 allows any tree whose primaries are above the members; groups keep their primaries, so no
message takes a longer way.
"""

from dataclasses import replace

from ordercast.forest.forest import Forest
from ordercast.model.groups import Site


def under_one_root(forest: Forest) -> Forest:
    """The root is that of the tree with most sites; a star stays a star."""
    below: dict[Site, int] = {}
    for site in forest.parent:
        at = site
        while (above := forest.parent[at]) is not None:
            at = above
        below[at] = below.get(at, 0) + 1
    if len(below) < 2:
        return forest
    top = min(below, key=lambda root: (-below[root], root))
    if forest.builder == "star":
        parent = {site: None if site == top else top for site in forest.parent}
        return replace(forest, parent=parent, primary=dict.fromkeys(forest.primary, top))
    parent = {
        site: top if above is None and site != top else above
        for site, above in forest.parent.items()
    }
    return replace(forest, parent=parent)
