"""`metagroup`: message passing between metagroups (Jia, as told in [TOM] §4.2.2; errata OTHER-4).

Sites in exactly the same groups form a metagroup, which is one node of the tree. One of them is its
delegate. A message goes to the delegate of the group's primary metagroup. A delegate merges the
batches that it places with the batches from its parent delegate into one order. It passes messages
on to the child delegates at or below which there are members, and to the sites of its own metagroup
if they are members: either all of them are or none, except with listed sites. Only delegates
receive from delegates.

On the forest of `forest.metagroups` the other sites of a metagroup are children of their delegate.
There this is the message passing protocol of [GS]; links are FIFO, so sites see the order of their
delegate. A parent that sent straight to the sites of a child metagroup would show them another one.
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
        require_delegates(structure, site)
        super().__init__(site, structure, environment, causal=causal)


def require_delegates(structure: Structure, site: Site) -> None:
    """ConfigError unless all sites of the site's metagroup but its delegate are leaves below it."""
    groups = structure.groups_of[site]
    if not groups:
        return
    delegate = structure.delegate(site)
    for other in structure.members(groups[0]):
        if structure.groups_of[other] != groups or other == delegate:
            continue
        if structure.parent(other) != delegate or structure.children[other]:
            raise ConfigError(
                "metagroup needs a forest of delegates (builder 'metagroups'):"
                f" {other!r} is in the same groups as {delegate!r}, and not a leaf below it"
            )
