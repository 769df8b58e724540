"""Producers that move and repeat, in random schedules of members: crashes, lost stores, partitions,
changes of groups, rollbacks at `agreed`. Each message once, in each producer's order; and ways of
keeping the marks that are wrong are caught."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from ordercast.core.engine import Engine
from ordercast.core.epochs import absence, flush, member
from ordercast.core.epochs.log_tail import Tail, tail_of
from ordercast.core.outbox import FoldedPast
from ordercast.core.producers import ProducerMarks
from ordercast.core.retention import Held, PassedBatches
from support.worlds.producing import judged, producing, stored_producing
from support.worlds.stored_members import judge_export

SCHEDULES = 8
STORED = (3, 11, 7)

_load, _done_with = PassedBatches.load, PassedBatches._done_with


def _load_without_marks(self: PassedBatches, state: FoldedPast) -> None:
    _load(self, state)
    self.marks = ProducerMarks()


def _folds_unsettled(self: PassedBatches, held: Held) -> bool:
    gate, copies = self.gate, self.gate.unsettled_copies
    gate.unsettled_copies = {}
    try:
        return _done_with(self, held)
    finally:
        gate.unsettled_copies = copies


def _tail_without_marks(engine: Engine, epoch: int) -> Tail:
    return replace(tail_of(engine, epoch), marks=())


def _tail_with_later_marks(engine: Engine, epoch: int) -> Tail:
    return replace(tail_of(engine, epoch), marks=engine.marks.all())


def _nothing(*_: Any) -> tuple[()]:
    return ()


def _true(*_: Any) -> bool:
    return True


Mutation = Callable[[], AbstractContextManager[Any]]
FEW, LEAP = range(4), (81,)
"""Seeds of which one at least catches a mutant. In the run of `LEAP` a site hears at once that an
epoch opened for it and was closed without it."""

MUTANTS: dict[str, tuple[Mutation, Sequence[int]]] = {
    "delivers copies": (lambda: patch.object(ProducerMarks, "keeps", _true), FEW),
    "forgets the marks of a checkpoint": (
        lambda: patch.object(PassedBatches, "load", _load_without_marks),
        FEW,
    ),
    "opens epochs without marks": (lambda: patch.object(member, "opening_marks", _nothing), FEW),
    "tells no marks at the end": (lambda: patch.object(Engine, "own_marks", _nothing), FEW),
    "folds copies that are not settled": (
        lambda: patch.object(PassedBatches, "_done_with", _folds_unsettled),
        FEW,
    ),
    "leaves an epoch without marks": (
        lambda: patch.object(flush, "tail_of", _tail_without_marks),
        FEW,
    ),
    "leaves an epoch with the marks of its end": (
        lambda: patch.object(flush, "tail_of", _tail_with_later_marks),
        FEW,
    ),
    "catches up without the marks of the opening": (
        lambda: patch.object(absence, "_opening_marks", lambda *_: {}),
        LEAP,
    ),
}


@pytest.mark.parametrize("first", range(0, SCHEDULES, 4))
def test_each_message_of_a_producer_is_delivered_once_and_in_order(first: int) -> None:
    for seed in range(first, first + 4):
        assert judged(*producing(seed)) == [], f"seed {seed}"


@pytest.mark.parametrize("seed", STORED)
def test_stores_and_exports_know_copies(seed: int, tmp_path: Path) -> None:
    world, producers = stored_producing(seed, tmp_path)
    assert judged(world, producers) == []
    judge_export(world)


@pytest.mark.parametrize("seed", [*FEW, *LEAP])
def test_the_runs_that_catch_them_are_right_without_them(seed: int) -> None:
    assert judged(*producing(seed, "trouble")) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_marks_that_are_kept_wrong_are_caught(name: str) -> None:
    mutation, seeds = MUTANTS[name]
    with mutation():
        assert any(judged(*producing(seed, "trouble")) for seed in seeds)
