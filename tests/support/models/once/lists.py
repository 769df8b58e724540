"""The same world with clients that send to many lists of sites, and windows for these that have no
tickets (docs/requests.md, "A rule for lists of sites"). The product does not run this yet.

The cluster remembers a number of clients of all lists together. The end of an epoch forgets those
with the least values, and the *floor* of the next epoch is the greatest value that was forgotten.
"""

from dataclasses import dataclass, field, replace

from ordercast.core import clients
from ordercast.core.clients import ClientWindow
from ordercast.model.messages import MARK_BITS, Requests, digest_in, stamp_in
from support.models.once.clients import ClientWorld, requests_of
from support.models.once.mutants import (
    HandsCurrentTable,
    HandsNothing,
    KeepsTableWhenCut,
    LosesTableOnRestart,
    RepeatsUnaccepted,
    RepeatsUnordered,
)
from support.models.once.rule import DELIVER, DUPLICATE, EXPIRED, Request, Table
from support.models.once.world import Client, Copy, Daemon, Tables, World


class ListWindow(ClientWindow):
    """A window of any stamps, not of those with the last ticket. `floor`: of the epoch in which it
    is. Entries that are not above it are forgotten, and stamps below it are too old."""

    __slots__ = ("floor",)

    def __init__(self, entries: dict[bytes, tuple[int, int]] | None = None, floor: int = 0) -> None:
        self.floor = floor
        super().__init__()
        self.entries = dict(entries or {})
        self._forget()

    def raise_to(self, floor: int) -> None:
        self.floor = max(floor, self.floor)
        self._forget()

    def number(self, requests: Requests) -> int:
        """What the client has counted, without the epoch of the stamp."""
        return requests.numbers[-1][0] % (1 << MARK_BITS)

    def keeps(self, requests: Requests) -> bool:
        name, number = digest_in(requests.client), self.number(requests)
        stamp = stamp_in(requests.client, requests.numbers[-1][0])
        value, last = self.entries.get(name, (0, 0))
        if stamp < self.horizon or number <= last:
            return False
        self.entries[name] = (max(value, stamp + 1), number)
        self._forget()
        return True

    def knows(self, requests: Requests) -> bool:
        _, last = self.entries.get(digest_in(requests.client), (0, 0))
        stamp = stamp_in(requests.client, requests.numbers[-1][0])
        return self.number(requests) <= last and stamp >= self.horizon

    def _forget(self) -> None:
        entries = {name: one for name, one in self.entries.items() if one[0] > self.floor}
        while len(entries) > clients.REMEMBERED:
            del entries[min(entries, key=lambda name: (entries[name][0], name))]
        full = len(entries) == clients.REMEMBERED
        least = min(value for value, _ in entries.values()) if full else 0
        self.entries, self.horizon = entries, max(self.floor, least)


@dataclass
class ListTable(Table):
    """The table of one list. `told`: the floor of the epoch of the copy that is logged next."""

    window: ListWindow = field(default_factory=ListWindow)
    told: int = 0

    def copy(self) -> "ListTable":
        return replace(self, window=type(self.window)(self.window.entries, self.window.floor))

    def raised(self) -> int:
        return self.told

    def log(self, request: Request) -> str:
        self.count += 1
        self.window.raise_to(self.raised())
        requests = requests_of(request)
        if self.window.keeps(requests):
            return DELIVER
        return DUPLICATE if self.window.knows(requests) else EXPIRED


