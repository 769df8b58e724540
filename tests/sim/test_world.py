"""The driver's duties in the simulated world, with stand-ins for the sites.

The world's time is the site's time minus its clock: tests compare differences, or use `at`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from ordercast.core.epochs.records import Anew, EngineState, MemberBox
from ordercast.core.outbox import FIRST_OPENING, Checkpoint, StageReached
from ordercast.core.structure import Structure
from ordercast.forest.star import build_star
from ordercast.history.digest import digest
from ordercast.model.errors import WindowFull
from ordercast.model.groups import GroupTable
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.workload import payload_of, submissions
from ordercast.sim.world import World
from support.worlds.standin import (
    Cast,
    StagedWorld,
    StandIn,
    accepted,
    delivered,
    frame,
    outbox,
    record,
)

TABLE = GroupTable.of({"g": ["a", "b"]})
MS = 1_000_000
NET = PointToPointSpec(processing=0, latency=MS)
QUIET = SimConfig(TABLE, messages=0, network=NET, durability="sync", rate=1.0)

Answer = Callable[[StandIn, str, Any], MemberBox | None]


def run(answer: Answer, config: SimConfig = QUIET, seed: int = 1) -> tuple[World, Cast]:
    cast = Cast(answer)
    world = StagedWorld(config, Structure(1, config.table, build_star(config.table)), seed, cast)
    world.start()
    world.run()
    return world, cast


def at_start(**given: Any) -> Answer:
    """Site a hands out this outbox when it starts; nobody does anything else."""

    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        return outbox(**given) if (site.name, call) == ("a", "start") else None

    return answer


def at(world: World, cast: Cast, site: str, call: str) -> list[int]:
    """When, by the world's clock."""
    return [now - world.places[site].clock for now in cast.times(site, call)]


def test_send_leaves_at_once_and_then_send_after_the_sync() -> None:
    world, cast = run(
        at_start(persist=[record(1)], send=[("b", frame(1))], then_send=[("b", frame(2))])
    )
    assert cast.of("b", "receive") == [("a", frame(1)), ("a", frame(2))]
    at_once, later = at(world, cast, "b", "receive")
    assert at_once == MS
    assert MS + 100_000 <= later <= MS + 1_000_000


@pytest.mark.parametrize("durability", ["os", "memory"])
def test_nothing_waits_where_nothing_is_synced(durability: str) -> None:
    config = replace(QUIET, durability=durability)
    world, cast = run(at_start(persist=[record(1)], then_send=[("b", frame(2))]), config)
    assert at(world, cast, "b", "receive") == [MS]


def test_an_outbox_without_records_does_not_wait_when_nothing_is_under_way() -> None:
    world, cast = run(at_start(then_send=[("b", frame(2))]))
    assert at(world, cast, "b", "receive") == [MS]


def test_an_outbox_without_records_waits_for_those_before_it() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if site.name == "a" and call == "start":
            return outbox(
                persist=[record(1)], then_send=[("b", frame(1))], alarm=0, receipts=[accepted(1)]
            )
        if site.name == "a" and call == "alarm":
            return outbox(then_send=[("b", frame(2))])
        return None

    world, cast = run(answer)
    assert cast.of("b", "receive") == [("a", frame(1)), ("a", frame(2))]
    assert min(at(world, cast, "b", "receive")) >= MS + 100_000


def test_a_second_sync_covers_what_was_written_during_the_first() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if site.name == "a" and call == "start":
            return outbox(persist=[record(1)], then_send=[("b", frame(1))], alarm=0)
        if site.name == "a" and call == "alarm":
            return outbox(persist=[record(2)], then_send=[("b", frame(2))])
        return None

    world, cast = run(answer)
    assert cast.of("b", "receive") == [("a", frame(1)), ("a", frame(2))]
    first, second = at(world, cast, "b", "receive")
    assert second - first >= 100_000


