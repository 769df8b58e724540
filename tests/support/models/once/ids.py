"""The same world with the window that members keep of ids, in place of the table: the class that
the product runs. A client restarts with its ids and marks; in some runs with its ids alone, where
the window is large enough for that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from ordercast.core import ids
from ordercast.model.messages import MARK_BITS, Batch, Requests, by_id
from support.models.once.mutants import (
    DropsAtOrdering,
    HandsCurrentTable,
    HandsNothing,
    HoldsRelay,
    KeepsTableWhenCut,
    LosesTableOnRestart,
    RepeatsUnaccepted,
    RepeatsUnordered,
)
from support.models.once.producers import MarkTable
from support.models.once.rule import DELIVER, DUPLICATE, EXPIRED, Request, Table
from support.models.once.world import Client, Daemon, World

MANY = 1_000  # ids: no run has more
BEGIN = 1 << MARK_BITS  # the mark of a window without ids


def batch_of(request: Request) -> Batch:
    client = by_id(request.client, str(request.number))
    requests = Requests(client, ((request.stamp, 1),))
    return Batch("a", 1, "g", 1, 1, b"", requests=requests)


class IdTable(MarkTable):
    def log(self, request: Request) -> str:
        self.count += 1
        batch = batch_of(request)
        if self.marks.keeps(batch):
            return DELIVER
        return DUPLICATE if self.marks.knows(batch) else EXPIRED


@contextmanager
def window_of(most: int) -> Iterator[None]:
    """Groups that remember so many ids."""
    with patch.object(ids, "REMEMBERED", most):
        yield


class IdWorld(World):
    """`remembers`: so many ids. `restamps`: clients restart without their marks."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.restamps = seed % 5 == 0
        self.remembers = MANY if self.restamps else 2 + seed // 8 % 4

    table = IdTable

    def stamp(self, daemon: Daemon, group: str) -> int:
        """The last number of an id that is stable, as far as the daemon knows."""
        stable = zip(daemon.log[: daemon.stable], daemon.done, strict=False)
        return BEGIN + sum(copy.request.group == group and done == DELIVER for copy, done in stable)

    def connect(self, client: Client, daemon: Daemon) -> None:
        if self.restamps and client.at is None and daemon.works:
            client.open = [replace(one, stamp=self.stamp(daemon, one.group)) for one in client.open]
        super().connect(client, daemon)

    def lose_memory(self, client: Client) -> None:
        """It has what is not known to be stable, and its ids."""
        self.counts["clients that restart"] += 1
        client.at = None

    def run(self, steps: int = 120) -> "World":
        with window_of(self.remembers):
            return super().run(steps)


class _DeliversOld(IdTable):
    """What is not remembered is new."""

    def log(self, request: Request) -> str:
        return super().log(replace(request, stamp=max(request.stamp, self._last(request))))

    def _last(self, request: Request) -> int:
        window = self.marks.windows.get(batch_of(request).group)
        return 0 if window is None else window.last


class ForgetsWindow(IdWorld):
    table = _DeliversOld


class _OldIsDuplicate(IdTable):
    """What is not remembered was delivered before."""

    def log(self, request: Request) -> str:
        outcome = super().log(request)
        return DUPLICATE if outcome == EXPIRED else outcome


class TakesOldForCopy(IdWorld):
    table = _OldIsDuplicate


class MarksAnew(IdWorld):
    """A client that restarts asks for a new mark, however small the window is."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.restamps, self.remembers = True, 2


class WindowBySite(IdWorld):
    """The sites do not agree how many ids are remembered."""

    def new_table(self, site: str) -> Table:
        return _Shorter(self.most) if site == "b" else IdTable(self.most)


class _Shorter(IdTable):
    def log(self, request: Request) -> str:
        with window_of(ids.REMEMBERED - 1):
            return super().log(request)


def _with_windows(mutant: type[World]) -> type[World]:
    if "table" in vars(mutant) or "new_table" in vars(mutant):
        return mutant
    return type(mutant.__name__, (mutant, IdWorld), {})


ID_MUTANTS: tuple[type[World], ...] = (
    *(
        _with_windows(one)
        for one in (
            HoldsRelay, RepeatsUnaccepted, RepeatsUnordered, KeepsTableWhenCut,
            LosesTableOnRestart, HandsNothing, HandsCurrentTable, DropsAtOrdering,
        )
    ),
    ForgetsWindow, TakesOldForCopy, MarksAnew, WindowBySite,
)  # fmt: skip
