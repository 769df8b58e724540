"""Any sequence of boxes, epochs, confirmations, checkpoints, logs that are replaced, and kills,
beside a store of lists."""

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import Anew, Filled, Folded, Kept, MemberRecord
from ordercast.core.epochs.voters_log import Ballot
from ordercast.core.outbox import Accepted, Passed
from ordercast.model.epochs import Finish, Open
from ordercast.model.errors import ConfigError, Forgotten
from ordercast.model.messages import Batch, DeliveredBatch, Key, MessageId, Placed
from ordercast.net.store.box import StoreBox
from ordercast.net.store.events import rollback_event
from ordercast.net.store.log_end import LogItem
from ordercast.net.store.store import Store
from support.stores.records import anew, batch, engine, flush, kill, open_store

GROUPS = ("g", "h", "elsewhere")  # the last is not for this site


class Model(RuleBasedStateMachine):
    """`folded` and `later` are what a start must find; `log` is the whole ordered log. Two epochs
    are open at a time; `open_next` closes one and hands its unplaced batches to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="store"))
        self.lives = 0
        self.store: Store | None = None
        self.folded: Anew | None = None
        self.later: list[MemberRecord] = []
        self.accepted: dict[int, list[Batch]] = {1: [], 2: []}  # by epoch: that the core needs
        self.passed: dict[int, list[Kept]] = {1: [], 2: []}
        self.log: list[tuple[int, int, Batch]] = []  # (first position, epoch, batch)
        self.placed: dict[Batch, Placed] = {}
        self.logged = self.confirmed = 0
        self.attempt = 1
        self.seqs: dict[tuple[str, str], int] = {}
        self.own: list[tuple[int, Batch]] = []  # accepted, not yet back: with its epoch
        self.lasts: dict[tuple[str, int, str], int] = {}
        self.number = 0
        self.durable = 0  # boxes, as the store has told
        self.written = 0
        self.states: list[dict[str, Any]] = []  # after each box, if there is a first

    @initialize()
    def start(self) -> None:
        self.reopen(self.folder / "0.db")

    def reopen(self, path: Path) -> None:
        self.store = open_store(path)
        self.lives += 1

    def teardown(self) -> None:
        if self.store is not None:
            self.store.close_sync()
        shutil.rmtree(self.folder)

    def _batch(self, origin: str, group: str, count: int, *, causal: bool = False) -> Batch:
        seq = self.seqs.get((origin, group), 0) + 1
        self.seqs[origin, group] = seq + count - 1
        made = batch(seq, count, origin=origin, group=group)
        return replace(made, past=(("h", seq, ()),)) if causal else made

    def _place(self, epoch: int, one: Batch, source: str) -> Kept:
        self.number += 1
        placed = self.placed[one] = Placed(Key((0, self.number), "r"), self.number, one)
        mine = one.group != "elsewhere"
        record = Kept(epoch, Passed(placed, source, source == "r"), mine)
        self.passed[epoch].append(record)
        if mine:
            self.log.append((self.logged + 1, epoch, one))
            self.logged += one.count
        return record

    def _write(self, *records: MemberRecord, **given: object) -> None:
        assert self.store is not None
        self.later = [] if "forget" in given else [*self.later, *records]
        self.written += 1
        box = StoreBox(records=records, at_ns=1, **given)  # type: ignore[arg-type]
        box.after_attempt = self.attempt
        self.store.write(box, self._tell)
        if self.states:
            self.states.append(self.copied())

    def _tell(self) -> None:
        self.durable += 1

    def _epoch(self, which: int) -> int:
        return sorted(self.passed)[which]

    @rule(
        which=st.integers(0, 1), group=st.sampled_from(GROUPS), count=st.integers(1, 4),
        causal=st.booleans(),
    )  # fmt: skip
    def accept(self, which: int, group: str, count: int, causal: bool) -> None:
        one = self._batch("a", group, count, causal=causal)
        epoch = self._epoch(which)
        self.own.append((epoch, one))
        self.accepted[epoch].append(one)
        self._write(Accepted(one))

    @rule(which=st.integers(0, 1), group=st.sampled_from(GROUPS), count=st.integers(1, 4))
    def accept_and_place(self, which: int, group: str, count: int) -> None:
        one = self._batch("a", group, count)
        epoch = self._epoch(which)
        self.accepted[epoch].append(one)
        self._write(Accepted(one), self._place(epoch, one, "a"))

    @precondition(lambda self: self.own)
    @rule(data=st.data())
    def own_comes_back(self, data: st.DataObject) -> None:
        self.own_returns(data.draw(st.integers(0, len(self.own) - 1)))

    def own_returns(self, which: int) -> None:
        epoch, one = self.own.pop(which)
        self._write(self._place(epoch, one, "r"))

    @rule(
        which=st.integers(0, 1), group=st.sampled_from(GROUPS),
        counts=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    )  # fmt: skip
    def others_pass(self, which: int, group: str, counts: list[int]) -> None:
        epoch = self._epoch(which)
        self._write(*[self._place(epoch, self._batch("b", group, n), "r") for n in counts])

    @rule(term=st.integers(1, 9))
    def vote(self, term: int) -> None:
        self._write(Ballot(term, "b"))

    @rule(which=st.integers(0, 1), anew_with_it=st.booleans())
    def open_next(self, which: int, anew_with_it: bool) -> None:
        """Own batches that the closed epoch has not placed go to the next, without their past."""
        closed, opened = self._epoch(which), 1 + max(self.passed)
        back = [(one.group, one.seq) for epoch, one in self.own if epoch == closed]
        for one in self.accepted[closed]:
            if (one.group, one.seq) not in back:
                stream = ("a", 1, one.group)
                self.lasts[stream] = max(one.seq, self.lasts.get(stream, 0))
        unplaced = [one for one in self.accepted[closed] if (one.group, one.seq) in back]
        del self.accepted[closed], self.passed[closed]
        self.accepted[opened] = [replace(one, past=()) for one in unplaced]
        self.passed[opened] = []
        self.own = [
            (opened, replace(one, past=())) if epoch == closed else (epoch, one)
            for epoch, one in self.own
        ]
        self._write(Folded(Finish(f"change {opened}", ())))
        if anew_with_it:
            self.fold()

    @rule(
        keep=st.integers(0, 20),
        rolls_back=st.booleans(),
        again=st.integers(0, 3),
        new=st.integers(0, 3),
    )
    def flushed(self, keep: int, rolls_back: bool, again: int, new: int) -> None:
        """The end of the log is replaced by some of what was in it, later, and by what was fetched;
        where nothing was delivered of it, without a rollback."""
        epoch = max(self.passed)
        fetched = [self._batch("b", "g", 2) for _ in range(new)]
        for one in fetched:
            self.number += 1
            self.placed[one] = Placed(Key((0, self.number), "r"), self.number, one)
        self._write(*[Filled(epoch, self.placed[one]) for one in fetched[1:]])
        kept, gone = self.log[:keep], self.log[keep:]
        position = gone[0][0] - 1 if gone else self.logged
        if not rolls_back and position < self.confirmed:
            return
        items: list[LogItem] = []
        if gone and rolls_back:
            ids = [
                (at + n, MessageId(one.origin, 1, one.group, one.seq + n))
                for at, _, one in gone
                for n in range(one.count)
            ]
            items.append(Rollback(position, self.attempt + 1, epoch, tuple(ids)))
        attempt = self.attempt + len(items)
        self.log, self.logged = kept, position
        back = [(of, one) for _, of, one in gone[1 : 1 + again]]
        for of, one in [*back, *((epoch, one) for one in fetched)]:
            items.append(DeliveredBatch(self.logged + 1, of, self.placed[one], attempt))
            self.log.append((self.logged + 1, of, one))
            self.logged += one.count
        if attempt > self.attempt:
            self.confirmed = min(self.confirmed, position)
        self.fold(
            Folded(Open(self.number, (), ())), caught=items, logged=self.logged,
            events=[rollback_event(item) for item in items if isinstance(item, Rollback)],
        )  # fmt: skip
        self.attempt = attempt

    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        self.confirmed = data.draw(st.integers(self.confirmed, self.logged))
        self._write(confirmed=self.confirmed)

    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        """Some last part of what passed in each epoch is still needed, some of what is accepted."""
        for epoch, batches in self.accepted.items():
            del batches[: data.draw(st.integers(0, len(batches)))]
            del self.passed[epoch][: data.draw(st.integers(0, len(self.passed[epoch])))]
        self.fold()

    def fold(self, *before: MemberRecord, **given: object) -> None:
        engines = []
        for epoch, batches in self.accepted.items():
            records: list[Accepted | Kept] = [Accepted(one) for one in batches]
            records.extend(self.passed[epoch])
            engines.append(
                engine(epoch, records, own_seqs=dict(_last(self.seqs)), position=self.number)
            )
        self.folded = anew(0, *engines, lasts=self.lasts)
        self._write(*before, forget=self.folded, **given)

    @rule()
    def wait(self) -> None:
        assert self.store is not None
        flush(self.store)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        store = self.store
        assert store is not None
        flush(store)
        path = store.path if clean else kill(store, self.folder / f"{self.lives}.db")
        store.close_sync()
        self.reopen(path)
        assert self.store is not None
        assert self.store.boot == self.lives
        assert self.store.restored() == _wanted(self.folded, self.later)

    def copied(self) -> dict[str, Any]:
        """Of what the store should have."""
        kept: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("folded", "logged", "number", "confirmed", "attempt")
        }
        for name in ("later", "log", "own", "seqs", "lasts"):
            kept[name] = getattr(self, name).copy()
        for name in ("accepted", "passed"):
            kept[name] = {epoch: list(found) for epoch, found in getattr(self, name).items()}
        return kept

    @invariant()
    def the_log_is_there_from_the_first_unconfirmed_position(self) -> None:
        store = self.store
        if store is None:
            return
        flush(store)
        assert (store.logged, store.confirmed) == (self.logged, self.confirmed)
        assert store.attempt == self.attempt
        wanted = [
            (position, epoch, one)
            for position, epoch, one in self.log
            if position + one.count - 1 > self.confirmed
        ]
        assert self._read(self.confirmed + 1) == wanted

    @invariant()
    def what_is_left_of_the_log_below_is_whole(self) -> None:
        if self.store is None:
            return
        flush(self.store)
        try:
            first = self.store.first  # it may grow meanwhile: old rows go
            found = self._read(first)
        except ConfigError as error:
            assert "no longer kept" in str(error)  # noqa: PT017
            return
        assert found == [entry for entry in self.log if entry[0] >= first]
        if first > 1:
            with pytest.raises(Forgotten, match="no longer kept"):
                self.store.read(first - 1, 1_000_000)

    def _read(self, start: int) -> list[tuple[int, int, Batch]]:
        assert self.store is not None
        found = self.store.read(start, 1_000_000)
        attempts = [one.attempt for one in found]
        assert attempts == sorted(attempts)
        assert not attempts or attempts[-1] <= self.attempt
        return [(one.position, one.epoch, one.placed.batch) for one in found]


def _wanted(folded: Anew | None, later: list[MemberRecord]) -> list[MemberRecord]:
    return later if folded is None else [folded, *later]


def _last(seqs: dict[tuple[str, str], int]) -> list[tuple[str, int]]:
    return [(group, seq) for (origin, group), seq in seqs.items() if origin == "a"]


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("seed", range(12))
def test_a_kill_at_any_commit_leaves_what_some_first_boxes_said(seed: int) -> None:
    """And all that was told to be durable. Not by rules: when a commit comes is not theirs."""
    draw = random.Random(seed)
    model = Model()
    model.start()
    try:
        for _ in range(12):
            _kill_amid(model, draw)
    finally:
        model.teardown()


def _kill_amid(model: Model, draw: random.Random) -> None:
    store = model.store
    assert store is not None
    before, states = model.written, [model.copied()]
    model.states = states
    for _ in range(draw.randint(1, 40)):
        kind = draw.randrange(9)
        if kind < 2:
            model.accept(draw.randrange(2), draw.choice(GROUPS), 2, causal=kind == 0)
        elif kind < 4:
            model.others_pass(draw.randrange(2), draw.choice(GROUPS), [1, 2])
        elif kind == 4 and model.own:
            model.own_returns(draw.randrange(len(model.own)))
        elif kind == 5:
            model.vote(model.written)
        elif kind == 6:
            model.open_next(draw.randrange(2), anew_with_it=draw.random() < 0.5)
        elif kind == 7:
            most = len(model.log)
            model.flushed(draw.randint(most // 2, most), True, draw.randrange(3), draw.randrange(3))
        else:
            model.fold()
        if draw.random() < 0.05:
            flush(store)
    durable = model.durable - before
    path = kill(store, model.folder / f"{model.lives}.db")
    store.close_sync()
    model.reopen(path)
    assert model.store is not None
    restored, logged = model.store.restored(), model.store.logged
    left = [
        state
        for state in states[durable:]
        if (_wanted(state["folded"], state["later"]), state["logged"]) == (restored, logged)
    ]
    assert left, f"{len(restored)} records; {durable} of {len(states) - 1} boxes were durable"
    vars(model).update(left[0])
    model.durable = model.written
