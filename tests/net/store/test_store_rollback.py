"""A log whose end is replaced when a site returns: rolled back, caught up with, confirmed again.

What a node hands over for the outbox that opens the next epoch, by hand, to both kinds of store.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened, Folded, Kept
from ordercast.core.outbox import Accepted, Passed
from ordercast.model.epochs import Nothing
from ordercast.model.messages import DeliveredBatch, Key, MessageId, Placed
from ordercast.net.cluster.config import Retention
from ordercast.net.site.gaps import GapBatch, gap_to_json
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import opening_event, rollback_event
from ordercast.net.store.log_end import LogItem
from ordercast.net.store.memory import MemoryStore
from ordercast.net.store.store import Store
from support.stores.records import anew, ask, batch, engine, flush, kept, kill, open_store, write

AnyStore: TypeAlias = Store | MemoryStore


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    made: AnyStore = MemoryStore() if request.param == "memory" else open_store(tmp_path / "a.db")
    yield made
    made.close_sync()


def passed(number: int, epoch: int = 1, group: str = "g") -> Kept:
    return kept(number, epoch=epoch, origin="b", group=group)


def caught(
    position: int, number: int, epoch: int, attempt: int, group: str = "h"
) -> DeliveredBatch:
    return DeliveredBatch(position, epoch, passed(number, epoch, group).passed.placed, attempt)


def opened(epoch: int, position: int) -> EpochOpened:
    return EpochOpened(
        epoch, position, "propagation", "greedy", ("g",), (), (("g", ("a", "b")),), (1,)
    )


def rolled_back(position: int, last: int, attempt: int = 2) -> Rollback:
    gone = tuple((at, MessageId("b", 1, "g", at)) for at in range(position + 1, last + 1))
    return Rollback(position, attempt, 1, gone)


def change(*caught_up: LogItem, logged: int, records: tuple[Kept, ...] = ()) -> StoreBox:
    """The outbox that ends an epoch, as a driver writes it."""
    events = [rollback_event(item) for item in caught_up if isinstance(item, Rollback)]
    events += [opening_event(item) for item in caught_up if isinstance(item, EpochOpened)]
    held = [engine(record.epoch, [record]) for record in records]
    return StoreBox(
        records=[Folded(Nothing()), *records], at_ns=9, forget=anew(logged, *held), events=events,
        caught=caught_up, logged=logged,
    )  # fmt: skip


def done(store: AnyStore, box: StoreBox) -> None:
    flush(store, box)  # type: ignore[arg-type]  # of either kind


def five(store: AnyStore) -> None:
    done(store, StoreBox([passed(n) for n in range(1, 6)], at_ns=1, delivered=5, confirmed=4))


def log(store: AnyStore, start: int = 1) -> list[tuple[int, int, str, int, int]]:
    """Position, attempt, group, number, epoch."""
    return [
        (one.position, one.attempt, one.group, one.placed.number, one.epoch)
        for one in store.read(start, 99)
    ]


def test_a_rollback_and_what_is_caught_up_with_replace_the_end_of_the_log(store: AnyStore) -> None:
    done(store, StoreBox([passed(n) for n in range(1, 6)], at_ns=1, delivered=5))
    box = change(rolled_back(3, 5), caught(4, 1, 1, 2), caught(5, 7, 2, 2), opened(3, 5), logged=5)
    done(store, box)
    assert log(store) == [
        (1, 1, "g", 1, 1), (2, 1, "g", 2, 1), (3, 1, "g", 3, 1), (4, 2, "h", 1, 1),
        (5, 2, "h", 7, 2),
    ]  # fmt: skip
    assert log(store, 5) == [(5, 2, "h", 7, 2)]
    assert (store.logged, store.attempt) == (5, 2)
    assert store.rollbacks() == [rolled_back(3, 5)]


def test_what_the_next_epoch_passes_stands_behind_what_was_caught_up_with(store: AnyStore) -> None:
    five(store)
    new = passed(8, epoch=3)
    done(
        store,
        change(
            rolled_back(3, 5), caught(4, 1, 1, 2), opened(3, 4),
            DeliveredBatch(5, 3, new.passed.placed, 2), logged=5, records=(new,),
        ),
    )  # fmt: skip
    done(store, StoreBox([passed(9, epoch=3)], at_ns=1))
    assert log(store, 4) == [(4, 2, "h", 1, 1), (5, 2, "g", 8, 3), (6, 2, "g", 9, 3)]


def test_a_rollback_annuls_what_was_confirmed_until_it_is_confirmed_again(store: AnyStore) -> None:
    five(store)
    done(store, change(rolled_back(3, 5), opened(3, 3), logged=3))
    assert (store.confirmed, store.confirmed_attempt, store.delivered) == (3, 1, 3)
    done(store, StoreBox([passed(n, epoch=3) for n in range(6, 9)], at_ns=1))
    done(store, StoreBox(confirmed=5, delivered=5, at_ns=1))  # it has not been told yet
    assert (store.confirmed, store.confirmed_attempt, store.delivered) == (3, 1, 3)
    done(store, StoreBox(confirmed=3, confirmed_attempt=2))
    assert (store.confirmed, store.confirmed_attempt) == (3, 2)
    done(store, StoreBox(confirmed=5, delivered=6, after_attempt=2))
    assert (store.confirmed, store.confirmed_attempt, store.delivered) == (5, 2, 6)


def test_a_log_may_lose_its_end_without_a_rollback(store: AnyStore) -> None:
    """At `safe`: it was logged, and not delivered; another message stands there now."""
    done(store, StoreBox([passed(n) for n in range(1, 6)], at_ns=1, delivered=2))
    three = DeliveredBatch(3, 1, passed(3).passed.placed)
    done(store, change(three, caught(4, 1, 1, 1), opened(3, 4), logged=4))
    assert log(store, 3) == [(3, 1, "g", 3, 1), (4, 1, "h", 1, 1)]
    assert (store.logged, store.attempt, store.delivered) == (4, 1, 2)


def test_a_log_may_end_where_nothing_opens(store: AnyStore) -> None:
    """The site returned to no group."""
    done(store, StoreBox([passed(n) for n in range(1, 6)], at_ns=1, delivered=2))
    done(store, change(DeliveredBatch(3, 1, passed(3).passed.placed), logged=3))
    assert [row[0] for row in log(store)] == [1, 2, 3]
    done(store, change(logged=2))
    done(store, StoreBox([passed(9, epoch=4)], at_ns=1))
    assert log(store, 2) == [(2, 1, "g", 2, 1), (3, 1, "g", 9, 4)]


def test_a_planned_change_leaves_the_log_as_it_is(store: AnyStore) -> None:
    five(store)
    six = passed(6)
    done(
        store,
        change(DeliveredBatch(6, 1, six.passed.placed), opened(2, 6), logged=6, records=(six,)),
    )
    assert [row[:4] for row in log(store, 5)] == [(n, 1, "g", n) for n in (5, 6)]
    assert store.logged == 6


def test_a_start_finds_the_log_as_it_was_left(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    five(store)
    box = change(rolled_back(3, 5), caught(4, 1, 1, 2), opened(3, 4), logged=4)
    flush(store, box)
    before = log(store, 4)
    again = open_store(kill(store, tmp_path / "again.db"))
    store.close_sync()
    assert again.restored() == [box.forget]
    assert log(again, 4) == before == [(4, 2, "h", 1, 1)]
    assert (again.logged, again.attempt, again.confirmed, again.confirmed_attempt) == (4, 2, 3, 1)
    assert again.rollbacks() == [rolled_back(3, 5)]
    flush(again, StoreBox(confirmed=5))  # of the first attempt: it had seen no more than 3 of this
    assert again.confirmed == 3
    write(again, passed(9, epoch=3), at_ns=1)
    assert log(again, 5) == [(5, 2, "g", 9, 3)]
    again.close_sync()


def test_what_was_rolled_back_goes_when_retention_lets_it(tmp_path: Path) -> None:
    for retention, left in ((Retention("size", 1 << 40), 2), (Retention(), 0)):
        store = open_store(tmp_path / f"{left}.db", retention=retention)
        five(store)
        flush(store, change(rolled_back(3, 5), caught(4, 1, 1, 2), opened(3, 4), logged=4))
        flush(store, StoreBox(confirmed=4, after_attempt=2))
        flush(store)
        assert ask(store, "SELECT count(*) FROM annulled") == [left]
        store.close_sync()


def test_gaps_of_what_was_rolled_back_are_told_no_more(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    flush(store, StoreBox([passed(n) for n in range(1, 6)], at_ns=1, delivered=5))
    for position in (2, 5):
        gap = GapBatch(position, 1, "g", "b", 1, position, 1)
        flush(store, StoreBox(events=[("gap", position, gap_to_json(gap))]))
    flush(store, change(rolled_back(3, 5), caught(4, 1, 1, 2), opened(3, 4), logged=4))
    late = GapBatch(4, 1, "g", "b", 1, 4, 1)  # its application had not been told
    flush(store, StoreBox(events=[("gap", 4, gap_to_json(late))]))
    new = GapBatch(4, 1, "h", "b", 1, 1, 1)
    again = open_store(kill(store, tmp_path / "again.db"))
    assert [position for position, _ in again.gaps()] == [2]
    flush(again, StoreBox(events=[("gap", 4, gap_to_json(new))], after_attempt=2))
    last = open_store(kill(again, tmp_path / "last.db"))
    assert [position for position, _ in last.gaps()] == [2, 4]
    for one in (store, again, last):
        one.close_sync()


def test_a_log_that_does_not_end_where_the_member_says_stops_the_store(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    five(store)
    store.write(change(opened(3, 5), logged=6), None)
    store._writer.join(30)
    assert "the log ends at 5, not 6" in str(store.failed)
    store.close_sync()


def test_what_the_next_epoch_passes_stands_where_the_log_was_cut(store: AnyStore) -> None:
    """At `safe`, where nothing of the end was delivered, nor comes again."""
    done(store, StoreBox([passed(n) for n in range(1, 6)], at_ns=1, delivered=2))
    three, new = DeliveredBatch(3, 1, passed(3).passed.placed), passed(8, epoch=3)
    done(store, change(three, opened(3, 3), logged=4, records=(new,)))
    assert log(store, 3) == [(3, 1, "g", 3, 1), (4, 1, "g", 8, 3)]


def test_so_does_an_own_batch_that_passes_as_soon_as_it_is_accepted(store: AnyStore) -> None:
    """One row for both: the log is cut before it, or its place would be behind what goes."""
    done(store, StoreBox([passed(n) for n in range(1, 6)], at_ns=1, delivered=2))
    three, own = DeliveredBatch(3, 1, passed(3).passed.placed), batch(1)
    record = Accepted(own)
    new = Kept(3, Passed(Placed(Key((1,), "a"), 1, own), "a", False), True)
    told = (three, opened(3, 3))
    box = StoreBox(
        [Folded(Nothing()), record, new], at_ns=9, forget=anew(4, engine(3, [record, new])),
        events=[opening_event(told[1])], caught=told, logged=4,
    )  # fmt: skip
    if isinstance(store, Store):
        store.write(box, None)
        store.close_sync()  # waits for it; a store that failed would never say that it is done
        assert store.failed is None
        store = open_store(store.path)
        assert store.restored() == [box.forget]
    else:
        store.write(box)
    assert log(store, 3) == [(3, 1, "g", 3, 1), (4, 1, "g", 1, 3)]
    assert [one.placed.batch.origin for one in store.read(3, 9)] == ["b", "a"]
    store.close_sync()