def test_deliveries_and_receipts_wait_for_the_sync_too() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if site.name == "a" and call == "submit":
            return outbox(
                persist=[record(site.seq)],
                deliver=[delivered(site.seq)],
                receipts=[accepted(site.seq)],
            )
        return None

    config = replace(QUIET, messages=3, origins=("a",), rate=1000.0)
    world, cast = run(answer, config)
    submitted = at(world, cast, "a", "submit")
    seen = world.recorder.seen["a"]
    assert [item.position for _, item in seen] == [1, 2, 3]
    assert all(when >= called + 100_000 for (when, _), called in zip(seen, submitted, strict=True))
    assert [row.seq for row in world.recorder.sent()] == [1, 2, 3]
    assert [row.sent_ns for row in world.recorder.sent()] == submitted


def test_the_alarm_rings_when_it_is_due_by_the_sites_own_clock() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if site.name == "a" and call == "start":
            (now,) = [now for name, _, now, _ in site.calls if name == "a"]
            return outbox(alarm=now + 7 * MS)
        return None

    world, cast = run(answer)
    assert at(world, cast, "a", "alarm") == [7 * MS]


def test_only_the_latest_word_about_the_alarm_counts() -> None:
    def answer(site: StandIn, call: str, argument: Any) -> MemberBox | None:
        now = site.calls[-1][2]
        if site.name == "b" and call == "start":
            return outbox(then_send=[("a", frame(1)), ("a", frame(2))])
        if site.name == "a" and call == "start":
            return outbox(alarm=now + 3 * MS)
        if site.name == "a" and call == "receive":  # at 1 ms, twice
            return outbox(alarm=now + (9 if argument[1] == frame(1) else 5) * MS)
        return None

    world, cast = run(answer)
    assert at(world, cast, "a", "alarm") == [6 * MS]


def test_an_alarm_that_is_called_off_does_not_ring() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        now = site.calls[-1][2]
        if site.name == "b" and call == "start":
            return outbox(then_send=[("a", frame(1))])
        if site.name == "a" and call == "start":
            return outbox(alarm=now + 3 * MS)
        return outbox(alarm=None) if site.name == "a" and call == "receive" else None

    _, cast = run(answer)
    assert cast.times("a", "alarm") == []


def test_sites_read_clocks_that_differ() -> None:
    _, cast = run(at_start())
    assert cast.times("a", "start") != cast.times("b", "start")


def test_frames_are_counted_by_kind_and_events_are_frames_and_alarms() -> None:
    world, _ = run(at_start(send=[("b", frame(1))], then_send=[("b", frame(2))], alarm=0))
    assert (world.data, world.frames) == (0, 2)
    assert world.events == 3


def test_a_full_window_is_tried_again_later() -> None:
    refused: list[str] = []

    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if call == "submit" and len(refused) < 2:
            refused.append(site.name)
            raise WindowFull("full")
        return outbox(receipts=[accepted(site.seq)]) if call == "submit" else None

    world, cast = run(answer, replace(QUIET, messages=1, origins=("a",)))
    first, second, third = at(world, cast, "a", "submit")
    assert (second - first, third - second) == (20 * MS, 20 * MS)
    assert len(world.recorder.sent()) == 1
    assert world.quiet


def test_a_full_window_is_tried_again_when_a_receipt_tells_of_room() -> None:
    """In the order in which the application submitted, and no earlier."""

    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        now = site.calls[-1][2]
        if call == "submit" and now - site.calls[0][2] < 8 * MS:
            raise WindowFull("full")
        if site.name == "a" and call == "start":
            return outbox(alarm=now + 10 * MS)
        if call == "alarm":
            return outbox(receipts=[StageReached("stable", "g", 1, 1)])
        return outbox(receipts=[accepted(site.seq)]) if call == "submit" else None

    world, _ = run(answer, replace(QUIET, messages=5, origins=("a",), rate=5000.0))
    sent = world.recorder.sent()
    assert {row.sent_ns for row in sent} == {10 * MS}
    numbers = [row.digest for row in sent]
    assert numbers == [digest(payload_of(n, row.size)) for n, row in enumerate(sent, start=1)]


