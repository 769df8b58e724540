"""Clients that move, repeat and lose their memory, in random schedules of members: crashes, lost
stores, partitions, changes of groups, rollbacks at `agreed`. Each request once, in each client's
order; and ways of keeping the windows that are wrong are caught."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ordercast.core.clients import ClientWindow
from ordercast.core.engine import Engine
from ordercast.core.epochs import flush, member
from ordercast.core.epochs.streams.client_marks import ClientMarks, epoch_of
from ordercast.core.own_messages import OwnMessages
from ordercast.core.producers import ProducerMarks, marks_in
from ordercast.core.retention import PassedBatches
from ordercast.model.messages import Requests
from schedules.test_ids import _never_doubts
from schedules.test_producers import (
    _folds_unsettled,
    _load_without_marks,
    _nothing,
    _tail_with_later_marks,
    _tail_without_marks,
    _true,
)
from support.worlds import repeating as worlds
from support.worlds.producing import APART, SMALL, judged
from support.worlds.repeating import (
    FEW,
    MANY,
    ListRepeater,
    Repeater,
    repeating,
    stored_repeating,
)
from support.worlds.stored_members import judge_export

SCHEDULES = 2
STORED = (3,)


def _keeps_old(self: ClientWindow, requests: Requests) -> bool:
    self.horizon = 0
    return _keeps(self, requests)


_keeps = ClientWindow.keeps

Mutation = Callable[[], AbstractContextManager[Any]]
SEEDS = (0, 1, 14)
"""Seeds of which one at least catches a mutant."""

MUTANTS: dict[str, tuple[Mutation, int]] = {
    "delivers copies": (lambda: patch.object(ProducerMarks, "keeps", _true), MANY),
    "delivers what is not remembered": (
        lambda: patch.object(ClientWindow, "keeps", _keeps_old),
        1,
    ),
    "tells what expired as stable": (
        lambda: patch.object(OwnMessages, "logged", _never_doubts),
        FEW,
    ),
    "forgets the clients of a checkpoint": (
        lambda: patch.object(PassedBatches, "load", _load_without_marks),
        MANY,
    ),
    "opens epochs without clients": (lambda: patch.object(member, "opening_marks", _nothing), MANY),
    "tells no clients at the end": (lambda: patch.object(Engine, "own_marks", _nothing), MANY),
    "folds copies that are not settled": (
        lambda: patch.object(PassedBatches, "_done_with", _folds_unsettled),
        MANY,
    ),
    "leaves an epoch without clients": (
        lambda: patch.object(flush, "tail_of", _tail_without_marks),
        MANY,
    ),
    "leaves an epoch with the clients of its end": (
        lambda: patch.object(flush, "tail_of", _tail_with_later_marks),
        MANY,
    ),
}


ASKING: dict[str, Callable[[ClientMarks, int, int], bool]] = {
    "tells stable without asking": lambda _told, _epoch, _stamp: True,
    "believes members that are in an earlier epoch": lambda told, _, stamp: stamp >= told.horizon,
}


def _ask_early(self: Repeater, site: str, group: str, sent: Any = None) -> Any:
    """What was told before the copy was sent, if the epoch is the same."""
    told = self._told.get(group)
    if told is not None and told.epoch >= epoch_of(self.world.members[site].layout, group):
        return told
    return _ask(self, site, group, sent)


_ask = Repeater._ask


def test_each_request_is_delivered_once_and_in_order() -> None:
    for seed in range(SCHEDULES):
        assert judged(*repeating(seed)) == [], f"seed {seed}"


def test_what_is_known_to_be_stable_before_its_place_is_told_gets_its_answer() -> None:
    """Its primary crashes between the two, and the epoch ends."""
    assert judged(*repeating(11_974, SMALL)) == []


@pytest.mark.parametrize(
    ("seed", "kind"), [(1_501_213, APART), (1_503_219, APART), (1_505_207, SMALL)]
)
def test_a_number_that_is_used_again_is_judged_by_its_last_use(seed: int, kind: str) -> None:
    """A message to a frozen group was refused; a site crashed before it said `accepted` again."""
    assert judged(*repeating(seed, kind)) == []


def test_what_an_absent_member_may_have_is_not_refused_because_its_window_was_removed() -> None:
    """The only member was absent, and came back with requests in its log."""
    assert judged(*repeating(127_576)) == []


def test_absent_members_do_not_get_what_they_missed_of_a_group_that_was_removed() -> None:
    """One had missed the end of an epoch, and was absent in the group's last one too."""
    assert judged(*repeating(2_548)) == []


def test_a_request_to_a_list_waits_for_a_site_that_is_down_for_good() -> None:
    world, clients = repeating(2_649, make=ListRepeater)
    assert judged(world, clients) == []
    assert any(one.waits_for(world.down, sent) for one in clients for sent in one.open)


def test_lists_of_sites_recognise_requests_too() -> None:
    for seed, kind in ((0, SMALL), (1, APART), (2, APART), (4, "")):
        world, clients = repeating(seed, kind, make=ListRepeater)
        assert judged(world, clients) == [], f"seed {seed}"
        assert sum(one.copies for one in clients) > sum(len(one.stable) for one in clients) > 0


def test_a_list_whose_window_is_not_handed_on_is_caught() -> None:
    """Epochs begin with the clients of groups alone."""
    with patch.object(member, "opening_marks", marks_in):
        found = [bool(judged(*repeating(n, "trouble", MANY, ListRepeater))) for n in range(6)]
    assert any(found)


@pytest.mark.parametrize("seed", STORED)
def test_stores_and_exports_know_copies_of_requests(seed: int, tmp_path: Path) -> None:
    world, senders = stored_repeating(seed, tmp_path)
    assert judged(world, senders) == []
    judge_export(world)


@pytest.mark.parametrize(("seed", "most"), [(14, 1), (1, FEW), (0, MANY)])
def test_the_runs_that_catch_them_are_right_without_them(seed: int, most: int) -> None:
    assert judged(*repeating(seed, "trouble", most)) == []


def test_a_site_that_is_no_member_asks_and_believes_what_is_new() -> None:
    for seed in (0, 3):
        world, clients = repeating(seed, APART, 1)
        assert judged(world, clients) == []
        assert sum(one.outside for one in clients) > 0
    with patch.object(Repeater, "_ask", _ask_early):
        assert judged(*repeating(3, APART, 1))


@pytest.mark.parametrize("name", ASKING)
def test_a_site_that_is_no_member_and_believes_too_much_is_caught(name: str) -> None:
    with patch.object(worlds, "was_delivered", ASKING[name]):
        assert judged(*repeating(3, APART, 1))


@pytest.mark.parametrize("name", MUTANTS)
def test_windows_that_are_kept_wrong_are_caught(name: str) -> None:
    mutation, most = MUTANTS[name]
    with mutation():
        assert any(judged(*repeating(seed, "trouble", most)) for seed in SEEDS)
