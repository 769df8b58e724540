"""Senders with ids of their own that move and repeat, in random schedules of members: crashes, lost
stores, partitions, changes of groups, rollbacks at `agreed`. Each message once, in each sender's
order; and ways of keeping the windows that are wrong are caught."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from ordercast.core.engine import Engine
from ordercast.core.epochs import absence, flush, member
from ordercast.core.ids import IdWindow
from ordercast.core.own_messages import OwnMessages
from ordercast.core.producers import ProducerMarks
from ordercast.core.retention import PassedBatches
from schedules.test_producers import (
    _folds_unsettled,
    _load_without_marks,
    _nothing,
    _tail_with_later_marks,
    _tail_without_marks,
    _true,
)
from support.worlds.choosing import FEW, MANY, choosing, stored_choosing
from support.worlds.producing import judged
from support.worlds.stored_members import judge_export

SCHEDULES = 8
STORED = (3, 11)


def _keeps_old(self: IdWindow, name: str, mark: int) -> bool:
    return _keeps(self, name, max(mark, self.last))


def _never_doubts(self: OwnMessages, batch: Any, *, known: bool) -> None:  # noqa: ARG001
    _logged(self, batch, known=True)


_keeps, _logged = IdWindow.keeps, OwnMessages.logged

Mutation = Callable[[], AbstractContextManager[Any]]
SEEDS, LEAP = range(2), (81,)
"""Seeds of which one at least catches a mutant. In the run of `LEAP` a site hears at once that an
epoch opened for it and was closed without it."""

MUTANTS: dict[str, tuple[Mutation, Sequence[int], int]] = {
    "delivers copies": (lambda: patch.object(ProducerMarks, "keeps", _true), SEEDS, FEW),
    "delivers what is not remembered": (
        lambda: patch.object(IdWindow, "keeps", _keeps_old),
        SEEDS,
        2,
    ),
    "tells what expired as stable": (
        lambda: patch.object(OwnMessages, "logged", _never_doubts),
        SEEDS,
        FEW,
    ),
    "forgets the ids of a checkpoint": (
        lambda: patch.object(PassedBatches, "load", _load_without_marks),
        SEEDS,
        MANY,
    ),
    "opens epochs without ids": (
        lambda: patch.object(member, "opening_marks", _nothing),
        SEEDS,
        MANY,
    ),
    "tells no ids at the end": (
        lambda: patch.object(Engine, "own_marks", _nothing),
        SEEDS,
        MANY,
    ),
    "folds copies that are not settled": (
        lambda: patch.object(PassedBatches, "_done_with", _folds_unsettled),
        SEEDS,
        MANY,
    ),
    "leaves an epoch without ids": (
        lambda: patch.object(flush, "tail_of", _tail_without_marks),
        SEEDS,
        MANY,
    ),
    "leaves an epoch with the ids of its end": (
        lambda: patch.object(flush, "tail_of", _tail_with_later_marks),
        SEEDS,
        MANY,
    ),
    "catches up without the ids of the opening": (
        lambda: patch.object(absence, "_opening_marks", lambda *_: {}),
        LEAP,
        MANY,
    ),
}


def test_numbers_that_are_used_again_in_other_batches_are_judged_by_their_last_use() -> None:
    assert judged(*choosing(6_000_016)) == []


@pytest.mark.parametrize("first", range(0, SCHEDULES, 4))
def test_each_message_with_an_id_is_delivered_once_and_in_order(first: int) -> None:
    for seed in range(first, first + 4):
        assert judged(*choosing(seed)) == [], f"seed {seed}"


@pytest.mark.parametrize("seed", STORED)
def test_stores_and_exports_know_copies_of_ids(seed: int, tmp_path: Path) -> None:
    world, senders = stored_choosing(seed, tmp_path)
    assert judged(world, senders) == []
    judge_export(world)


@pytest.mark.parametrize("seed", [*SEEDS, *LEAP])
@pytest.mark.parametrize("most", [2, FEW, MANY])
def test_the_runs_that_catch_them_are_right_without_them(seed: int, most: int) -> None:
    assert judged(*choosing(seed, "trouble", most)) == []


def test_an_absent_site_begins_an_epoch_with_ids_that_were_removed_in_it() -> None:
    """The epoch opened for a site, the window was removed, and the epoch was closed without it."""
    assert judged(*choosing(233)) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_windows_that_are_kept_wrong_are_caught(name: str) -> None:
    mutation, seeds, most = MUTANTS[name]
    with mutation():
        assert any(judged(*choosing(seed, "trouble", most)) for seed in seeds)
