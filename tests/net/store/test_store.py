"""The store's face: order of commits, group commit, positions, restoring, reading, requests."""

import asyncio
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from ordercast.core.epochs.records import Caught, Folded, Kept, MemberRecord
from ordercast.core.epochs.voters_log import Appendix, Ballot, LogSnapshot
from ordercast.core.outbox import Accepted, Passed
from ordercast.model.epochs import Begin, Entry, Finish, JoinGroup, Nothing
from ordercast.model.errors import Error, Forgotten
from ordercast.net.store import writer
from ordercast.net.store.box import StoreBox
from ordercast.net.store.requests import MOST_CLIENTS, MOST_OPEN
from ordercast.net.store.store import Store
from support.harness import loops
from support.stores.records import accepted, anew, ask, engine, flush, kept, kill, open_store, write


def reopened(store: Store) -> Store:
    """After a kill."""
    path = kill(store, store.path.with_name("killed.db"))
    store.close_sync()
    return open_store(path)


def test_calls_come_in_the_order_of_the_boxes_and_on_the_event_loop(tmp_path: Path) -> None:
    async def main() -> tuple[list[int], set[threading.Thread]]:
        store = open_store(tmp_path / "a.db", call=None)
        called: list[int] = []
        threads = set()
        done = asyncio.Event()

        def then(number: int) -> None:
            called.append(number)
            threads.add(threading.current_thread())
            if number == 300:
                done.set()

        for number in range(1, 301):
            records = [accepted(number)] if number % 3 else []  # some ask for nothing
            store.write(StoreBox(records=records, at_ns=1), partial(then, number))
            if number % 50 == 0:
                await asyncio.sleep(0.002)
        await done.wait()
        await store.close()
        return called, threads

    called, threads = loops.run(main())
    assert called == list(range(1, 301))
    assert threads == {threading.main_thread()}


def test_what_is_queued_together_is_one_commit(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db", "sync")
    entered, go = threading.Event(), threading.Event()

    def stall() -> None:
        entered.set()
        assert go.wait(30)

    store.write(StoreBox(records=[accepted(1)]), stall)
    assert entered.wait(30)
    before = sum(store.commit_times.counts)
    for seq in range(2, 1_002):
        store.write(StoreBox(records=[accepted(seq)]), None)
    go.set()
    flush(store)
    assert sum(store.commit_times.counts) - before <= 2  # `flush` may come late
    store.close_sync()
    again = open_store(tmp_path / "a.db")
    assert len(again.restored()) == 1_001
    again.close_sync()


def test_a_box_that_may_linger_is_one_commit_with_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path / "a.db")
    flush(store)
    before, stored = sum(store.commit_times.counts), threading.Event()
    monkeypatch.setattr(writer, "LINGER_S", 1_000.0)
    store.write(StoreBox(records=[accepted(1)], may_linger=True), stored.set)
    assert not stored.wait(0.05)
    write(store, kept(1), may_linger=True)
    assert stored.is_set()
    assert sum(store.commit_times.counts) - before == 1
    store.write(StoreBox(records=[accepted(2)], may_linger=True), None)
    flush(store)  # an empty box ends it
    monkeypatch.setattr(writer, "LINGER_S", 0.001)
    write(store, accepted(3), may_linger=True)
    monkeypatch.setattr(writer, "LINGER_S", 1_000.0)
    store.write(StoreBox(records=[accepted(4)], may_linger=True), None)
    store.close_sync()  # and so does the end
    again = open_store(tmp_path / "a.db")
    assert len(again.restored()) == 5
    again.close_sync()


