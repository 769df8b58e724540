"""What a store keeps of epochs: records of several engines, epochs opened, how it was founded."""

import json
import sqlite3
from pathlib import Path

import pytest

from ordercast.core.epochs.records import EpochOpened
from ordercast.core.epochs.voters_log import Ballot
from ordercast.core.outbox import Accepted
from ordercast.model.errors import StoreCorrupt
from ordercast.model.messages import Batch, pack_payloads
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import opening_event
from ordercast.net.store.memory import MemoryStore
from ordercast.net.store.rows import checkpoint_checksum
from ordercast.net.store.store import Store
from support.stores.records import (
    accepted,
    anew,
    ask,
    batch,
    engine,
    flush,
    kept,
    kill,
    open_store,
    write,
)

OPENED = [
    EpochOpened(
        4, 7, "propagation", "greedy", ("g",), ("g",), (("g", ("a", "b")), ("h", ("b", "c"))), (1,)
    ),
    EpochOpened(6, 7, "centralized", "star", ("g",), (), (("g", ("a", "b")),), (4, 5)),
]


def reopened(store: Store) -> Store:
    """After a kill."""
    path = kill(store, store.path.with_name(f"{store.boot}.db"))
    store.close_sync()
    return open_store(path)


def refused(store: Store) -> list[tuple[str, int]]:
    """Group and seq of the batches that no epoch took."""
    told = ask(store, "SELECT detail FROM events WHERE kind = 'refused' ORDER BY n")
    return [(detail["group"], detail["seq"]) for detail in map(json.loads, told)]


