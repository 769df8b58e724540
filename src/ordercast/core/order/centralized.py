"""`centralized`: one sequencer per domain, after Chang & Maxemchuk as in [GS] §2 and §4.

It is message passing on a forest of depth 1. The centre places every message of its domain and
sends it to each member. So a key is one counter, and no site below the centre merges anything.
"""

from ordercast.core.order.interface import Environment
from ordercast.core.order.propagation import Propagation
from ordercast.core.structure import Structure
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site


class Centralized(Propagation):
    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        for group in structure.groups_at(site):
            require_centre(structure, group)
        super().__init__(site, structure, environment, causal=causal)


def require_centre(structure: Structure, group: Group) -> None:
    primary = structure.primary(group)
    if structure.depth(primary) > 0 or (
        not structure.flat and any(structure.depth(site) > 1 for site in structure.members(group))
    ):
        raise ConfigError(
            f"centralized needs a forest of depth 1 (builder 'star'): group {group!r} has none"
        )