def test_a_call_that_fails_does_not_stop_the_next(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")

    def fail() -> None:
        raise RuntimeError("of the application")

    store.write(StoreBox(records=[accepted(1)]), fail)
    flush(store)
    store.close_sync()


def test_records_come_back_as_they_were_and_in_order(tmp_path: Path) -> None:
    records: list[MemberRecord] = [
        accepted(1, 3),
        kept(1, 2, origin="b"),
        kept(1, 3),  # the site's own, back from its parent
        accepted(4),
        Folded(Begin("x", (JoinGroup("g", "c"),))),
        kept(3, 1, origin="b", group="h", mine=False),
        Ballot(3, "b"),
        Appendix(2, (Entry(3, Nothing()), Entry(3, Finish("x", (("a", 1, "g", 3),))))),
        LogSnapshot(2, 3, (("a", 7), ("b", 8)), b"layout"),
        Folded(Finish("x", (("a", 1, "g", 3),))),
        kept(5, 1, epoch=2, origin="b"),
        Caught(b"layout"),
    ]
    store = open_store(tmp_path / "a.db")
    write(store, *records[:2], at_ns=1)
    write(store, *records[2:], at_ns=2)
    again = reopened(store)
    assert again.restored() == records
    assert again.restored() == []  # given out once
    again.close_sync()


def test_no_payload_is_written_twice(tmp_path: Path) -> None:
    """Neither where a site places its own batch, nor where its batch comes back to it."""
    store = open_store(tmp_path / "a.db")
    own, placed = accepted(1, size=500_000), kept(2, size=500_000).passed.placed
    at_once = Kept(1, Passed(placed, "a", False), mine=True)
    write(store, own, at_ns=1)
    write(store, kept(1, size=500_000), at_ns=1)
    write(store, Accepted(placed.batch), at_once, at_ns=1)
    sizes = ask(store, "SELECT length(body) FROM batches ORDER BY n")
    assert [size > 100_000 for size in sizes] == [True, False, True]
    again = reopened(store)
    found = again.restored()
    assert found == [own, kept(1, size=500_000), Accepted(placed.batch), at_once]
    assert [batch.payloads for batch in again.read(1, 9)] == [
        [b"a1".ljust(500_000, b".")],
        [b"a2".ljust(500_000, b".")],
    ]
    again.close_sync()


def test_positions_count_what_is_for_this_site(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    for number in range(30):
        mine = number % 3 == 0
        write(store, kept(1 + 5 * number, 5, origin="b", mine=mine), Ballot(number, None), at_ns=1)
    assert store.logged == 50
    found = store.read(1, 1_000)
    assert [(batch.position, batch.seq) for batch in found] == [
        (1 + 5 * n, 1 + 15 * n) for n in range(10)
    ]
    again = reopened(store)
    assert again.logged == 50
    assert [batch.position for batch in again.read(23, 1)] == [21]  # the batch that holds it
    assert [batch.position for batch in again.read(26, 11)] == [26, 31, 36]
    assert again.read(51, 10) == []
    again.close_sync()


def test_cursors_and_boots_survive(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    assert (store.boot, store.confirmed, store.delivered) == (1, 0, 0)
    write(store, kept(1, 10), at_ns=1, delivered=4)
    write(store, confirmed=3, delivered=7)
    write(store, confirmed=2)  # never backwards
    assert (store.confirmed, store.delivered, store.logged) == (3, 7, 10)
    again = reopened(store)
    assert again.boot == 2
    assert (again.confirmed, again.delivered, again.logged) == (3, 7, 10)
    again.close_sync()


def test_a_cursor_alone_is_written_a_little_later(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, kept(1, 10), at_ns=1)
    flush(store, StoreBox(delivered=9))
    for _ in range(300):
        found = ask(store, "SELECT value FROM state WHERE key = 'delivered'")
        if found == [9]:
            break
        time.sleep(0.02)
    store.close_sync()
    assert found == [9]


def test_a_checkpoint_replaces_what_it_does_not_name(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    own = [accepted(seq) for seq in range(1, 7)]
    theirs = [kept(seq, origin="b") for seq in range(1, 7)]
    for one, other in zip(own[:5], theirs[:5], strict=True):
        write(store, one, other, at_ns=1)
    folded = anew(2, engine(1, [*own[3:5], *theirs[2:5]], position=1))
    write(store, forget=folded, confirmed=2)
    write(store, own[5], theirs[5], at_ns=1)
    again = reopened(store)
    assert again.restored() == [folded, own[5], theirs[5]]
    assert (again.confirmed, again.delivered, again.logged) == (2, 2, 6)
    again.close_sync()


def test_what_a_checkpoint_folded_counts_as_delivered(tmp_path: Path) -> None:
    """The core does not deliver it again, so the node must find it in the store."""
    store = open_store(tmp_path / "a.db")
    write(store, kept(1, 5), at_ns=1, forget=anew(5, engine()))
    again = reopened(store)
    assert (again.confirmed, again.delivered) == (0, 5)
    assert [batch.last for batch in again.read(1, 9)] == [5]
    again.close_sync()


def test_a_position_that_is_forgotten_is_told(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    for number in range(20):
        write(store, kept(1 + 5 * number, 5), at_ns=1)
    write(store, forget=anew(100, engine()), confirmed=52)
    for _ in range(300):
        if store.first == 51:
            break
        time.sleep(0.02)
    assert store.first == 51
    line = "position 50 is no longer kept; the first that is: 51"
    with pytest.raises(Forgotten, match=line) as told:
        store.read(50, 1)
    assert store.read(53, 1)[0].position == 51
    write(store, kept(101), at_ns=1)
    assert store.read(101, 1)[0].position == 101, "who keeps the error keeps nobody at this state"
    assert told.value
    store.close_sync()


def test_requests_are_known_at_once_and_after_a_kill(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    store.write(StoreBox(requests=[(b"k", 1, "g", 7, 2), (b"k", 2, "g", 9, 1)], at_ns=1), None)
    assert store.request(b"k", 1) == ("g", 7, 2)
    assert store.request(b"k", 3) is None
    assert store.request(b"other", 1) is None
    flush(store)
    again = reopened(store)
    assert again.request(b"k", 2) == ("g", 9, 1)
    write(again, answered=[(b"k", 1)], at_ns=2)
    assert again.request(b"k", 1) is None
    assert again.request(b"k", 2) == ("g", 9, 1)
    assert rows(again, "requests") == 1
    again.close_sync()


@pytest.mark.parametrize("jump_s", [7_200, -7_200])
def test_a_clock_that_jumps_lets_no_request_be_forgotten(jump_s: int, tmp_path: Path) -> None:
    now = 1_700_000_000_000_000_000
    store = open_store(tmp_path / "a.db")
    write(store, requests=[(b"here", 1, "g", 1, 1)], at_ns=now)
    now += jump_s * 1_000_000_000
    write(store, requests=[(b"next", 1, "g", 2, 1)], at_ns=now)
    write(store, at_ns=now)
    assert store.request(b"here", 1) == ("g", 1, 1)
    again = reopened(store)
    write(again, requests=[(b"here", 2, "g", 3, 1)], at_ns=now + 1)
    assert again.request(b"here", 1) == ("g", 1, 1)
    assert again.request(b"next", 1) == ("g", 2, 1)
    assert rows(again, "requests") == 3
    again.close_sync()


@pytest.mark.parametrize("restarts", [False, True])
def test_the_clients_heard_last_are_kept_whatever_the_clock_says(
    restarts: bool, tmp_path: Path
) -> None:
    store = open_store(tmp_path / "a.db")
    names = [b"%04d" % n for n in range(MOST_CLIENTS)]
    for n, name in enumerate(names):  # while the clock goes backwards
        store.write(StoreBox(requests=[(name, 1, "g", n + 1, 1)], at_ns=10**12 - n), None)
    store.write(StoreBox(requests=[(names[0], 2, "g", 9_999, 1)], at_ns=0), None)
    flush(store)
    if restarts:
        store = reopened(store)
    write(store, requests=[(b"one more", 1, "g", 10_000, 1)], at_ns=1)
    assert store.request(names[1], 1) is None, "the longest unheard"
    assert store.request(names[0], 1) == ("g", 1, 1)
    assert all(store.request(name, 1) is not None for name in names[2:])
    assert ask(store, "SELECT count(DISTINCT client) FROM requests")[0] == MOST_CLIENTS
    store.close_sync()


def test_a_client_that_has_all_its_answers_costs_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, requests=[(b"open", 1, "g", 1, 1)])
    for n in range(2 * MOST_CLIENTS):
        client = b"%04d" % n
        store.write(StoreBox(requests=[(client, 1, "g", n + 2, 1)]), None)
        store.write(StoreBox(answered=[(client, 1)]), None)
    flush(store)
    assert len(store.requests) == rows(store, "requests") == 1
    assert store.request(b"open", 1) == ("g", 1, 1)
    store.close_sync()


def test_what_is_answered_before_it_is_durable_leaves_no_row(tmp_path: Path) -> None:
    """Both boxes go with one commit, which deletes before it inserts."""
    store = open_store(tmp_path / "a.db")
    for n in range(100):
        store.write(StoreBox(requests=[(b"k", n + 1, "g", n + 1, 1)]), None)
        store.write(StoreBox(answered=[(b"k", n + 1)]), None)
    flush(store)
    assert rows(store, "requests") == 0
    store.close_sync()


def test_a_request_that_others_have_passed_is_not_forgotten_with_them(tmp_path: Path) -> None:
    """It waited for absent sites meanwhile: its number is the lowest, but it was taken last."""
    store = open_store(tmp_path / "a.db")
    later = [(b"k", number, "g", number, 1) for number in range(2, MOST_OPEN + 2)]
    write(store, requests=later)
    write(store, requests=[(b"k", 1, "h", 1, 1)])
    assert store.request(b"k", 2) is None
    again = reopened(store)
    assert again.request(b"k", 1) == ("h", 1, 1)
    write(again, answered=[(b"k", MOST_OPEN)])
    assert again.request(b"k", 1) is None
    assert rows(again, "requests") == 1
    again.close_sync()


def test_a_client_has_only_so_many_requests_open(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    numbers = range(1, MOST_OPEN + 101)
    for start in numbers[::100]:
        requests = [(b"k", number, "g", number, 1) for number in range(start, start + 100)]
        store.write(StoreBox(requests=requests, at_ns=1), None)
    flush(store)
    assert store.request(b"k", 100) is None
    assert store.request(b"k", 101) is not None
    assert rows(store, "requests") <= MOST_OPEN + 100
    store.close_sync()


def test_a_client_with_a_wide_window_has_all_of_it_remembered(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    store.requests.allow(MOST_OPEN)
    requests = [(b"k", number, "g", number, 1) for number in range(1, 2 * MOST_OPEN + 2)]
    store.write(StoreBox(requests=requests, at_ns=1), None)
    flush(store)
    assert store.request(b"k", 1) is None
    assert store.request(b"k", 2) is not None
    store.close_sync()


def rows(store: Store, table: str) -> int:
    return int(ask(store, f"SELECT count(*) FROM {table}")[0])


@pytest.mark.parametrize(("durability", "warnings"), [("os", 1), ("sync", 0)])
def test_a_restart_of_the_machine_under_a_running_site_is_told(
    durability: str, warnings: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    path = tmp_path / "a.db"
    open_store(path, durability).close_sync()
    monkeypatch.setattr("ordercast.net.store.store.machine_start", lambda: "the next one")
    open_store(path, durability).close_sync()  # it was closed before: nothing is missing
    store = open_store(path, durability)
    assert caplog.records == []
    killed = kill(store, tmp_path / "killed.db")
    store.close_sync()
    monkeypatch.setattr("ordercast.net.store.store.machine_start", lambda: "one more")
    open_store(killed, durability).close_sync()
    assert ["the machine was restarted" in record.message for record in caplog.records] == (
        [True] * warnings
    )


def test_the_files_are_for_their_owner(tmp_path: Path) -> None:
    store = open_store(tmp_path / "below" / "a.db")
    write(store, accepted(1), at_ns=1)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "below").iterdir()}
    store.close_sync()
    assert (tmp_path / "below").stat().st_mode & 0o777 == 0o700
    assert {modes[name] for name in ("a.db", "a.db-wal", "a.db-shm")} == {0o600}


def test_gaps_come_back_until_they_are_confirmed(tmp_path: Path) -> None:
    """The last one that begins before what is confirmed may reach beyond it."""
    store = open_store(tmp_path / "a.db")
    write(store, kept(1, 10), events=[("gap", 3, '{"count":2}'), ("gap", 8, '{"count":1}')])
    write(store, confirmed=8)
    again = reopened(store)
    assert again.gaps() == [(8, '{"count":1}')]
    again.close_sync()


def test_a_closed_store_takes_nothing_and_does_not_open_its_file_again(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, kept(1, 10))
    store.close_sync()
    store.close_sync()
    with pytest.raises(Error, match="the store is closed"):
        store.write(StoreBox(), None)
    with pytest.raises(Error, match="the store is closed"):
        store.read(1, 10)


def test_everything_queued_is_written_before_the_end(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    called: list[int] = []
    for seq in range(1, 501):
        store.write(StoreBox(records=[accepted(seq)]), partial(called.append, seq))
    store.close_sync()
    assert called == list(range(1, 501))
    again = open_store(tmp_path / "a.db")
    assert len(again.restored()) == 500
    again.close_sync()


def test_readers_in_other_threads_see_whole_commits(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            found = store.read(1, 10_000)
            places = [batch.position for batch in found]
            if places != [1 + 3 * n for n in range(len(found))] or len(found) % 2:
                wrong.append(places)

    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for number in range(0, 200, 2):
        write(store, kept(1 + 3 * number, 3), kept(4 + 3 * number, 3), at_ns=1)
    stop.set()
    for thread in threads:
        thread.join()
    store.close_sync()
    assert wrong == []


def test_a_read_ends_at_a_number_of_bytes_with_at_least_one_batch(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, *(kept(number, size=1_000) for number in range(1, 11)))
    assert [batch.position for batch in store.read(3, 99, 2_500)] == [3, 4, 5]
    assert [batch.position for batch in store.read(6, 99, 1)] == [6]
    assert [batch.position for batch in store.read(7, 99)] == [7, 8, 9, 10]
    store.close_sync()
