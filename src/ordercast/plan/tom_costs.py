"""[TOM] §4: transmissions per message in a network with multicast, as printed and as corrected.

s sources send one message each to the same r receivers of n hosts; d is the depth of a subtree, k
the metagroups of the group, p the path from a source up to the ordering node. Table 1 contradicts
its own text in two rows (ERRATA TOM-5); TOM itself is dearer by what its repair costs (TOM-3): the
final header is not one multicast but travels down the edges of the label tree.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """What the formulas of Table 1 speak of."""

    sources: int
    receivers: int
    hosts: int
    depth: float  # below the primary, of MP and MG
    metagroups: int  # of the group
    path: float  # from the source up to the ordering node
    edges: float = 0.0  # of the label tree below the ordering node, on the way to receivers
    extra: bool = False  # the ordering node, or the centre, is no receiver


def symmetric(x: Setting) -> float:
    return x.sources * (1 + 2 * x.receivers)


def two_phase_printed(x: Setting) -> float:
    return x.sources * (1 + x.receivers)


def two_phase(x: Setting) -> float:
    """Data, a proposal from each receiver, and the final number: the text's own three steps."""
    return x.sources * (2 + x.receivers)


def centralized_printed(x: Setting) -> float:
    return x.sources + x.receivers


def centralized(x: Setting) -> float:
    """One to the centre and one multicast for each message."""
    return 2 * x.sources


def ring(x: Setting) -> float:
    return 2 * x.sources * x.hosts


def propagation(x: Setting) -> float:
    return x.sources * (1 + x.depth)


def metagroup_printed(sources: int, depth: float, metagroups: int) -> float:
    """The primary's manager, a manager per level, and the members of each metagroup."""
    return sources * (1 + depth + metagroups)


def metagroup(x: Setting) -> float:
    return metagroup_printed(x.sources, x.depth, x.metagroups)


def tom_printed(x: Setting) -> float:
    return x.sources * (2 + x.path)


def tom(x: Setting) -> float:
    """One multicast of the data, the path of the header, and the edges down, one by one."""
    return x.sources * (1 + x.path + x.edges)


Formula = Callable[[Setting], float]

TABLE_1: Mapping[str, tuple[Formula, Formula]] = {
    "symmetric": (symmetric, symmetric),
    "two_phase": (two_phase_printed, two_phase),
    "centralized": (centralized_printed, centralized),
    "ring": (ring, ring),
    "propagation": (propagation, propagation),
    "metagroup": (metagroup, metagroup),
    "tom": (tom_printed, tom),
}
"""By protocol: the printed number of transmissions M, and ours."""
