"""What follows from a member's answer about a message whose copy is stable at a site that is no
member."""

import pytest

from ordercast.core.epochs.streams.copy_marks import CopyMarks, was_kept, was_produced
from ordercast.model.messages import MARK_BITS, in_generation

WINDOW = 5 << MARK_BITS
"""The ticket of a window of ids, as it stands in marks and numbers."""


def produced(generation: int, number: int, told: tuple[int, int], epoch: int = 3) -> bool | None:
    """The member is in epoch 3, and has told generation and number of its mark."""
    answer = CopyMarks(3, in_generation(*told), 0)
    return was_produced(answer, epoch, in_generation(generation, number))


def test_a_mark_of_the_same_generation_has_the_message_in_the_log() -> None:
    assert produced(2, 7, (2, 7)) is True
    assert produced(2, 7, (2, 90)) is True


def test_behind_a_mark_of_a_later_generation_nobody_knows_that_it_is_delivered() -> None:
    assert produced(2, 7, (3, 1)) is False
    assert produced(0, 7, (1, 1)) is False


def test_a_mark_that_is_gone_says_nothing() -> None:
    assert produced(0, 7, (0, 0)) is False


@pytest.mark.parametrize("epoch", [0, 4])
def test_a_member_in_an_earlier_epoch_cannot_know(epoch: int) -> None:
    """And if the group is in none, as far as is known, the epoch of its last one is not known."""
    assert produced(2, 7, (2, 7), epoch) is None
    assert was_kept(CopyMarks(3, WINDOW | 8, WINDOW | 8), epoch, WINDOW) is None


def test_an_id_whose_number_is_settled_is_delivered() -> None:
    assert was_kept(CopyMarks(3, WINDOW | 8, WINDOW | 8), 3, WINDOW | 2) is True
    assert was_kept(CopyMarks(4, WINDOW | 8, WINDOW | 9), 3, WINDOW | 2) is True


def test_an_id_at_the_end_of_a_log_that_may_be_cut_is_asked_for_again() -> None:
    assert was_kept(CopyMarks(3, WINDOW | 8, WINDOW | 7), 3, WINDOW | 2) is None


def test_an_id_that_is_not_remembered_or_is_in_a_later_window_has_expired() -> None:
    assert was_kept(CopyMarks(3, 0, WINDOW | 9), 3, WINDOW | 2) is False
    later = WINDOW + (1 << MARK_BITS)
    assert was_kept(CopyMarks(3, later | 1, later | 1), 3, WINDOW | 2) is False
