"""Rules that look right and are not: each differs from the rule in one thing, and loses, doubles or
disorders requests in some schedule."""

from dataclasses import dataclass, field, replace

from support.models.once.rule import DELIVER, DUPLICATE, Entry, Name, Request, Table
from support.models.once.world import STABLE, Client, Copy, Daemon, Tables, World, copied


class _Blind(Table):
    def log(self, request: Request) -> str:  # noqa: ARG002
        self.count += 1
        return DELIVER


class HoldsRelay(World):
    """No table: a daemon knows the requests in its own store, and relays only what is stored."""

    table: type[Table] = _Blind

    def takes(self, daemon: Daemon, request: Request) -> bool:
        return all(copy.request.name != request.name for copy in daemon.own)

    def may_place(self, daemon: Daemon, copy: Copy) -> bool:
        return copy in daemon.own[: daemon.stored]


class RepeatsUnaccepted(World):
    """A client that moves leaves to its daemon what that has accepted and stored."""

    def may_lose(self, daemon: Daemon) -> bool:  # noqa: ARG002
        return False  # it would be lost with the store

    def trusted(self, daemon: Daemon) -> set[Name]:
        return {copy.request.name for copy in daemon.own[: daemon.stored]}

    def connect(self, client: Client, daemon: Daemon) -> None:
        left = self.daemon_of(client)
        if left is not None and left is not daemon:
            for one in [one for one in client.open if one.name in self.trusted(left)]:
                client.open.remove(one)
                client.outcomes[one.body] = STABLE, len(self.order)
        super().connect(client, daemon)


class RepeatsUnordered(RepeatsUnaccepted):
    """The same, for what has its place in the order."""

    def trusted(self, daemon: Daemon) -> set[Name]:
        return super().trusted(daemon) & {copy.request.name for copy in self.order}


@dataclass
class _Numbers(Table):
    """The numbers of each client that were delivered; those with an answer are forgotten."""

    seen: dict[str, frozenset[int]] = field(default_factory=dict)

    def copy(self) -> "_Numbers":
        return replace(self, seen=dict(self.seen))

    def log(self, request: Request) -> str:
        self.count += 1
        seen = {one for one in self.seen.get(request.client, ()) if one > request.floor}
        outcome = DUPLICATE if request.number in seen else DELIVER
        self.seen[request.client] = frozenset({*seen, request.number})
        return outcome


class PrunesSet(World):
    """A set of numbers, cut at those that are answered; copies of these come again."""

    table = _Numbers

    def floor(self, client: Client) -> int:
        return min((one.number for one in client.open if one.group == "g"), default=0) - 1


class _Floors(Table):
    def judge(self, request: Request, entry: Entry) -> tuple[str, Entry]:
        return super().judge(request, replace(entry, mark=max(entry.mark, request.floor)))


class FloorOfAccepted(RepeatsUnaccepted):
    """Whatever was accepted counts as delivered."""

    table = _Floors

    def floor(self, client: Client) -> int:
        return client.last["g"] - 1


class KeepsTableWhenCut(World):
    def tables_after_cut(self, daemon: Daemon) -> Tables:
        return daemon.tables


class LosesTableOnRestart(World):
    def tables_after_restart(self, daemon: Daemon) -> Tables:  # noqa: ARG002
        return {}


class HandsNothing(World):
    def tables_for_newcomer(self, giver: Daemon) -> Tables:  # noqa: ARG002
        return {}


class HandsCurrentTable(World):
    def tables_for_newcomer(self, giver: Daemon) -> Tables:
        return copied(giver.tables)


class DropsAtOrdering(World):
    """What the order has already is not placed, and is told as what is there."""

    def may_place(self, daemon: Daemon, copy: Copy) -> bool:
        if all(one.request.name != copy.request.name for one in self.order):
            return True
        self.give_up(daemon, copy)
        self.tell(copy, DUPLICATE)
        return False


class ResolvesListAnew(World):
    def resolved(self, request: Request) -> Request:
        if request.group[0] == "@":
            return replace(request, group="@" + "".join(self.roster))
        return request


class _Forgets(Table):
    def evict(self) -> None:
        horizon = self.horizon
        super().evict()
        self.horizon = horizon


class ForgetsEvicted(World):
    table = _Forgets


class BoundsBySite(World):
    def new_table(self, site: str) -> Table:
        return Table(self.most - (site == "b"))


class EvictsByClock(World):
    """A site forgets a client when some time has passed."""

    def step(self) -> None:
        super().step()
        for daemon in self.daemons.values():
            for table in daemon.tables.values():
                if len(table.entries) > 1 and self.chance.random() < 0.02:
                    table.evict()


class _RecordsNoRefusal(Table):
    def refused(self, entry: Entry, number: int) -> Entry:  # noqa: ARG002
        return entry


class RefusalNotRecorded(World):
    """The numbers after one that is refused wait for it, for ever."""

    table = _RecordsNoRefusal


class _RefusesByMarkAlone(Table):
    def refused(self, entry: Entry, number: int) -> Entry:
        return replace(super().refused(entry, number), horizon=0)


class RefusesByMarkAlone(World):
    """A refusal leaves a mark, and the entry takes any stamp from then on."""

    table = _RefusesByMarkAlone


class _TakesOldForDuplicate(Table):
    def judge(self, request: Request, entry: Entry) -> tuple[str, Entry]:
        if request.number <= entry.mark:
            return DUPLICATE, entry
        return super().judge(request, entry)


class TakesOldForDuplicate(World):
    """A number below the mark counts as delivered, even if it was sent before the entry was made.
    But perhaps it was refused."""

    table = _TakesOldForDuplicate


class _LooksBeforeEntry(Table):
    def refused(self, entry: Entry, number: int) -> Entry:
        return super().refused(replace(entry, blind=False), number)


class LooksBeforeEntry(World):
    """An entry that a late copy has made asks for numbers that are stable long since."""

    table = _LooksBeforeEntry


class StampsUnstable(World):
    def stamp(self, daemon: Daemon, group: str) -> int:
        return sum(copy.request.group == group for copy in daemon.log)


class AsksForItsMark(World):
    """A client without memory goes on after the last number that a daemon knows of it."""

    def forget(self, client: Client) -> None:
        tables = self.daemons[self.members[0]].tables
        client.last.clear()
        for group, table in tables.items():
            if client.name in table.entries:
                client.last[group] = table.entries[client.name].mark


MUTANTS: tuple[type[World], ...] = (
    HoldsRelay, RepeatsUnaccepted, RepeatsUnordered, PrunesSet, FloorOfAccepted, KeepsTableWhenCut,
    LosesTableOnRestart, HandsNothing, HandsCurrentTable, DropsAtOrdering, ResolvesListAnew,
    ForgetsEvicted, BoundsBySite, EvictsByClock, RefusalNotRecorded, RefusesByMarkAlone,
    TakesOldForDuplicate, LooksBeforeEntry, StampsUnstable, AsksForItsMark,
)  # fmt: skip
