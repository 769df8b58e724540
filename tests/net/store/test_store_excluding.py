"""Real members under `exclude` on real stores: sites are left out, return, and roll back.

At every start the store must give exactly the records that the simulated disk has, and the
application what it had seen; at the end the checkers judge what the stores export.
"""

from pathlib import Path

import pytest

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.history.rows import EXCLUDED, RETURNED, ROLLBACK
from ordercast.model.options import SECOND
from ordercast.net.cluster.config import Retention
from ordercast.net.export.history import export
from support.worlds.stored_members import KEEP_ALL, cut_off, judge_export, stored


@pytest.mark.parametrize("kind", ["drawn", "hard"])
@pytest.mark.parametrize("part", range(2))
def test_a_store_gives_a_member_back_what_it_persisted(
    part: int, kind: str, tmp_path: Path
) -> None:
    crashes = records = epochs = 0
    for seed in range(1 + 5 * part, 6 + 5 * part):
        folder = tmp_path / str(seed)
        folder.mkdir()
        retention = KEEP_ALL if seed % 3 else Retention()
        world = stored(seed, folder, retention, excluding=kind)
        assert world.judge() == [], f"seed {seed}"
        judge_export(world)
        crashes += world.crashes
        records += world.compared
        epochs += max(world.epochs)
    assert crashes >= 5, "less than one a seed: the test shows little"
    assert records > 15
    assert epochs > 8


@pytest.mark.parametrize("deliver", ["agreed", "safe"])
def test_an_export_tells_who_is_absent_and_what_nobody_else_has(
    deliver: str, tmp_path: Path
) -> None:
    world = cut_off(tmp_path, deliver)
    export(tmp_path, tmp_path / "out")
    history = read_history(tmp_path / "out")
    report = check_history(history)
    assert report.ok, report.verdicts
    assert (report.unagreed > 0) == (deliver == "agreed")
    away = {row.site for row in history.groups if not row.live}
    assert len(away) == 1
    assert {e.site for e in history.events if e.kind == EXCLUDED} == away
    last = max(row.epoch for row in history.groups)
    nominal = {(r.group_name, r.site) for r in history.groups if r.epoch == last}
    assert nominal == {("g", "a"), ("g", "b"), ("g", "c"), ("h", "a"), ("h", "b")}
    world.close()


def test_an_export_tells_what_was_rolled_back(tmp_path: Path) -> None:
    world = cut_off(tmp_path, "agreed")
    world.partition([])
    world.settle()
    world.close()
    assert world.judge() == []
    assert len(world.rollbacks) == 1
    judge_export(world)
    history = read_history(tmp_path / "out")
    report = check_history(history)
    (_, rollback) = world.rollbacks[0]
    assert (report.unagreed, report.annulled) == (0, len(rollback.annulled))
    kinds = [e.kind for e in history.events if e.kind in (EXCLUDED, RETURNED, ROLLBACK)]
    assert kinds == [EXCLUDED, ROLLBACK, RETURNED] or kinds == [EXCLUDED, RETURNED, ROLLBACK]
    again = [row for row in history.deliveries if row.attempt == 2]
    assert {row.id for row in again} >= {message for _, message in rollback.annulled}


def test_a_crash_while_a_log_is_replaced_leaves_the_old_one_or_the_new_one(tmp_path: Path) -> None:
    """Between any two duties of the outbox that rolls back."""
    crashes = filled = 0
    for seed in range(5):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = cut_off(folder, "agreed", seed)
        world.crash_chance = 1e-9  # but for the one that rolls back
        world.partition([])
        world.run(world.now + 5 * SECOND)
        world.settle()
        world.close()
        assert world.judge() == []
        assert len(world.rollbacks) == 1
        judge_export(world)
        crashes += world.crashes
        filled += world.filled
    assert crashes > 3
    assert filled, "no application had to be told by its store"


@pytest.mark.parametrize("seed", [383, 424])
def test_a_start_does_not_deliver_the_tail_of_an_absent_site(seed: int, tmp_path: Path) -> None:
    """At `safe` some of it was logged, and not delivered: another message may come there."""
    world = stored(seed, tmp_path, KEEP_ALL, excluding="hard")
    assert world.options.deliver == "safe"
    assert world.judge() == []
    judge_export(world)


def test_an_absent_site_knows_what_it_has_delivered_of_its_tail(tmp_path: Path) -> None:
    world = cut_off(tmp_path, "safe")
    away = next(s for s in "abc" if any(s in m.layout.absent for m in world.members.values()))
    world.partition([])
    while world.members[away].flush.tail is None:
        world.run(world.now + SECOND // 2_000)
        assert world.now < 10 * SECOND
    member = world.members[away]
    assert member.delivered == len(world.seen[away]) < member.logged
    world.close()
