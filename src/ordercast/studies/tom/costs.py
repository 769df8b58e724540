"""[TOM] §4, Table 1: transmissions per message where there is multicast, as printed and corrected.

s sources send one message each to the same r receivers of n hosts. Table 1 contradicts its own text
for two-phase and centralized ordering, and its own equation for the load of symmetric ordering
(errata TOM-5); a broadcast per level, as it has it for the trees, is a lower bound (GS-9); TOM is
dearer by the cost of its repair (TOM-3): the final header is not one multicast but travels down the
label tree, one transmission for each site that forwards it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log
from typing import Literal


@dataclass(frozen=True, slots=True)
class FormulaTerms:
    """The terms of the formulas; those below the dots are for the corrected ones only."""

    sources: int
    receivers: float
    hosts: float
    depth: float = 0.0  # d: below the primary, of MP and MG
    metagroups: float = 0.0  # k: of the group
    path: float = 0.0  # p: from the source up to the ordering node
    # …
    forwarding: float = 0.0  # sites that send it down: of MG delegates, of TOM the final header
    inside: int = 0  # sources among the receivers, as §4 has them all
    on_top: int = 0  # sources that are the centre, or the primary, themselves
    branching: float = 0.0  # B: most children of a site of the group's tree that are on the way


Formula = Callable[[FormulaTerms], float]


def symmetric_printed(x: FormulaTerms) -> float:
    return x.sources * (1 + 2 * x.receivers)


def symmetric(x: FormulaTerms) -> float:
    """The data, a question from each receiver, and an answer to each from every host that may send
    (OTHER-2): an answer says what its asker still lacks, so no two askers share one. Of messages
    one at a time; sources that send at once answer each other by their data."""
    return x.sources * (2 + x.receivers * (x.hosts - 1))


def two_phase_printed(x: FormulaTerms) -> float:
    return x.sources * (1 + x.receivers)


def two_phase(x: FormulaTerms) -> float:
    """Data, a proposal from each receiver, and the final number: the text's own three steps. A
    source sends itself no proposal."""
    return x.sources * (2 + x.receivers) - x.inside


def centralized_printed(x: FormulaTerms) -> float:
    return x.sources + x.receivers


def centralized(x: FormulaTerms) -> float:
    """One to the centre and one multicast for each message."""
    return 2 * x.sources - x.on_top


def ring_printed(x: FormulaTerms) -> float:
    return 2 * x.sources * x.hosts


def ring(x: FormulaTerms) -> float:
    """Half a turn of the call that fetches the token, half a turn of the token (both on average),
    which then goes on; the body to members, and a header to the others (OTHER-3). Of messages one
    at a time in an idle ring; sources at once share a turn."""
    return x.sources * (x.hosts + 2)


def propagation_printed(x: FormulaTerms) -> float:
    return x.sources * (1 + x.depth)


def propagation(x: FormulaTerms) -> float:
    """One to the primary, and one for each site that forwards."""
    return x.sources * (1 + x.forwarding) - x.on_top


def metagroup_printed(x: FormulaTerms) -> float:
    """The primary's delegate, a delegate per level, and the members of each metagroup."""
    return x.sources * (1 + x.depth + x.metagroups)


def metagroup(x: FormulaTerms) -> float:
    """One to the primary's delegate, and one for each delegate with others below it or with members
    of its own: what it sends them at one time is one transmission."""
    return x.sources * (1 + x.forwarding) - x.on_top


def tom_printed(x: FormulaTerms) -> float:
    return x.sources * (2 + x.path)


def tom(x: FormulaTerms) -> float:
    """One multicast of the data, the path of the header, and one for each site that forwards the
    final header."""
    return x.sources * (1 + x.path + x.forwarding)


TRANSMISSIONS: Mapping[str, tuple[Formula, Formula]] = {
    "symmetric": (symmetric_printed, symmetric),
    "two_phase": (two_phase_printed, two_phase),
    "centralized": (centralized_printed, centralized),
    "ring": (ring_printed, ring),
    "propagation": (propagation_printed, propagation),
    "metagroup": (metagroup_printed, metagroup),
    "tom": (tom_printed, tom),
}
"""By protocol, in the order of Table 1: M as printed, and ours."""

PROCESSING: Mapping[str, tuple[str, str]] = {
    "symmetric": ("O(sr²)", "O(sr)"),
    "two_phase": ("O(r)", "O(r)"),
    "centralized": ("O(sr)", "O(sr)"),
    "ring": ("O(r)", "O(r)"),
    "propagation": ("O(B)", "O(B)"),
    "metagroup": ("O(B)", "O(B)"),
    "tom": ("O(B)", "O(B)"),
}
"""The same of X, the load of the busiest host per message."""


def _one(_: FormulaTerms) -> float:
    return 1


def _each(x: FormulaTerms) -> float:
    return x.sources


_OF_A_TREE: Mapping[str, Formula] = {
    "source": _one,
    "order": lambda x: 2 * x.branching,
    "receiver": _one,
}
PACKETS: Mapping[str, Mapping[str, Formula]] = {
    "symmetric": {
        "source": lambda x: x.receivers,
        "receiver": lambda x: x.sources * (1 + x.receivers),
    },
    "two_phase": {"source": lambda x: 3 * x.receivers, "receiver": lambda x: 3 * x.sources},
    "centralized": {
        "source": _one,
        "order": lambda x: x.sources * (1 + x.receivers),
        "receiver": _each,
    },
    "ring": {"source": lambda x: 1 + 2 * x.receivers, "receiver": _each},
    "propagation": _OF_A_TREE,
    "metagroup": _OF_A_TREE,
    "tom": _OF_A_TREE,
}
"""Equations 1 to 5 as packets that a host sends and receives: X_p and Y_p, and of symmetric X_c,
count one each; what is fed, checked or delivered inside a host counts nothing. By role: a source,
the ordering node where there is one, a receiver that is neither."""

GROWTH: Mapping[str, tuple[float, float]] = {
    "symmetric": (2, 1),
    "two_phase": (1, 0),
    "centralized": (1, 1),
    "ring": (1, 0),
    "propagation": (0, 0),
    "metagroup": (0, 0),
    "tom": (0, 0),
}
"""The powers of r and of s in Table 1's X; of the trees' X / B."""


def figure_5(
    hosts: float,
    *,
    height_of: Literal["hosts", "receivers"] = "hosts",
    branching: float = 5.0,
    metagroups: float = 1.0,
) -> FormulaTerms:
    """The setting of Figure 5 for a session of this many hosts: one source, a tenth of the hosts as
    receivers (one at least), trees of degree B = 5, d = log_B r, p = h/2. The height h of TOM's
    tree and k are not given: h is log_B n or log_B r (errata TOM-5), k a parameter. In a tree of
    degree B one receiver in B forwards."""
    receivers = max(1.0, hosts / 10)
    height = log(max(1.0, hosts if height_of == "hosts" else receivers), branching)
    return FormulaTerms(
        1, receivers, hosts, log(receivers, branching), metagroups, height / 2,
        max(1.0, (receivers - 1) / branching),
    )  # fmt: skip