class ListWorld(ClientWorld):
    """`most_of_lists`: so many clients of all lists are remembered at the end of an epoch.
    `floors`: of each epoch, how long the log was when it opened, and its floor. `knows`: the last
    epoch that each site has heard of."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.most_of_lists = 1 + seed // 32 % 3
        self.floors: list[tuple[int, int]] = [(0, 0)]
        self.knows = dict.fromkeys(self.daemons, 1)

    # --- what mutants replace ---------------------------------------------------------------------

    def list_table(self) -> ListTable:
        return ListTable(self.most)

    def floor_of(self, values: list[int], before: int) -> int:
        """The floor of the next epoch. `values`: all that the end has told, the greatest first."""
        return max(before, *values[self.most_of_lists :], 0)

    def floor_at(self, index: int) -> int:
        """The floor of the epoch in which this copy of the log was logged."""
        return next(floor for begins, floor in reversed(self.floors) if begins <= index)

    def clock(self, daemon: Daemon) -> int:
        """The upper bits of stamps: one clock for all lists."""
        return self.knows[daemon.name] << MARK_BITS

    # --- the rule ---------------------------------------------------------------------------------

    def target(self) -> str:
        """One of several lists, more often than a group. All sites have the logs of all lists."""
        if self.chance.random() < 0.3:
            return "g"
        some = [site for site in self.roster if self.chance.random() < 0.6]
        return "@" + "".join(some or self.roster)

    def stamp(self, daemon: Daemon, group: str) -> int:
        settled = super().stamp(daemon, group)
        return max(settled, self.clock(daemon)) if group[0] == "@" else settled

    def fold(self, daemon: Daemon) -> Tables:
        tables: Tables = {}
        for index, copy in enumerate(daemon.log):
            self._judge(daemon, tables, copy, index)
        return tables

    def judge(self, daemon: Daemon, tables: Tables, copy: Copy) -> str:
        return self._judge(daemon, tables, copy, len(daemon.log) - 1)

    def _judge(self, daemon: Daemon, tables: Tables, copy: Copy, index: int) -> str:
        group = copy.request.group
        if group not in tables and group[0] == "@":
            tables[group] = self.list_table()
        table = tables.get(group)
        if isinstance(table, ListTable):
            table.told = self.floor_at(index)
        return super().judge(daemon, tables, copy)

    def change(self, leaving: str | None = None, apart: str | None = None) -> None:
        before = self.counts["epochs"] + self.counts["flushes"]
        super().change(leaving, apart)
        if self.counts["epochs"] + self.counts["flushes"] == before:
            return
        lists = [table for table in self.opening.values() if isinstance(table, ListTable)]
        values = [value for table in lists for value, _ in table.window.entries.values()]
        last = self.floors[-1][1]
        floor = self.floor_of(sorted((v for v in values if v > last), reverse=True), last)
        self.counts["raised floors"] += floor > last
        self.floors.append((self.base, floor))
        for table in lists:  # what the layout keeps; members forget the rest when they log
            table.window.raise_to(floor)
        for name in self.members:
            self.knows[name] = before + 2


# --- rules that look as good ----------------------------------------------------------------------


class FloorStays(ListWorld):
    """The end of an epoch forgets clients, and nothing that they may repeat is refused."""

    def change(self, leaving: str | None = None, apart: str | None = None) -> None:
        super().change(leaving, apart)
        begins, floor = self.floors[-1]
        if floor:
            self.floors[-1] = begins, 0
            for tables in (self.opening, *(one.tables for one in self.daemons.values())):
                for table in tables.values():
                    if isinstance(table, ListTable):
                        kept = {n: e for n, e in table.window.entries.items() if e[0] > floor}
                        table.window = ListWindow(kept)


class FloorBelowForgotten(ListWorld):
    """The floor is one below the greatest value that is forgotten; so that is forgotten too."""

    def floor_of(self, values: list[int], before: int) -> int:
        floor = super().floor_of(values, before)
        return floor - 1 if floor > before else floor

    def list_table(self) -> ListTable:
        return ListTable(self.most, window=_ForgetsAtFloor())


class _ForgetsAtFloor(ListWindow):
    """It forgets what is one above the floor as well."""

    __slots__ = ()

    def raise_to(self, floor: int) -> None:
        if floor > self.floor:
            self.entries = {n: e for n, e in self.entries.items() if e[0] > floor + 1}
        super().raise_to(floor)


class FloorOfNow(ListWorld):
    """A log is counted through again with the last floor, not with that of each epoch."""

    def floor_at(self, index: int) -> int:  # noqa: ARG002
        return self.floors[-1][1]


class FloorOfKnownLists(ListWorld):
    """A list of which nothing is remembered begins anew, below the floor."""

    def list_table(self) -> ListTable:
        return _OnlyIfKnown(self.most)


class _OnlyIfKnown(ListTable):
    def raised(self) -> int:
        above = any(value > self.told for value, _ in self.window.entries.values())
        if not above:
            self.window = ListWindow()
        return self.told if above else 0


class KeepsBelowFloor(ListWorld):
    """A member that remembers clients of a list goes on with them, whatever the floor is. Those
    who come begin with what is above it."""

    def list_table(self) -> ListTable:
        return ListTable(self.most, window=_KeepsAll())

    def change(self, leaving: str | None = None, apart: str | None = None) -> None:
        super().change(leaving, apart)
        floor = self.floors[-1][1]
        for table in self.opening.values():
            if isinstance(table, ListTable):
                kept = {n: e for n, e in table.window.entries.items() if e[0] > floor}
                table.window = _KeepsAll(kept)


class _KeepsAll(ListWindow):
    __slots__ = ()

    def raise_to(self, floor: int) -> None:
        if not self.entries:
            super().raise_to(floor)


class NumbersWithEpochs(ListWorld):
    """Numbers are compared as they travel, with the epoch of the stamp before them. A site that is
    behind stamps a later request with an earlier epoch."""

    def list_table(self) -> ListTable:
        return ListTable(self.most, window=_WithEpochs())


class _WithEpochs(ListWindow):
    __slots__ = ()

    def number(self, requests: Requests) -> int:
        return requests.numbers[-1][0]


class FloorBySite(ListWorld):
    """One site remembers one client less."""

    def _judge(self, daemon: Daemon, tables: Tables, copy: Copy, index: int) -> str:
        here = index if daemon.name != "b" else len(self.order)
        return super()._judge(daemon, tables, copy, here)


class ForgetsUnused(ListWorld):
    """A list to which nobody has sent in the last epoch is forgotten, and nothing is refused."""

    def change(self, leaving: str | None = None, apart: str | None = None) -> None:
        opened = len(self.floors)
        began = self.base
        super().change(leaving, apart)
        if len(self.floors) > opened:
            used = {copy.request.group for copy in self.order[began : self.base]}
            for tables in (self.opening, *(one.tables for one in self.daemons.values())):
                for group in [g for g in tables if g[0] == "@" and g not in used]:
                    del tables[group]


class ListsStampedAnew(ListWorld):
    """A client stamps what it repeats with the epoch of now."""

    def connect(self, client: Client, daemon: Daemon) -> None:
        if daemon.works:
            client.open = [
                replace(one, stamp=self.stamp(daemon, one.group)) if one.group[0] == "@" else one
                for one in client.open
            ]
        super().connect(client, daemon)


class ListsResolvedAnew(ListWorld):
    """A repeat goes to those of the listed sites that are still there."""

    def resolved(self, request: Request) -> Request:
        if request.group[0] != "@":
            return request
        there = "".join(site for site in request.group[1:] if site in self.roster)
        return replace(request, group="@" + (there or "".join(self.roster)))


def _with_lists(mutant: type[World]) -> type[World]:
    return type(mutant.__name__, (mutant, ListWorld), {})


LIST_MUTANTS: tuple[type[World], ...] = (
    *(
        _with_lists(one)
        for one in (
            RepeatsUnaccepted, RepeatsUnordered, KeepsTableWhenCut, LosesTableOnRestart,
            HandsNothing, HandsCurrentTable,
        )
    ),
    FloorStays, FloorBelowForgotten, FloorOfNow, FloorOfKnownLists, KeepsBelowFloor, FloorBySite,
    NumbersWithEpochs, ForgetsUnused, ListsStampedAnew, ListsResolvedAnew,
)  # fmt: skip
