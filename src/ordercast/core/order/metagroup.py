"""`metagroup`: message passing between metagroups (Jia, as told in [TOM] §4.2.2; errata OTHER-4).

Sites in exactly the same groups form a metagroup, one node of the tree; one of them is its manager.
A message goes to the manager of the group's primary metagroup. A manager merges what it places with
what its parent manager hands it, in one order, passes it on to the child managers at or below which
there are members, and to its own members if they are concerned: all of them or none are, except
with listed sites. Only managers receive from managers.

On the forest of `forest.metagroups`, where a manager's own members are its children too, that is
the message passing protocol of [GS]; links are FIFO, so members see their manager's order. A parent
that sent straight to the members of a child metagroup would let them see another one.
"""

from ordercast.core.order.interface import Environment
from ordercast.core.order.propagation import Propagation
from ordercast.core.structure import Structure
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site


class Metagroup(Propagation):
    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        require_managers(structure, site)
        super().__init__(site, structure, environment, causal=causal)


def require_managers(structure: Structure, site: Site) -> None:
    """The site and those in exactly its groups have one manager, which alone has children."""
    groups = structure.groups_of[site]
    if not groups:
        return
    manager = structure.manager(site)
    for other in structure.members(groups[0]):
        if structure.groups_of[other] != groups or other == manager:
            continue
        if structure.parent(other) != manager or structure.children[other]:
            raise ConfigError(
                "metagroup needs a forest of managers (builder 'metagroups'):"
                f" {other!r} is in the same groups as {manager!r}, and not a leaf below it"
            )
