"""Ids and generations through sites that are no members, which ask: in random schedules of members,
with crashes, lost stores, partitions, changes of groups. Each message once, in its order; what is
told stable is delivered; and sites that believe too much are caught."""

from collections.abc import Callable
from unittest.mock import patch

import pytest

from ordercast.core.epochs.streams.copy_marks import CopyMarks
from support.worlds import asking as worlds
from support.worlds.asking import far_choosing, succeeding
from support.worlds.producing import APART, SMALL, is_kept, judged

CASES = ((0, APART), (1, APART), (2, SMALL), (3, APART), (1, ""))
CAUGHT = ((2, SMALL), (4, SMALL))
"""Of which one at least catches a mutant."""

Follows = Callable[[CopyMarks, int, int], bool | None]

MUTANTS: dict[str, Follows] = {
    "tells stable without asking": lambda _told, _epoch, _number: True,
    "takes what is at or below the mark for a copy, whatever the generation": (
        lambda told, epoch, number: told.number >= number if told.epoch >= epoch > 0 else None
    ),
}


def test_ids_go_through_any_site() -> None:
    outside = 0
    for seed, kind in CASES:
        world, senders = far_choosing(seed, kind)
        assert judged(world, senders) == [], f"seed {seed}"
        assert sum(len(one.stable) for one in senders) > 0
        outside += sum(one.outside for one in senders)
    assert outside > 0


def test_generations_go_through_any_site_and_what_is_fenced_is_told_so() -> None:
    outside = fenced = 0
    for seed, kind in CASES:
        world, senders = succeeding(seed, kind)
        assert judged(world, senders) == [], f"seed {seed}"
        assert sum(len(one.stable) for one in senders) > 0
        outside += sum(one.outside for one in senders)
        fenced += sum(one.fenced for one in senders)
    assert min(outside, fenced) > 0


@pytest.mark.parametrize(("seed", "kind"), CAUGHT)
def test_the_runs_that_catch_them_are_right_without_them(seed: int, kind: str) -> None:
    assert judged(*succeeding(seed, kind)) == []
    assert judged(*far_choosing(seed, kind, 2)) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_a_site_that_believes_too_much_of_a_producer_is_caught(name: str) -> None:
    with patch.object(worlds, "was_produced", MUTANTS[name]):
        assert any(judged(*succeeding(seed, kind)) for seed, kind in CAUGHT)


def test_a_site_that_tells_of_an_id_without_asking_is_caught() -> None:
    with patch.object(worlds, "was_kept", lambda *_: True):
        assert any(judged(*far_choosing(seed, kind, 2)) for seed, kind in CAUGHT)


def test_stable_messages_are_asked_for_also_where_stores_were_lost() -> None:
    """If another member of the group has kept its own."""
    world, senders = succeeding(6, SMALL)
    assert world.losses()
    body = next(one.body(sent) for one in senders for sent in one.stable if is_kept(world, sent[0]))
    for seen in world.seen.values():
        seen[:] = [row for row in seen if row[2] != body]
    assert any(wrong[0] == "stable and not delivered" for wrong in judged(world, senders))
