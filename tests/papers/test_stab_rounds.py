"""[STAB] §3, §4: the rounds of Figures 1 to 5, and Table 1's rounds and messages processed."""

import pytest

from ordercast.core.stability.rounds import RoundPaths
from ordercast.sim.rounds.tracking import Setting, Tracked, track
from ordercast.sim.rounds.tree import TreeShape, parse_tree
from support.worlds.stability_rounds import EVERYONE, Group, b_ary, lock_step

COMPLETE = [(2, 2), (2, 5), (3, 3), (4, 4)]  # b, p


def shape(b: int, p: int) -> TreeShape:
    return parse_tree(f"b={b},p={p},z={b}")


def tracked(protocol: str, b: int, p: int) -> Tracked:
    return track(Setting(protocol, shape(b, p)), seed=1)


# --- the figures ----------------------------------------------------------------------------------


def test_figure_1_coordp_start_acks_info() -> None:
    assert lock_step(Group("coordp", b_ary(4, 1))) == [
        [("START", 1, EVERYONE)],
        [("ACK", 2, 1), ("ACK", 3, 1), ("ACK", 4, 1), ("ACK", 5, 1)],
        [("INFO", 1, EVERYONE)],
    ]


def test_figure_2_full_dist_the_first_row_then_all_others() -> None:
    assert lock_step(Group("full_dist", b_ary(4, 1))) == [
        [("INFO", 1, EVERYONE)],
        [("INFO", name, EVERYONE) for name in (2, 3, 4, 5)],
    ]


def test_figure_3_train_goes_round_twice() -> None:
    circle = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1)]
    assert lock_step(Group("train", b_ary(4, 1))) == [
        [(kind, source, target)] for kind in ("ACK", "INFO") for source, target in circle
    ]


def test_figure_4_s_coordp_level_by_level() -> None:
    """b = 2, p = 2: members 4 to 7 are the leaves."""
    assert lock_step(Group("s_coordp", b_ary(2, 2))) == [
        [("START", 1, EVERYONE)],
        [("ACK", 4, 2), ("ACK", 5, 2), ("ACK", 6, 3), ("ACK", 7, 3)],
        [("ACK", 2, 1), ("ACK", 3, 1)],
        [("INFO", 1, EVERYONE)],
    ]


def test_figure_5_s_train_a_train_in_every_subgroup() -> None:
    """b = 3, p = 2: leaf groups 5–7, 8–10, 11–13 below 2, 3, 4. Their first members are those of
    STAB-3: numbers 1, 4 and 7 of their level."""
    assert lock_step(Group("s_train", b_ary(3, 2))) == [
        [("START", 1, EVERYONE)],
        [("ACK", 5, 6), ("ACK", 8, 9), ("ACK", 11, 12)],
        [("ACK", 6, 7), ("ACK", 9, 10), ("ACK", 12, 13)],
        [("ACK", 7, 2), ("ACK", 10, 3), ("ACK", 13, 4)],
        [("ACK", 2, 3)],
        [("ACK", 3, 4)],
        [("ACK", 4, 1)],
        [("INFO", 1, EVERYONE)],
    ]


@pytest.mark.parametrize("protocol", ["coordp", "full_dist", "train", "s_coordp", "s_train"])
def test_the_end_of_a_round_is_array_min_at_every_member(protocol: str) -> None:
    group = Group(protocol, b_ary(3, 2))
    for name, member in group.members.items():
        member.array = tuple(20 + (name * sender) % 7 for sender in range(1, 14))
    lock_step(group)
    assert group.ends == dict.fromkeys(group.members, group.truth())
    assert len(set(group.members[1].array)) > 1


def test_s_train_needs_bp_rounds_of_acks_also_when_the_last_groups_are_smaller() -> None:
    """STAB-3: with z children at the last level, z rounds for it and b for each other one."""
    for b, p, z in [(3, 2, 2), (4, 3, 1), (2, 4, 2)]:
        found = track(Setting("s_train", parse_tree(f"b={b},p={p},z={z}")), seed=1)
        assert found.rounds == (p - 1) * b + z + 2


# --- Table 1 --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("b", "p"), COMPLETE)
def test_table_1_rounds(b: int, p: int) -> None:
    n = shape(b, p).n
    rounds = {"coordp": 3, "full_dist": 2, "train": 2 * n, "s_coordp": p + 2, "s_train": b * p + 2}
    for protocol, expected in rounds.items():
        assert tracked(protocol, b, p).rounds == expected, protocol
        assert len(lock_step(Group(protocol, b_ary(b, p)))) == expected, protocol


@pytest.mark.parametrize(("b", "p"), COMPLETE)
def test_table_1_messages_processed(b: int, p: int) -> None:
    n = shape(b, p).n
    table = {
        "coordp": {"root": (n + 3, n + 3), "internal": (3, 3), "leaf": (3, 3)},
        "full_dist": dict.fromkeys(("root", "internal", "leaf"), (n + 1, n + 1)),
        "train": dict.fromkeys(("root", "internal", "leaf"), (4, 4)),
        "s_coordp": {"root": (b + 4, b + 4), "internal": (b + 3, b + 3), "leaf": (3, 3)},
        "s_train": {"root": (5, 5), "internal": (4, 5), "leaf": (3, 4)},
    }
    for protocol, processed in table.items():
        assert tracked(protocol, b, p).processed == processed, protocol


def test_the_coordinator_sends_two_and_receives_the_rest() -> None:
    """§3.1: of its n + 3 messages 2 are sent; all others send one ACK each."""
    found = tracked("coordp", 2, 5)
    assert found.sent == {"start": 1, "ack": found.members - 1, "info": 1}


def test_a_circle_need_not_follow_the_tree() -> None:
    layout = RoundPaths([1, 3, 2], {1: [2, 3]})
    assert lock_step(Group("train", layout))[:2] == [[("ACK", 1, 3)], [("ACK", 3, 2)]]
