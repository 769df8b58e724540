"""[STAB] §5: Table 3's sizes and Table 4's messages on all hops, counted by running the protocols.

The closed forms are written here again, apart from those that the figures show
(`studies/stab/printed_values.py`); what is measured comes from the simulator alone.
"""

import pytest

from ordercast.sim.rounds.tracking import Setting, track
from ordercast.sim.rounds.tree import parse_tree

HEIGHT = 5
TABLE_3 = {
    (2, 1): 47, (2, 2): 63,
    (3, 1): 202, (3, 2): 283, (3, 3): 364,
    (4, 1): 597, (4, 2): 853, (4, 3): 1109, (4, 4): 1365,
}  # fmt: skip
SIZES = pytest.mark.parametrize(("b", "z"), TABLE_3)


def on_hops(protocol: str, b: int, z: int) -> dict[str, int]:
    found = track(Setting(protocol, parse_tree(f"b={b},p={HEIGHT},z={z}")), seed=1)
    return {**found.on_hops, "all": found.messages_on_hops}


def f_a(b: int, p: int, z: int) -> int:
    """The sum over all members of their depth: the text's, and the closed form of STAB-1."""
    closed = (b - b**p) / (1 - b) ** 2 - (p - 1) * b**p / (1 - b) + p * z * b ** (p - 1)
    summed = int(sum(k * b**k for k in range(p)) + p * z * b ** (p - 1))
    assert closed == pytest.approx(summed)
    return summed


def f_d(b: int, p: int, z: int) -> int:
    inner = b**2 * (b ** (p - 1) - 1) / (b - 1) ** 2 - b * (p - 1) / (b - 1) - (p - 1) * (p - 2) / 2
    outer = 2 + 2 * z * b ** (p - 1) + 2 * b * (b ** (p - 1) - 1) / (b - 1) - 2 * p
    return int(2 * inner + outer)


def f_g(b: int, p: int, z: int) -> int:
    return int((2 * b - 1) * (b ** (p - 1) - 1) // (b - 1) + (2 * z - 1) * b ** (p - 1))


@SIZES
def test_table_3_group_sizes(b: int, z: int) -> None:
    assert parse_tree(f"b={b},p={HEIGHT},z={z}").build(1).count == TABLE_3[b, z]


@SIZES
def test_table_4_coordp(b: int, z: int) -> None:
    n = TABLE_3[b, z]
    acks = f_a(b, HEIGHT, z)
    assert on_hops("coordp", b, z) == {
        "start": n - 1, "ack": acks, "info": n - 1, "all": acks + 2 * n - 2,
    }  # fmt: skip


@SIZES
def test_table_4_s_coordp(b: int, z: int) -> None:
    n = TABLE_3[b, z]
    expected = {"start": n - 1, "ack": n - 1, "info": n - 1, "all": 3 * (n - 1)}
    assert on_hops("s_coordp", b, z) == expected


@pytest.mark.parametrize(("b", "z"), [(b, z) for b, z in TABLE_3 if b < 4 or z == 1])
def test_table_4_full_dist(b: int, z: int) -> None:
    """It sends to all from all: the three largest would take as long as all other rows."""
    n = TABLE_3[b, z]
    assert on_hops("full_dist", b, z) == {
        "start": 0, "ack": 0, "info": n * (n - 1), "all": n * (n - 1),
    }  # fmt: skip


@SIZES
def test_table_4_train_without_the_start_that_it_does_not_have(b: int, z: int) -> None:
    """STAB-3: the table's START and F_d − 1 ACKs are F_d ACKs."""
    hops = f_d(b, HEIGHT, z)
    assert on_hops("train", b, z) == {"start": 0, "ack": hops, "info": hops, "all": 2 * hops}


@SIZES
def test_table_4_s_train(b: int, z: int) -> None:
    n = TABLE_3[b, z]
    acks = f_g(b, HEIGHT, z)
    expected = {"start": n - 1, "ack": acks, "info": n - 1, "all": acks + 2 * n - 2}
    assert on_hops("s_train", b, z) == expected


@SIZES
def test_the_printed_closed_form_of_f_a_has_a_factor_too_many(b: int, z: int) -> None:
    """STAB-1."""
    p = HEIGHT
    printed = (b - b**p) / (1 - b) ** 2 - (p - 1) * p * b**p / (1 - b) + p * z * b ** (p - 1)
    assert printed > on_hops("coordp", b, z)["ack"]