def test_deliveries_have_the_epochs_in_which_they_were_placed(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    for number, epoch in enumerate((1, 1, 3, 7), 1):
        write(store, kept(number, 2, epoch=epoch, number=number), at_ns=1)
    again = reopened(store)
    assert [(found.position, found.epoch) for found in again.read(1, 99)] == [
        (1, 1),
        (3, 1),
        (5, 3),
        (7, 7),
    ]
    again.close_sync()


def test_each_engine_gets_its_own_records_back_in_its_order(tmp_path: Path) -> None:
    """Merged domains give an engine batches of two others: not in the order of their rows."""
    store = open_store(tmp_path / "a.db")
    to_g = [accepted(seq, group="g") for seq in range(1, 6)]
    to_h = [accepted(seq, group="h") for seq in range(1, 6)]
    in_1 = [kept(seq, origin="b", group="g", epoch=1) for seq in range(1, 6)]
    in_2 = [kept(seq, origin="b", group="h", epoch=2, mine=False) for seq in range(1, 6)]
    for row in zip(to_g, in_2, to_h, in_1, strict=True):
        write(store, *row, Ballot(1, None), at_ns=1)
    seqs = {"g": 3, "h": 3}
    folded = anew(
        0,
        engine(1, [*to_h[3:], *to_g[3:], *in_1[2:]], own_seqs=seqs),
        engine(2, in_2[4:], own_seqs=seqs),
    )
    write(store, forget=folded, confirmed=5)
    again = reopened(store)
    assert again.restored() == [folded]
    further = anew(0, engine(1, [*to_h[3:], in_1[4]], own_seqs={"g": 5, "h": 3}), engine(3))
    write(again, Ballot(2, None), forget=further, at_ns=1)
    write(again, to_g[0], at_ns=1)
    last = reopened(again)
    assert last.restored() == [further, to_g[0]]
    assert refused(last) == []
    swapped = anew(0, engine(3, [to_h[4], to_h[3]], own_seqs={"g": 5, "h": 3}))
    write(last, forget=swapped, confirmed=5, at_ns=1)
    final = reopened(last)
    assert final.restored() == [swapped]
    final.close_sync()


def test_an_epoch_that_is_gone_takes_its_rows_with_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    for seq in range(1, 51):
        write(store, kept(seq, origin="b", epoch=1), at_ns=1)
    write(store, kept(51, origin="b", epoch=2), at_ns=1, confirmed=50)
    write(store, forget=anew(50, engine(2, [kept(51, origin="b", epoch=2)])), at_ns=1)
    flush(store)
    assert ask(store, "SELECT min(n) FROM batches") == [51]
    store.close_sync()


def test_a_batch_of_an_earlier_epoch_loses_its_past_and_not_its_payload(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    past = (("h", 3, ()),)
    body = pack_payloads([bytes(100_000)])
    with_past, without = (Accepted(Batch("a", 1, "g", 1, 1, body, p)) for p in (past, ()))
    write(store, with_past, accepted(2), at_ns=1)
    seqs = {"own_seqs": {"g": 0}}
    for life in range(3):  # as often as it is written anew
        folded = anew(0, engine(2, [without, accepted(2)], **seqs, position=life))
        write(store, forget=folded, at_ns=1)
        assert ask(store, "SELECT length(state) < 1000 FROM checkpoint") == [1]
        store = reopened(store)
        assert store.restored() == [folded]
    store.close_sync()


def test_what_no_epoch_takes_is_told_as_refused(tmp_path: Path) -> None:
    """Its group is gone, says the core: the store cannot tell it from what is stable."""
    store = open_store(tmp_path / "a.db")
    write(store, *(accepted(seq, group="gone") for seq in (1, 2, 3)), accepted(1), at_ns=1)
    gone = [("gone", 2), ("gone", 3)]
    write(store, forget=anew(0, engine(2, own_seqs={"g": 1})), refused=gone, at_ns=1)
    assert refused(store) == [("gone", 2), ("gone", 3)]
    assert ask(store, "SELECT detail FROM events WHERE kind = 'refused'")[0].startswith('{"row":2')
    store.close_sync()


def test_what_was_refused_is_forgotten_with_its_rows(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, accepted(1, group="gone"), at_ns=1)
    write(store, forget=anew(0, engine(2)), refused=[("gone", 1)], at_ns=1)
    write(store, accepted(2, group="gone"), accepted(1), at_ns=1)
    left = anew(0, engine(2, [accepted(1)], own_seqs={}))
    write(store, forget=left, refused=[("gone", 2)], at_ns=1)
    assert refused(store) == [("gone", 1), ("gone", 2)]
    flush(store)
    store = reopened(store)
    assert refused(store) == []
    store.close_sync()


def test_a_refused_number_may_be_used_again(tmp_path: Path) -> None:
    """A restart has refused it before a checkpoint could: then the second use tells."""
    store = open_store(tmp_path / "a.db")
    first, second = accepted(1, size=100), accepted(1, size=200)
    write(store, first, accepted(2), at_ns=1)
    store = reopened(store)
    write(store, second, at_ns=1)
    assert refused(store) == [("g", 1)]
    write(store, kept(1, epoch=5, size=200), at_ns=1)
    folded = anew(0, engine(5, [accepted(2), second, kept(1, epoch=5, size=200)], own_seqs={}))
    write(store, forget=folded, at_ns=1)
    store = reopened(store)
    assert store.restored() == [folded]
    assert [found.payloads[0].rstrip(b".") for found in store.read(1, 9)] == [b"a1"]
    assert len(store.read(1, 9)[0].payloads[0]) == 200
    store.close_sync()


def test_messages_to_groups_elsewhere_do_not_hold_back_what_is_forgotten(tmp_path: Path) -> None:
    """They never come back: that is learnt when they are stable, and unlearnt when one does."""
    store = open_store(tmp_path / "a.db")
    number = 0
    for turn in range(10):
        for _ in range(20):
            number += 1
            write(store, accepted(number, group="far"), kept(number, origin="b"), at_ns=1)
        position = 20 * turn + 10
        write(store, forget=anew(number, engine(own_seqs={"far": number})), confirmed=position)
    flush(store)
    assert ask(store, "SELECT count(*) < 60 FROM batches") == [1]
    one, two = accepted(201, group="far", size=9_000), accepted(202, group="far", size=9_000)
    for own in (one, two):
        write(store, own, at_ns=1)
        write(store, kept(own.batch.seq, group="far", epoch=2, size=9_000), at_ns=1)
    sizes = ask(store, "SELECT length(body) > 8000 FROM batches ORDER BY n DESC LIMIT 4")
    assert sizes == [0, 1, 1, 1]
    assert [len(found.payloads[0]) for found in store.read(201, 9)] == [9_000, 9_000]
    store.close_sync()


def test_epochs_opened_come_back_each_once(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    assert store.opened() == []
    write(store, events=[opening_event(OPENED[0])], at_ns=1)
    write(
        store, events=[opening_event(OPENED[0]), opening_event(OPENED[1])], at_ns=1
    )  # a restart's
    assert store.opened() == OPENED
    again = reopened(store)
    assert again.opened() == OPENED
    again.close_sync()


def test_a_store_has_a_number_of_its_own_for_ever(tmp_path: Path) -> None:
    numbers = set()
    for name in "abc":
        store = open_store(tmp_path / f"{name}.db")
        assert 0 < store.store_number < 1 << 63
        numbers.add(store.store_number)
        again = reopened(store)
        assert again.store_number == store.store_number
        again.close_sync()
    numbers.update(MemoryStore().store_number for _ in range(3))
    assert len(numbers) == 6


def test_what_a_site_was_founded_with_is_there_before_its_first_record(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    assert (store.founded, store.founding, store.address) == (b"", "", "")
    store.keep_founding(b"\x00layout", "digest", "127.0.0.1:7104")
    write(store, Ballot(1, None), at_ns=1)
    again = reopened(store)
    assert (again.founded, again.founding) == (b"\x00layout", "digest")
    assert again.address == "127.0.0.1:7104"
    again.close_sync()


def test_a_memory_store_knows_its_founding_while_it_lives() -> None:
    store = MemoryStore()
    store.keep_founding(b"layout", "digest", "here:1")
    assert (store.founded, store.founding, store.address) == (b"layout", "digest", "here:1")
    store.write(StoreBox(records=[kept(1, epoch=4)], events=[opening_event(OPENED[0])]))
    store.write(StoreBox(records=[kept(2, epoch=6)], events=[opening_event(one) for one in OPENED]))
    assert [found.epoch for found in store.read(1, 9)] == [4, 6]


def test_a_checkpoint_that_is_not_of_this_version_is_told(tmp_path: Path) -> None:
    store = open_store(tmp_path / "a.db")
    write(store, accepted(1), forget=anew(0, engine(1, [accepted(1)])), at_ns=1)
    store.close_sync()

    db = sqlite3.connect(store.path)
    crc = checkpoint_checksum(1, 1, 0, b"\x93")
    db.execute("UPDATE checkpoint SET state = ?, crc = ?", (b"\x93", crc))
    db.commit()
    db.close()
    with pytest.raises(StoreCorrupt, match=r"a\.db: the checkpoint is not one of this version"):
        open_store(store.path)


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("UPDATE batches SET epoch = 2 WHERE n = 3", "row 3 of table batches: the checksum"),
        ("UPDATE batches SET crc = crc + 1 WHERE n = 2", "row 2 of table batches: the checksum"),
        ("DELETE FROM batches WHERE n = 1", "row 1 of table batches is missing"),
        ("UPDATE checkpoint SET needed = 2", "the checkpoint: the checksum"),
        ("UPDATE state SET value = 1 WHERE key = 'store_number'", "value 'store_number'"),
    ],
)
def test_damage_of_what_a_member_needs_is_refused(
    statement: str, told: str, tmp_path: Path
) -> None:
    """An own batch that a checkpoint names, a record between batches, what came after."""
    store = open_store(tmp_path / "a.db")
    write(store, accepted(1), Ballot(1, None), at_ns=1)
    write(store, forget=anew(0, engine(1, [accepted(1)], own_seqs={})), at_ns=1)
    write(store, kept(1, origin="b"), at_ns=1)
    store.close_sync()
    db = sqlite3.connect(store.path)
    db.execute(statement)
    db.commit()
    db.close()
    with pytest.raises(StoreCorrupt, match=told):
        open_store(store.path)


def test_own_batches_that_came_back_before_a_kill_are_not_expected_again(tmp_path: Path) -> None:
    """Neither one that was placed at once: what is written then refers to nothing before it."""
    store = open_store(tmp_path / "a.db")
    for seq in range(1, 41):
        write(store, Accepted(batch(seq)), at_ns=1)
    for seq in range(1, 41):
        write(store, kept(seq), at_ns=1)
    placed = kept(41)
    write(store, Accepted(placed.passed.placed.batch), placed, at_ns=1)
    store = reopened(store)
    write(store, kept(1, origin="b"), at_ns=1)
    assert ask(store, "SELECT low = n FROM batches ORDER BY n DESC LIMIT 1") == [1]
    write(store, forget=anew(42, engine()), confirmed=39, at_ns=1)
    flush(store)
    assert ask(store, "SELECT min(n) FROM batches")[0] >= 40
    assert store.read(40, 1)[0].payloads == [b"a40....."]
    store.close_sync()
