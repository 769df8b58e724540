"""The same world with the window that members keep of clients, in place of the table: the class
that the product runs. A client without memory is another client."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from unittest.mock import patch

from ordercast.core import clients
from ordercast.core.clients import ClientWindow
from ordercast.model.messages import MARK_BITS, Requests, digest_in, once
from support.models.once.mutants import (
    DropsAtOrdering,
    HandsCurrentTable,
    HandsNothing,
    HoldsRelay,
    KeepsTableWhenCut,
    LosesTableOnRestart,
    RepeatsUnaccepted,
    RepeatsUnordered,
    ResolvesListAnew,
)
from support.models.once.rule import DELIVER, DUPLICATE, EXPIRED, Request, Table
from support.models.once.world import Client, Daemon, World

BEGIN = 1 << MARK_BITS  # the mark of a window without clients


def requests_of(request: Request) -> Requests:
    client = f"{request.client} {request.generation}".encode()
    name, number = once(client, request.number, request.stamp)
    return Requests(name, ((number, 1),))


@contextmanager
def clients_of(most: int) -> Iterator[None]:
    """Groups that remember so many clients."""
    with patch.object(clients, "REMEMBERED", most):
        yield


@dataclass
class ClientTable(Table):
    window: ClientWindow = field(default_factory=ClientWindow)

    def copy(self) -> "ClientTable":
        return replace(self, window=ClientWindow(self.window.marks()))

    def log(self, request: Request) -> str:
        self.count += 1
        requests = requests_of(request)
        if self.window.keeps(requests):
            return DELIVER
        return DUPLICATE if self.window.knows(requests) else EXPIRED


class ClientWorld(World):
    """`remembers`: so many clients."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.remembers = 1 + seed // 8 % 4

    table: type[Table] = ClientTable

    def stamp(self, daemon: Daemon, group: str) -> int:
        """Above the stamps of what is stable, as far as the daemon knows."""
        stable = zip(daemon.log[: daemon.stable], daemon.done, strict=False)
        return max(
            [
                copy.request.stamp + 1
                for copy, done in stable
                if copy.request.group == group and done == DELIVER
            ],
            default=BEGIN,
        )

    def run(self, steps: int = 120) -> "World":
        with clients_of(self.remembers):
            return super().run(steps)


# --- rules that look as good ----------------------------------------------------------------------


class _DeliversOld(ClientTable):
    def log(self, request: Request) -> str:
        return super().log(replace(request, stamp=max(request.stamp, self.window.horizon)))


class ForgetsClients(ClientWorld):
    """What comes from a client that is forgotten is new."""

    table = _DeliversOld


class _OldIsDuplicate(ClientTable):
    def log(self, request: Request) -> str:
        outcome = super().log(request)
        return DUPLICATE if outcome == EXPIRED else outcome


class TakesOldForCopy(ClientWorld):
    """What is stamped too low was delivered before."""

    table = _OldIsDuplicate


class _BelowMarkIsDuplicate(ClientTable):
    def log(self, request: Request) -> str:
        name = requests_of(request)
        before = self.window.entries.get(digest_in(name.client), (0, 0))[1]
        outcome = super().log(request)
        return DUPLICATE if name.numbers[0][0] <= before else outcome


class TakesLaterForIt(ClientWorld):
    """A number at or below the client's last one was delivered, however old its stamp is."""

    table = _BelowMarkIsDuplicate


class _KeepsValue(ClientTable):
    def log(self, request: Request) -> str:
        name = digest_in(requests_of(request).client)
        before = self.window.entries.get(name)
        outcome = super().log(request)
        if before is not None and outcome == DELIVER and name in self.window.entries:
            self.window.entries[name] = (before[0], self.window.entries[name][1])
            self.window._forget()
        return outcome


class ForgetsInTurn(ClientWorld):
    """The client that came first is forgotten first, whatever it has sent since."""

    table = _KeepsValue


class StampsAnew(ClientWorld):
    """A client stamps what it repeats with the mark of now."""

    def connect(self, client: Client, daemon: Daemon) -> None:
        if daemon.works:
            client.open = [replace(o, stamp=self.stamp(daemon, o.group)) for o in client.open]
        super().connect(client, daemon)


class BoundsBySite(ClientWorld):
    def new_table(self, site: str) -> Table:
        return _Shorter(self.most) if site == "b" else ClientTable(self.most)


class _Shorter(ClientTable):
    def log(self, request: Request) -> str:
        with clients_of(max(1, clients.REMEMBERED - 1)):
            return super().log(request)


class EvictsByClock(ClientWorld):
    """A site forgets a client when some time has passed."""

    def step(self) -> None:
        super().step()
        for daemon in self.daemons.values():
            for table in daemon.tables.values():
                assert isinstance(table, ClientTable)
                if len(table.window.entries) > 1 and self.chance.random() < 0.02:
                    table.window.entries.pop(next(iter(table.window.entries)))


def _with_clients(mutant: type[World]) -> type[World]:
    return type(mutant.__name__, (mutant, ClientWorld), {})


class HoldsRequests(HoldsRelay, ClientWorld):
    """No window: a daemon knows the requests in its own store, and relays only what is stored."""


CLIENT_MUTANTS: tuple[type[World], ...] = (
    *(
        _with_clients(one)
        for one in (
            RepeatsUnaccepted, RepeatsUnordered, KeepsTableWhenCut, LosesTableOnRestart,
            HandsNothing, HandsCurrentTable, DropsAtOrdering, ResolvesListAnew,
        )
    ),
    HoldsRequests, ForgetsClients, TakesOldForCopy, TakesLaterForIt, ForgetsInTurn, StampsAnew,
    BoundsBySite, EvictsByClock,
)  # fmt: skip
