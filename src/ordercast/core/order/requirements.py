"""Whether a protocol runs on a structure. This is asked before an epoch is opened: a protocol's
objects would refuse the structure only when they are made."""

from collections.abc import Iterable

from ordercast.core.order.centralized import require_centre
from ordercast.core.order.metagroup import require_delegates
from ordercast.core.order.tom import require_prefix
from ordercast.core.structure import Structure
from ordercast.model.groups import Site


def require_fit(protocol: str, structure: Structure, sites: Iterable[Site]) -> None:
    """ConfigError, in one line, unless all these sites can take part."""
    if protocol == "metagroup":
        for site in sites:
            require_delegates(structure, site)
    elif protocol in ("tom", "centralized"):
        require = require_prefix if protocol == "tom" else require_centre
        for group in structure.groups:
            require(structure, group)
