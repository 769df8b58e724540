"""`Stream` against a model: whatever readers do (come, stop, are cancelled, confirm) each sees the
positions from its start on, once and in order, and every epoch that opens from there on at its
place; and the lag that holds the site is bounded."""

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.epochs.records import Kept
from ordercast.core.outbox import Passed
from ordercast.model.errors import Error, Forgotten
from ordercast.model.messages import Batch, DeliveredBatch, Key, Placed, pack_payloads
from ordercast.net.site.stream import EpochOpened, Gap, GapBatch, Lag, Stream
from ordercast.net.store.box import StoreBox
from ordercast.net.store.memory import MemoryStore
from support.clusters.sites import turns
from support.harness import loops

LIMIT = 12
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(1, 5), min_size=1, max_size=4)),
        st.tuples(st.just("epoch")),
        st.tuples(st.just("open"), st.booleans(), st.integers(-3, 3)),
        st.tuples(st.just("read"), st.integers(0, 3), st.integers(1, 8)),
        st.tuples(st.just("cancel"), st.integers(0, 3), st.integers(0, 3)),
        st.tuples(st.just("leave"), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("confirm"), st.integers(1, 100)),
    ),
    max_size=40,
)


class Side:
    """The site's side: makes batches whose payload n is at position n, and is held or not."""

    def __init__(self, *, stored: bool, shed: bool, embedded: bool = True) -> None:
        self.store = MemoryStore()
        self.held = False
        self.shed: dict[int, GapBatch] = {}
        self.position = 0
        self.openings: list[EpochOpened] = []
        self.stream = Stream(
            self.store if stored else None,
            confirmed=0,
            delivered=0,
            lag=Lag(LIMIT, 1 << 20, shed),
            embedded=embedded,
            hold=self._hold,
            shed=self._note,
        )

    def _hold(self, held: bool) -> None:
        assert held != self.held
        self.held = held

    def _note(self, gap: GapBatch) -> None:
        for n in range(gap.count):
            self.shed[gap.position + n] = gap

    @property
    def epoch(self) -> int:
        return 1 + len(self.openings)

    def open(self) -> None:
        last = self.openings[-1:]
        opened = EpochOpened(self.epoch + 1, self.position, "p", "b", ("alpha",), (), (), ())
        self.openings.append(opened)
        self.stream.add([*last, opened])  # a restart repeats some

    def epoch_of(self, position: int) -> int:
        return 1 + sum(opened.position < position for opened in self.openings)

    def add(self, counts: list[int]) -> None:
        made = []
        for count in counts:
            payloads = [b"%d" % (self.position + 1 + n) for n in range(count)]
            batch = Batch("a", 1, "alpha", self.position + 1, count, pack_payloads(payloads))
            placed = Placed(Key((0, self.position + 1), "a"), self.position + 1, batch)
            kept = Kept(self.epoch, Passed(placed, "a", False), True)
            self.store.write(StoreBox(records=[kept]))
            made.append(DeliveredBatch(self.position + 1, self.epoch, placed))
            self.position += count
        self.stream.add(made)


class Model:
    def __init__(self, side: Side, items: Any, by_batch: bool, start: int) -> None:
        self.side, self.items, self.by_batch = side, items, by_batch
        self.next = start
        self.start = start
        self.epoch = side.epoch_of(start - 1)  # those before are not told

    def expects(self) -> list[EpochOpened]:
        return [
            opened
            for opened in self.side.openings
            if opened.epoch > self.epoch and opened.position >= self.start - 1
        ]

    async def read(self, most: int) -> None:
        for _ in range(most):
            if self.next > self.side.stream.delivered and not self.expects():
                return
            async with asyncio.timeout(60):
                self.check(await anext(self.items))

    async def cancelled(self, after: int) -> None:
        """Its `anext` is cancelled after so many turns, or was quicker."""
        task = asyncio.ensure_future(anext(self.items))
        await turns(after)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            self.check(await task)

    def check(self, got: Any) -> None:
        if isinstance(got, EpochOpened):
            assert got == self.expects()[0]
            assert got.position == self.next - 1
            self.epoch = got.epoch
            return
        assert not [opened for opened in self.expects() if opened.position < self.next]
        for item in got.deliveries() if self.by_batch else [got]:
            assert item.position == item.seq == self.next
            assert item.epoch == self.side.epoch_of(self.next)
            assert isinstance(item, Gap) == (self.next in self.side.shed)
            assert isinstance(item, Gap) or item.payload == b"%d" % self.next
            self.next += 1


