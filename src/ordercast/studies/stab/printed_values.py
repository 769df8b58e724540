"""What [STAB] prints: the formulas of Tables 1 and 4, §5.4.1's queues and §5.4.2's round trips."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ordercast.studies.stab.tree import TreeShape

Formula = Callable[[TreeShape], float]

ROUNDS: Mapping[str, Formula] = {
    "coordp": lambda _: 3,
    "full_dist": lambda _: 2,
    "train": lambda s: 2 * s.n,
    "s_coordp": lambda s: s.p + 2,
    "s_train": lambda s: s.b * s.p + 2,
}
"""Table 1, by protocol: the rounds of one execution."""

PROCESSED_BY_THE_FIRST: Mapping[str, Formula] = {
    "coordp": lambda s: s.n + 3,
    "full_dist": lambda s: s.n + 1,
    "train": lambda _: 4,
    "s_coordp": lambda s: s.b + 4,
    "s_train": lambda _: 5,
}
"""Table 1: the messages that the first member sends and receives."""


class Ratio(NamedTuple):
    """So many times longer is the round trip of the basic protocol."""

    basic: str
    structured: str
    members: int
    times: float


RATIOS: Sequence[Ratio] = (
    Ratio("coordp", "s_coordp", 1_000, 70),
    Ratio("coordp", "s_coordp", 20_000, 2_100),
    Ratio("train", "s_train", 1_000, 35),
    Ratio("train", "s_train", 20_000, 500),
)


def coordp_acks(s: TreeShape) -> float:
    """F_a in its closed form, which has a factor p too many (errata STAB-1)."""
    b, p, z = s.b, s.p, s.z
    return float((b - b**p) / (1 - b) ** 2 - (p - 1) * p * b**p / (1 - b) + p * z * b ** (p - 1))


def train_hops(s: TreeShape) -> float:
    """F_d: once round the circle."""
    b, p, z = s.b, s.p, s.z
    inner = b**2 * (b ** (p - 1) - 1) / (b - 1) ** 2 - b * (p - 1) / (b - 1) - (p - 1) * (p - 2) / 2
    outer = 2 + 2 * z * b ** (p - 1) + 2 * b * (b ** (p - 1) - 1) / (b - 1) - 2 * p
    return float(2 * inner + outer)


def s_train_acks(s: TreeShape) -> float:
    """F_g."""
    b, p, z = s.b, s.p, s.z
    return float((2 * b - 1) * (b ** (p - 1) - 1) / (b - 1) + (2 * z - 1) * b ** (p - 1))


MESSAGES_ON_HOPS: Mapping[str, Formula] = {
    "coordp": lambda s: coordp_acks(s) + 2 * s.n - 2,
    "full_dist": lambda s: s.n * (s.n - 1),
    "train": lambda s: 2 * train_hops(s),
    "s_coordp": lambda s: 3 * (s.n - 1),
    "s_train": lambda s: s_train_acks(s) + 2 * s.n - 2,
}
"""Table 4, by protocol: the exact totals, drawn in Figure 6."""


def _multicast(s: TreeShape) -> float:
    """Once over every link."""
    return s.n - 1


KINDS_ON_HOPS: Mapping[str, Mapping[str, Formula]] = {
    "start": {"coordp": _multicast, "train": lambda _: 1, "s_coordp": _multicast,
              "s_train": _multicast},
    "ack": {"coordp": coordp_acks, "train": lambda s: train_hops(s) - 1, "s_coordp": _multicast,
            "s_train": s_train_acks},
    "info": {"coordp": _multicast, "full_dist": lambda s: s.n * (s.n - 1), "train": train_hops,
             "s_coordp": _multicast, "s_train": _multicast},
}  # fmt: skip
"""Table 4, by kind of message and protocol. It gives Train a START (errata STAB-3)."""


HOPS_OF_THE_LAST_ACK: Mapping[str, Formula] = {
    "train": train_hops,
    "s_train": lambda s: s.p * (2 * (s.b - 1) + 1),
}
"""§5.4.2: H_d = F_d and H_h. The round trip is said to be proportional to them."""

LONGEST_QUEUE: Mapping[str, int] = {"train": 1, "s_coordp": 1, "s_train": 1}
"""§5.4.1, on trees of any size."""