def test_applications_answer_what_is_delivered_to_them_at_once_and_only_once() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if call != "submit":
            return None
        seen = [delivered(position) for position in range(1, site.seq + 1)]  # all again, and one
        return outbox(deliver=seen, receipts=[accepted(site.seq)])

    config = replace(QUIET, messages=40, replies=0.5, origins=("a",), rate=100.0)
    world, cast = run(answer, config)
    sent = world.recorder.sent()
    planned = {row.at for row in submissions(config, 1)}
    assert len(planned) == 20
    answering = [row.sent_ns for row in sent if row.sent_ns not in planned]
    assert answering == []  # an answer leaves at the time of the delivery, here of the submission
    assert 25 < len(sent) < 40
    assert len(sent) == len(cast.of("a", "submit"))
    assert world.untaken == 0


def test_a_frame_for_a_paused_site_waits_until_it_resumes() -> None:
    pause = Fault("pause", count=1, stop=1, length=50 * MS, sites=("b",))
    config = replace(QUIET, faults=(pause,), rate=5.0)
    world, cast = run(at_start(send=[("b", frame(1)), ("b", frame(2))]), config)
    assert cast.of("b", "receive") == [("a", frame(1)), ("a", frame(2))]
    assert min(at(world, cast, "b", "receive")) >= 50 * MS


def test_a_paused_site_reveals_what_was_synced_only_when_it_resumes() -> None:
    pause = Fault("pause", count=1, stop=1, length=50 * MS, sites=("a",))
    config = replace(QUIET, faults=(pause,), rate=5.0)
    world, cast = run(at_start(persist=[record(1)], then_send=[("b", frame(1))]), config)
    assert min(at(world, cast, "b", "receive")) >= 51 * MS


LAG = Fault("lag", count=1, stop=1, length=20 * MS, sites=("b",))


def test_a_site_is_told_that_its_application_lags_and_that_it_has_caught_up() -> None:
    world, cast = run(at_start(), replace(QUIET, faults=(LAG,), rate=5.0))
    assert cast.of("b", "hold") == [True, False]
    assert world.injected["lag"] == 1


def test_a_paused_site_hears_of_it_when_it_resumes() -> None:
    pause = Fault("pause", count=1, stop=1, length=50 * MS, sites=("b",))
    world, cast = run(at_start(), replace(QUIET, faults=(pause, LAG), rate=5.0))
    assert cast.of("b", "hold")[-1:] == [False]
    assert max(at(world, cast, "b", "hold")) >= 50 * MS


CRASH = (Fault("crash", count=1, stop=1, length=20 * MS, sites=("b",)), Fault("restart", count=1))
CRASHES = replace(QUIET, faults=CRASH, on_failure="wait", rate=5.0)


def test_what_arrives_at_a_crashed_site_is_lost_and_it_starts_again_with_the_next_boot() -> None:
    world, cast = run(at_start(send=[("b", frame(1))]), CRASHES)
    assert cast.of("b", "receive") == []
    assert [(name, boot) for name, boot, _, _ in cast.starts] == [("a", 1), ("b", 1), ("b", 2)]
    assert [(event.site, event.kind) for event in world.recorder.events] == [
        ("b", "crash"), ("b", "restart"),
    ]  # fmt: skip


def test_a_crash_in_the_middle_of_a_sync_reveals_nothing_and_keeps_a_first_part() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if site.name == "b" and call == "start" and len(cast.starts) == 2:
            return outbox(persist=[record(1), record(2)], then_send=[("a", frame(1))])
        return None

    kept = set()
    for seed in range(60):
        cast = Cast(answer)
        world = StagedWorld(CRASHES, Structure(1, TABLE, build_star(TABLE)), seed, cast)
        world.start()
        world.run()
        assert cast.of("a", "receive") == []
        kept.add(tuple(r.batch.seq for r in cast.starts[-1][3] if hasattr(r, "batch")))
    assert kept == {(), (1,), (1, 2)}