async def opened(side: Side, by_batch: bool, ahead: int, stored: bool) -> Model:
    stream = side.stream
    start = None if ahead <= 0 else stream.delivered + ahead
    items: Any = stream.batches(start) if by_batch else stream.deliveries(start)
    first = start or 1 + stream._begin(None)
    assert stored or first > max(stream.confirmed, stream.handed)
    reader = Model(side, items, by_batch, first)
    await reader.cancelled(1)  # it counts from its first `anext` on
    return reader


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("shed", [False, True])
@given(steps=STEPS)
@settings(max_examples=120, deadline=None)
def test_every_reader_sees_its_positions_once_and_in_order(
    stored: bool, shed: bool, steps: list[Any]
) -> None:
    async def run() -> None:
        side = Side(stored=stored, shed=shed)
        stream = side.stream
        readers: list[Model] = []
        for step in steps:
            match step:
                case ("add", counts):
                    if not side.held:
                        side.add(counts)
                case ("epoch",):
                    side.open()
                case ("open", by_batch, ahead):
                    readers.append(await opened(side, by_batch, ahead, stored))
                case ("read", which, most) if which < len(readers):
                    await readers[which].read(most)
                case ("cancel", which, after) if which < len(readers):
                    await readers[which].cancelled(after)
                case ("leave", which, closed) if which < len(readers):
                    gone = readers.pop(which)
                    if closed:
                        await gone.items.aclose()
                    del gone
                    await turns()
                case ("confirm", position) if position <= min(
                    [stream.handed, *(reader.next - 1 for reader in readers)]
                ):
                    stream.confirm(position)
            assert len(stream._readers) == len(readers)
            assert side.held == stream.holding
            if step[0] == "add" and not side.held and not shed:
                assert stream.lag < LIMIT
        for reader in readers:
            await reader.read(1_000)
            await reader.cancelled(1)  # it asks for more
        assert not readers or not side.held
        stream.close("closed")
        for reader in readers:
            with pytest.raises(Error, match="closed"):
                await anext(reader.items)

    loops.run(run())


def test_a_daemon_that_nobody_reads_holds_nobody_and_one_whose_reader_left_no_more() -> None:
    async def run() -> None:
        side = Side(stored=True, shed=False, embedded=False)
        side.add([5] * 10)
        assert not side.held
        items = side.stream.deliveries(None)
        assert (await anext(items)).position == 1
        side.add([1])
        held = [side.held]
        await items.aclose()
        assert [*held, side.held] == [True, False]

    loops.run(run())


def test_what_the_log_no_longer_has_is_told_in_one_line() -> None:
    async def run() -> None:
        side = Side(stored=True, shed=False)
        side.add([5] * 2)
        side.store.write(StoreBox(confirmed=10))
        side.stream._recent.clear()
        with pytest.raises(Forgotten, match="position 1 is no longer kept"):
            await anext(side.stream.deliveries(1))

    loops.run(run())


def test_a_daemon_that_stores_nothing_and_that_nobody_reads_keeps_the_latest_only() -> None:
    async def run() -> None:
        side = Side(stored=False, shed=False, embedded=False)
        for _ in range(40):
            side.add([1_000])
        assert not side.held
        assert len(side.stream._recent) == 16  # of 1,000 messages each
        first = await anext(side.stream.deliveries(None))
        assert first.position == 24_001
        with pytest.raises(Forgotten, match="position 5 "):
            await anext(side.stream.deliveries(5))

    loops.run(run())


def test_where_nothing_is_stored_gaps_that_were_read_are_forgotten() -> None:
    async def run() -> None:
        side = Side(stored=False, shed=True)
        items = side.stream.batches(None)
        for _ in range(20):
            side.add([4] * 10)
            while side.stream.lag:
                await anext(items)
        assert len(side.shed) > 100
        side.add([1])
        await anext(items)
        assert (len(side.stream._gaps), len(side.stream._recent)) == (0, 1)

    loops.run(run())


def test_a_reader_is_handed_a_number_of_bytes_at_once() -> None:
    """A slow reader keeps what it was handed, although the stream has dropped it."""
    side = Side(stored=True, shed=False)
    body = pack_payloads([bytes(300_000)])
    batches = [
        DeliveredBatch(n, 1, Placed(Key((0, n), "a"), n, Batch("a", 1, "alpha", n, 1, body)))
        for n in range(1, 11)
    ]
    side.stream.add(batches)

    async def main() -> list[int]:
        handed = []
        cursor = side.stream.enter(1)
        while cursor.last < 10:
            found = await side.stream.after(cursor)
            handed.append(len(found))
            cursor.last = found[-1].position
        return handed

    assert loops.run(main()) == [4, 4, 2]
