"""The store of durability `memory` has the face of the other, and bounds what it keeps."""

import asyncio

import pytest

from ordercast.model.errors import Error, Forgotten
from ordercast.net.store import memory as memory_store
from ordercast.net.store.box import StoreBox
from ordercast.net.store.memory import MemoryStore
from ordercast.net.store.store import Store
from support.stores.records import accepted, kept


def test_it_has_the_face_of_the_store_on_disk() -> None:
    face = {name for name in dir(Store) if not name.startswith("_")} - {"open"}
    given = {
        "boot",
        "store_number",
        "path",
        "founded",
        "founding",
        "address",
    }  # set when a store is made
    assert face | given <= set(dir(MemoryStore()))


def test_boxes_are_done_with_at_once() -> None:
    store = MemoryStore()
    assert store.restored() == []
    called: list[int] = []
    store.write(StoreBox(records=[accepted(1), kept(1, 3)]), lambda: called.append(1))
    store.write(StoreBox(delivered=2), lambda: called.append(2))
    assert called == [1, 2]
    assert (store.boot, store.logged, store.delivered, store.confirmed) == (1, 3, 2, 0)


def test_it_reads_what_is_not_confirmed() -> None:
    store = MemoryStore()
    for number in range(1, 11):
        store.write(StoreBox(records=[kept(number), kept(number, mine=False)]))
    assert [batch.position for batch in store.read(3, 2)] == [3, 4]
    store.write(StoreBox(confirmed=6))
    assert store.first == 7
    assert [batch.position for batch in store.read(7, 99)] == [7, 8, 9, 10]
    with pytest.raises(Forgotten, match="position 6 is no longer kept; the first that is: 7"):
        store.read(6, 1)


def test_an_application_that_never_confirms_does_not_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_store, "KEPT_BYTES", 100_000)
    store = MemoryStore()
    for number in range(1, 1_001):
        store.write(StoreBox(records=[kept(number, size=1_000)]))
    left = store.read(store.first, 10_000)
    assert 50 <= len(left) <= 100
    assert left[-1].position == store.logged == 1_000


def test_requests_are_known_while_the_process_lives() -> None:
    store = MemoryStore()
    store.write(StoreBox(requests=[(b"k", 1, "g", 1, 1)], at_ns=1))
    assert store.request(b"k", 1) == ("g", 1, 1)


def test_a_closed_one_takes_nothing() -> None:
    store = MemoryStore()
    asyncio.run(store.close(quiet=True))
    with pytest.raises(Error, match="the store is closed"):
        store.write(StoreBox())
