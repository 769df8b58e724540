"""Any sequence of boxes, confirmations, checkpoints and kills, beside a store made of lists."""

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ordercast.core.outbox import Accepted, Checkpoint, Passed, Record
from ordercast.model.errors import ConfigError
from ordercast.model.messages import Batch, Key, Placed
from ordercast.net.store import Store, Written
from support.stores import batch, flush, kill, open_store

GROUPS = ("g", "h", "elsewhere")  # the last is not for this site


def mine(one: Batch) -> bool:
    return one.group != "elsewhere"


class Model(RuleBasedStateMachine):
    """`folded` and `later` are what a start must find; `log` the whole ordered log."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="store"))
        self.lives = 0
        self.store: Store | None = None
        self.state: dict[str, object] | None = None
        self.accepted: list[Accepted] = []  # that the core still needs, in order
        self.passed: list[Passed] = []
        self.folded: tuple[Record, ...] = ()
        self.later: list[Record] = []
        self.log: list[tuple[int, Batch]] = []  # (first position, batch)
        self.logged = self.confirmed = 0
        self.seqs: dict[tuple[str, str], int] = {}
        self.own: list[Batch] = []  # accepted, not yet back
        self.number = 0

    @initialize()
    def start(self) -> None:
        self._open(self.folder / "0.db")

    def _open(self, path: Path) -> None:
        self.store = open_store(path, mine=mine)
        self.lives += 1

    def teardown(self) -> None:
        if self.store is not None:
            self.store.close_sync()
        shutil.rmtree(self.folder)

    def _batch(self, origin: str, group: str, count: int) -> Batch:
        seq = self.seqs.get((origin, group), 0) + 1
        self.seqs[origin, group] = seq + count - 1
        return batch(seq, count, origin=origin, group=group)

    def _place(self, one: Batch, source: str) -> Passed:
        self.number += 1
        record = Passed(Placed(Key((0, self.number), "r"), self.number, one), source, source == "r")
        self.passed.append(record)
        if mine(one):
            self.log.append((self.logged + 1, one))
            self.logged += one.count
        return record

    def _write(self, *records: Record, **given: object) -> None:
        assert self.store is not None
        self.later.extend(records)
        self.store.write(Written(records=records, at_ns=1, **given), None)  # type: ignore[arg-type]

    @rule(group=st.sampled_from(GROUPS), count=st.integers(1, 4))
    def accept(self, group: str, count: int) -> None:
        one = self._batch("a", group, count)
        self.own.append(one)
        self.accepted.append(Accepted(one))
        self._write(self.accepted[-1])

    @rule(group=st.sampled_from(GROUPS), count=st.integers(1, 4))
    def accept_and_place(self, group: str, count: int) -> None:
        one = self._batch("a", group, count)
        self.accepted.append(Accepted(one))
        self._write(self.accepted[-1], self._place(one, "a"))

    @precondition(lambda self: self.own)
    @rule(data=st.data())
    def own_comes_back(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(self.own) - 1))
        self._write(self._place(self.own.pop(at), "r"))

    @rule(group=st.sampled_from(GROUPS), counts=st.lists(st.integers(1, 4), min_size=1, max_size=5))
    def others_pass(self, group: str, counts: list[int]) -> None:
        self._write(*[self._place(self._batch("b", group, n), "r") for n in counts])

    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        self.confirmed = data.draw(st.integers(self.confirmed, self.logged))
        self._write(confirmed=self.confirmed)

    @rule(data=st.data())
    def checkpoint(self, data: st.DataObject) -> None:
        """Some last part of each kind is still needed."""
        del self.accepted[: data.draw(st.integers(0, len(self.accepted)))]
        del self.passed[: data.draw(st.integers(0, len(self.passed)))]
        self.folded = (*self.accepted, *self.passed)
        self.state = {"position": 0, "n": self.number}
        self.later = []
        self._write(forget=Checkpoint(self.state, self.folded))

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
        self._open(path)
        assert self.store is not None
        checkpoint, records = self.store.restored()
        assert self.store.boot == self.lives
        assert records == self.later
        if self.state is None:
            assert checkpoint is None
        else:
            assert checkpoint == Checkpoint(self.state, self.folded)

    @invariant()
    def the_log_is_there_from_the_first_unconfirmed_position(self) -> None:
        store = self.store
        if store is None:
            return
        flush(store)
        assert (store.logged, store.confirmed) == (self.logged, self.confirmed)
        wanted = [
            (position, one)
            for position, one in self.log
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
        assert found == [(position, one) for position, one in self.log if position >= first]
        if first > 1:
            with pytest.raises(ConfigError, match="no longer kept"):
                self.store.read(first - 1, 1_000_000)

    def _read(self, start: int) -> list[tuple[int, Batch]]:
        assert self.store is not None
        found = self.store.read(start, 1_000_000)
        return [(delivered.position, delivered.placed.batch) for delivered in found]


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