def test_a_batch_that_was_not_durable_when_its_origin_crashed_was_never_sent() -> None:
    """Of the submissions shortly before a crash, those whose record survives count as sent."""

    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if call == "submit":
            return outbox(persist=[record(site.seq, "b")], receipts=[accepted(site.seq)])
        return None

    counts = set()
    crash = (
        Fault("crash", count=1, start=90_000, stop=90_001, length=20 * MS, sites=("b",)),
        Fault("restart", count=1),
    )
    shortly_before = replace(
        CRASHES, messages=30, origins=("b",), rate=100_000.0, faults=crash, durability="sync"
    )
    for seed in range(60):
        world, cast = run(answer, shortly_before, seed)
        survived = [r.batch.seq for r in cast.starts[-1][3] if hasattr(r, "batch")]
        before = [row.seq for row in world.recorder.sent() if row.sent_ns < 90_000]
        assert before == survived
        counts.add(len(before))
    assert len(counts) > 3


def test_a_checkpoint_is_written_after_the_other_duties_and_restores_the_site() -> None:
    nothing = msgspec.structs.replace(FIRST_OPENING.state, ordering={})
    checkpoint = Anew(b"", 1, 1, (EngineState(1, Checkpoint(nothing, (record(1),))),), ())

    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if site.name == "b" and call == "start":
            return outbox(persist=[record(1)], forget=checkpoint)
        return None

    late = (
        Fault("crash", count=1, start=5 * MS, stop=6 * MS, length=MS, sites=("b",)),
        Fault("restart", count=1),
    )
    starts = []
    for seed in range(20):
        _, cast = run(answer, replace(CRASHES, faults=late), seed)
        starts.append(cast.starts[-1][2:])
    assert (checkpoint, []) in starts
    assert (None, [record(1)]) in starts
    assert all(start in ((checkpoint, []), (None, [record(1)])) for start in starts)


def test_a_submission_at_a_site_that_is_down_waits_until_it_is_back() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        return outbox(receipts=[accepted(site.seq)]) if call == "submit" else None

    down = (
        Fault("crash", count=1, stop=1, length=80 * MS, sites=("b",)),
        Fault("restart", count=1),
    )
    config = replace(CRASHES, faults=down, messages=10, rate=100.0, origins=("b",))
    world, cast = run(answer, config)
    assert len(cast.times("b", "submit")) == 10
    assert min(at(world, cast, "b", "submit")) >= 80 * MS


def test_frames_travel_as_bytes_when_asked() -> None:
    _, cast = run(at_start(send=[("b", frame(1))]), replace(QUIET, codec="bytes"))
    (got,) = cast.of("b", "receive")
    assert got == ("a", frame(1))


def test_a_site_that_wakes_late_takes_in_one_burst_all_that_has_come() -> None:
    def answer(site: StandIn, call: str, _: Any) -> MemberBox | None:
        if site.name == "a" and call == "start":
            return outbox(send=[("b", frame(1)), ("b", frame(2))], alarm=site.calls[-1][2] + MS)
        if site.name == "a" and call == "alarm":
            return outbox(send=[("b", frame(3))])
        return outbox(send=[("a", frame(9))]) if site.name == "b" and call == "receive" else None

    config = replace(QUIET, wake=MS // 2)
    world, cast = run(answer, config)
    assert at(world, cast, "b", "receive") == [3 * MS // 2, 3 * MS // 2, 5 * MS // 2]
    assert [drained for name, drained in cast.drains if name == "b"][1:3] == [2, 1]
    assert world.events == 3 + 1 + 3  # at b, the alarm, and b's answers at a


def test_a_crash_loses_the_frames_that_the_site_had_not_taken() -> None:
    crash = (Fault("crash", count=1, start=MS, stop=MS + 1, length=5 * MS, sites=("b",)),)
    config = replace(CRASHES, faults=(*crash, Fault("restart", count=1)), wake=2 * MS)
    _, cast = run(at_start(send=[("b", frame(1))]), config)
    assert cast.of("b", "receive") == []


def test_a_run_that_never_rests_is_stopped_as_a_storm() -> None:
    def answer(site: StandIn, _call: str, _: Any) -> MemberBox | None:
        return outbox(alarm=site.calls[-1][2])  # now, again and again

    world, _ = run(answer, replace(QUIET, most_events=1000))
    assert world.events < 1100
    assert [violation.check for violation in world.recorder.violations] == ["storm"]
