"""The simulated disk: what is durable when, and what a crash leaves."""

import msgspec
import pytest

from ordercast.core.epochs.records import Anew, EngineState
from ordercast.core.epochs.voters_log import Ballot
from ordercast.core.outbox import FIRST_OPENING, Accepted, Checkpoint
from ordercast.sim.chance import Chance
from ordercast.sim.disk import Disk
from support.worlds.standin import record

NOTHING = msgspec.structs.replace(FIRST_OPENING.state, ordering={})


def anew(*records: Accepted) -> Anew:
    return Anew(b"", 1, 1, (EngineState(1, Checkpoint(NOTHING, records)),), ())


def disk(durability: str, seed: int = 1) -> Disk:
    return Disk(durability, Chance(seed, "disks"))


def kept(store: Disk) -> list[int]:
    """The seqs of the records that a restarted site would read."""
    checkpoint, records = store.restore()
    engines = checkpoint.engines if checkpoint is not None else ()
    everything = [*(r for engine in engines for r in engine.checkpoint.records), *records]
    return [record.batch.seq for record in everything if isinstance(record, Accepted)]


def test_what_was_synced_survives_every_crash() -> None:
    for seed in range(50):
        store = disk("sync", seed)
        store.write(1, [record(1), record(2)])
        store.begin_sync(0)
        store.write(2, [record(3)])
        store.end_sync()
        store.crash()
        assert kept(store)[:2] == [1, 2]


def test_of_the_unsynced_tail_a_crash_keeps_some_first_part() -> None:
    outcomes = set()
    for seed in range(200):
        store = disk("sync", seed)
        store.write(1, [record(1)])
        store.write(2, [record(2), record(3)])
        store.crash()
        outcomes.add(tuple(kept(store)))
    assert outcomes == {(), (1,), (1, 2), (1, 2, 3)}


def test_what_is_written_while_a_sync_runs_is_not_covered_by_it() -> None:
    lost = False
    for seed in range(50):
        store = disk("sync", seed)
        store.write(1, [record(1)])
        store.begin_sync(0)
        store.write(2, [record(2)])
        store.end_sync()
        store.crash()
        lost = lost or kept(store) == [1]
    assert lost


def test_the_os_keeps_what_was_written_when_a_process_crashes() -> None:
    store = disk("os")
    store.write(1, [record(1), record(2)])
    store.crash()
    assert kept(store) == [1, 2]


def test_memory_keeps_nothing() -> None:
    store = disk("memory")
    store.write(1, [record(1)])
    store.checkpoint(1, anew(record(1)))
    store.crash()
    assert kept(store) == []


@pytest.mark.parametrize("durability", ["os", "sync"])
def test_a_checkpoint_replaces_the_records_up_to_its_own_outbox(durability: str) -> None:
    store = disk(durability)
    store.write(1, [record(1)])
    store.write(2, [record(2)])
    store.write(3, [record(3)])  # drained before the checkpoint of 2 was written
    store.checkpoint(2, anew(record(2)))
    store.begin_sync(0)
    store.end_sync()
    checkpoint, records = store.restore()
    assert checkpoint == anew(record(2))
    assert records == [record(3)]


def test_a_checkpoint_that_was_not_synced_may_be_lost_but_then_nothing_else_is() -> None:
    with_it = without_it = 0
    for seed in range(100):
        store = disk("sync", seed)
        store.write(1, [record(1)])
        store.begin_sync(0)
        store.end_sync()
        store.checkpoint(1, anew(record(1)))
        store.crash()
        assert kept(store) == [1]
        with_it += store.restore()[0] is not None
        without_it += store.restore()[0] is None
    assert with_it
    assert without_it


def test_voters_records_are_durable_at_once_and_a_checkpoint_replaces_them_too() -> None:
    store = disk("sync")
    store.write_at_once(1, [Ballot(1, "a")])
    store.write(2, [record(1)])
    store.write_at_once(3, [Ballot(2, "b")])
    store.crash()
    assert store.restore()[1][:2] == [Ballot(1, "a"), Ballot(2, "b")]
    store.checkpoint(2, anew(record(1)))
    store.begin_sync(0)
    store.end_sync()
    assert store.restore()[1] == [Ballot(2, "b")]


def test_a_slow_site_has_a_slow_disk() -> None:
    swift, slow = disk("sync", 5), disk("sync", 5)
    assert slow.begin_sync(20_000_000) - swift.begin_sync(0) == 20_000_000
