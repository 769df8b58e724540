"""A small world that attacks the rule: clients that move and repeat, daemons that crash and lose
their stores, epochs that end in peace or with a flush, tails of logs that are cut, sites that
return or leave.

All sites are members of all groups, so one order stands for all groups. A member has logged a first
part of it, and has a shorter one on its disk. A flush ends the epoch with the longest log of the
survivors; what only others have logged is cut there when they return. A request to a list of sites
(`@`) names a group of its own, made of the sites that are on the roster when it is first sent.
"""

from collections import Counter
from dataclasses import dataclass
from random import Random

from support.models.once.rule import DELIVER, DUPLICATE, GAP, Name, Request, Table

SITES: tuple[str, ...] = ("a", "b", "c")
REFUSED, STABLE = "refused", "stable"
WINDOW = 3
ROUNDS = 40  # of calm, at most

Tables = dict[str, Table]


@dataclass(frozen=True, eq=False)
class Copy:
    """A request as one site has sent it to the log of its group. No two copies are equal."""

    origin: str
    request: Request


class Daemon:
    """A site. `log` is the whole log from the cluster's first copy; what is before `begins` was
    never delivered here."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.works = True  # it is a member, and has not restarted in this epoch
        self.log: list[Copy] = []
        self.done: list[str] = []  # what became of each of `log` here
        self.durable = 0  # so many of `log` are on the disk
        self.stable = 0  # so many of `log` it knows to be stable
        self.seen = 0  # so many of `log` the application has seen
        self.begins = 0
        self.tables: Tables = {}
        self.waits_for_tables = False  # it joined without a store
        self.own: list[Copy] = []  # copies that it has accepted
        self.stored = 0  # so many of `own` are on the disk
        self.told: set[Copy] = set()


class Client:
    def __init__(self, name: str) -> None:
        self.name = name
        self.at: str | None = None
        self.generation = 1
        self.last: Counter[str] = Counter()  # the last number by group
        self.open: list[Request] = []  # not known to be stable, in order
        self.accepted: set[Name] = set()
        self.outcomes: dict[int, tuple[str, int]] = {}  # by body; how long the log was then


class World:
    """`seed` draws the schedule. `table` and the first methods are what mutants replace."""

    table: type[Table] = Table

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.safe = bool(seed % 2)
        self.most = 1 + seed // 4 % 2  # clients that a table keeps
        self.clients = [Client(f"k{number}") for number in range(2 + seed // 2 % 2)]
        self.daemons = {name: Daemon(name) for name in SITES}
        self.roster = self.members = SITES
        self.eager = self.daemons[self.chance.choice(SITES)] if seed % 3 == 0 else None
        self.base = 0  # copies of the epochs before this one
        self.order: list[Copy] = []  # of all epochs
        self.opening: Tables = {}  # the tables when this epoch opened
        self.bodies = 0
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    # --- what mutants replace ---------------------------------------------------------------------

    def new_table(self, site: str) -> Table:  # noqa: ARG002
        return self.table(self.most)

    def stamp(self, daemon: Daemon, group: str) -> int:
        """A stable count of the group's log, as far as the daemon knows."""
        stable = daemon.log[: daemon.stable]
        return sum(copy.request.group == group for copy in stable)

    def target(self) -> str:
        """Where a client sends to: a list of all sites, or a group."""
        return "@" + "".join(self.roster) if self.chance.random() < 0.25 else "g"

    def floor(self, client: Client) -> int:  # noqa: ARG002
        return 0

    def repeated(self, client: Client) -> list[Request]:
        """What the client sends again when it connects, before anything new."""
        return client.open

    def resolved(self, request: Request) -> Request:
        """A repeat goes to the sites that were listed at first."""
        return request

    def takes(self, daemon: Daemon, request: Request) -> bool:  # noqa: ARG002
        return True

    def may_place(self, daemon: Daemon, copy: Copy) -> bool:  # noqa: ARG002
        return True

    def tables_after_restart(self, daemon: Daemon) -> Tables:
        return self.fold(daemon)

    def tables_after_cut(self, daemon: Daemon) -> Tables:
        return self.fold(daemon)

    def tables_for_newcomer(self, giver: Daemon) -> Tables:  # noqa: ARG002
        """Those of the opening of the epoch: the newcomer logs all copies of the epoch itself."""
        return copied(self.opening)

    def forget(self, client: Client) -> None:
        """The client restarts without memory. What it had under way is reported as unknown."""
        client.generation += 1
        client.last.clear()

    # --- logs and tables --------------------------------------------------------------------------

    def fold(self, daemon: Daemon) -> Tables:
        tables: Tables = {}
        for copy in daemon.log:
            self.judge(daemon, tables, copy)
        return tables

    def judge(self, daemon: Daemon, tables: Tables, copy: Copy) -> str:
        group = copy.request.group
        if group not in tables:
            tables[group] = self.new_table(daemon.name)
        return tables[group].log(copy.request)

    def up(self) -> list[Daemon]:
        return [self.daemons[name] for name in self.members if self.daemons[name].up]

    def stable(self) -> int:
        """So many copies are on the disks of all members. Those of closed epochs are."""
        return max(self.base, min(self.daemons[name].durable for name in self.members))

    def log_next(self, daemon: Daemon) -> None:
        copy = self.order[len(daemon.log)]
        daemon.log.append(copy)
        daemon.done.append(self.judge(daemon, daemon.tables, copy))
        self.counts[daemon.done[-1]] += 1
        self.show(daemon)

    def show(self, daemon: Daemon) -> None:
        if daemon.works:
            daemon.stable = min(len(daemon.log), self.stable())
        daemon.seen = max(daemon.seen, daemon.stable if self.safe else len(daemon.log))

    def write(self, daemon: Daemon) -> None:
        daemon.durable, daemon.stored = len(daemon.log), len(daemon.own)

    def cut(self, daemon: Daemon, upto: int) -> None:
        """Take back the tail of a log that the others did not agree on."""
        if len(daemon.log) <= upto:
            return
        if self.safe and daemon.seen > upto:
            raise AssertionError("a message that was delivered at `safe` is taken back")
        self.counts["cut tails"] += 1
        del daemon.log[upto:], daemon.done[upto:]
        daemon.durable, daemon.seen = min(daemon.durable, upto), min(daemon.seen, upto)
        daemon.tables = self.tables_after_cut(daemon)

    # --- clients ----------------------------------------------------------------------------------

    def daemon_of(self, client: Client) -> Daemon | None:
        if client.at is None or client.at not in self.roster or not self.daemons[client.at].up:
            return None
        return self.daemons[client.at]

    def send(self, client: Client) -> None:
        daemon = self.daemon_of(client)
        if daemon is None or len(client.open) >= WINDOW:
            return
        group = self.target()
        prev = client.last[group]
        client.last[group] = prev + 1
        self.bodies += 1
        request = Request(
            client.name, client.generation, prev + 1, prev, self.stamp(daemon, group), group,
            self.bodies, self.floor(client),
        )  # fmt: skip
        client.open.append(request)
        self.accept(client, daemon, request)

    def accept(self, client: Client, daemon: Daemon, request: Request) -> None:
        client.accepted.add(request.name)
        if self.takes(daemon, request):
            daemon.own.append(Copy(daemon.name, request))

    def connect(self, client: Client, daemon: Daemon) -> None:
        client.at = daemon.name
        for request in list(self.repeated(client)):
            self.counts["repeats"] += 1
            self.accept(client, daemon, self.resolved(request))

    def lose_memory(self, client: Client) -> None:
        self.counts["clients without memory"] += 1
        client.open, client.at = [], None
        self.forget(client)

    # --- places and outcomes ----------------------------------------------------------------------

    def place(self, daemon: Daemon) -> None:
        """Give the next own copy a place, stored or not."""
        placed = set(self.order)
        copy = next((copy for copy in daemon.own if copy not in placed), None)
        if copy is None:
            return
        group = copy.request.group
        if group[0] == "@" and not set(group[1:]) <= set(self.roster):
            self.give_up(daemon, copy)
            self.tell(copy, REFUSED)
        elif self.may_place(daemon, copy):
            self.order.append(copy)

    def give_up(self, daemon: Daemon, copy: Copy) -> None:
        index = daemon.own.index(copy)
        del daemon.own[index]
        daemon.stored -= index < daemon.stored

    def report(self, daemon: Daemon) -> None:
        """Tell clients what became of the daemon's own copies, as far as that is stable."""
        mine = set(daemon.own) - daemon.told
        for index, copy in enumerate(self.order[: self.stable()]):
            if copy in mine:
                daemon.told.add(copy)
                tellers = [one for one in self.up() if len(one.done) > index]
                self.tell(copy, self.chance.choice(tellers).done[index])

    def tell(self, copy: Copy, outcome: str) -> None:
        """A client that is not there any more hears nothing, and repeats where it is."""
        name = copy.request.name
        for client in self.clients:
            mine = [one for one in client.open if self.resolved(one).name == name]
            if not mine or client.at != copy.origin:
                continue
            if outcome == GAP:  # it connects anew, and repeats all
                client.at = None
                return
            client.open = [one for one in client.open if one is not mine[0]]
            told = STABLE if outcome in (DELIVER, DUPLICATE) else outcome
            client.outcomes[mine[0].body] = told, len(self.order)

    # --- faults and epochs ------------------------------------------------------------------------

    def crash(self, daemon: Daemon, *, lost: bool) -> None:
        """What is not on the disk is gone; with `lost`, all is. The site can only return by a new
        epoch, and places nothing before that."""
        if daemon.name not in self.roster or not daemon.up:
            return
        self.counts["lost stores" if lost else "crashes"] += 1
        daemon.up = daemon.works = False
        if lost:
            daemon.durable = daemon.stored = 0
            daemon.waits_for_tables = True
        del daemon.own[daemon.stored :]
        del daemon.log[daemon.durable :], daemon.done[daemon.durable :]
        daemon.seen = min(daemon.seen, len(daemon.log))
        daemon.stable = min(daemon.stable, len(daemon.log))
        daemon.told = set()
        for client in self.clients:
            if client.at == daemon.name:
                client.at = None

    def start(self, daemon: Daemon) -> None:
        if not daemon.up:
            daemon.up = True
            if not daemon.waits_for_tables:
                daemon.tables = self.tables_after_restart(daemon)

    def change(self, leaving: str | None = None, apart: str | None = None) -> None:
        """The next epoch. Members that are down, or `apart` from the others, are excluded by a
        flush; whoever else is up is in."""
        there = [name for name in self.roster if self.daemons[name].up and name != apart]
        survivors = [one for one in self.up() if one.name in there and not one.waits_for_tables]
        if not survivors or 2 * len(there) <= len(self.roster):
            return
        peaceful = apart is None and all(self.daemons[name].works for name in self.members)
        end = len(self.order) if peaceful else max(len(one.log) for one in survivors)
        self.counts["epochs" if peaceful else "flushes"] += 1
        end = max(end, self.base)
        del self.order[end:]
        for daemon in survivors:
            while len(daemon.log) < end:
                self.log_next(daemon)
            self.write(daemon)
        self.base = end
        if leaving is not None and peaceful and {one.name for one in survivors} == {*SITES}:
            self.counts["leaves"] += 1
            self.roster = tuple(name for name in self.roster if name != leaving)
        self.opening = copied(survivors[0].tables)
        self.members = tuple(name for name in self.roster if name in there)
        for daemon in self.daemons.values():
            daemon.works = daemon.name in self.members
        for name in self.members:
            daemon = self.daemons[name]
            if daemon.waits_for_tables:
                daemon.log, daemon.done = self.order[:end], list(survivors[0].done)
                daemon.begins = daemon.seen = daemon.durable = daemon.stable = end
            elif daemon not in survivors:
                self.come_back(daemon)

    def come_back(self, daemon: Daemon) -> None:
        """An excluded site cuts what was not agreed on, and catches up with what it missed."""
        common = 0
        while common < min(len(daemon.log), self.base) and (
            daemon.log[common] is self.order[common]
        ):
            common += 1
        self.cut(daemon, common)
        while len(daemon.log) < self.base:
            self.log_next(daemon)
        self.write(daemon)

    def hand_over(self, daemon: Daemon) -> None:
        """A member gives its tables to one that joined without a store."""
        givers = [one for one in self.up() if one.works and not one.waits_for_tables]
        if daemon.waits_for_tables and daemon.works and givers:
            daemon.tables = self.tables_for_newcomer(self.chance.choice(givers))
            daemon.waits_for_tables = False

    # --- a run ------------------------------------------------------------------------------------

    def step(self) -> None:
        daemon = self.daemons[self.chance.choice(SITES)]
        client = self.chance.choice(self.clients)
        what = self.chance.random()
        if 0.50 <= what < 0.68 or what > 0.93:  # in some runs one site logs more than the others
            daemon = self.eager or daemon
        at_work = daemon.works and not daemon.waits_for_tables
        if what < 0.22:
            self.send(client)
        elif what < 0.30:
            if daemon.up and daemon.name in self.roster:
                self.connect(client, daemon)
        elif what < 0.50:
            if at_work:
                self.place(daemon)
        elif what < 0.68:
            if at_work and len(daemon.log) < len(self.order):
                self.log_next(daemon)
        elif what < 0.78:
            if daemon.up:
                self.write(daemon)
                self.show(daemon)
        elif what < 0.86:
            if at_work:
                self.report(daemon)
        elif what < 0.89:
            self.crash(daemon, lost=self.chance.random() < 0.4 and self.may_lose(daemon))
        elif what < 0.92:
            self.start(daemon)
        elif what < 0.96:
            which = self.chance.random()
            leaving = daemon.name if which < 0.1 else None
            self.change(leaving, daemon.name if which > 0.6 else None)
        elif what < 0.99:
            self.hand_over(daemon)
        else:
            self.lose_memory(client)

    def may_lose(self, daemon: Daemon) -> bool:
        """Another member keeps its store: it has all that was ever stable."""
        return any(one.works and not one.waits_for_tables for one in self.up() if one is not daemon)

    def run(self, steps: int = 120) -> "World":
        for _ in range(steps):
            self.step()
        self.calm()
        self.wrong += judged(self)
        return self

    def calm(self) -> None:
        for daemon in self.daemons.values():
            self.start(daemon)
        self.change()
        self.change()
        for client in self.clients:
            if self.daemon_of(client) is None:
                self.connect(client, self.daemons[self.members[0]])
        for _ in range(ROUNDS):
            members = [self.daemons[name] for name in self.members]
            for daemon in members:
                self.hand_over(daemon)
                for _ in range(len(daemon.own)):
                    self.place(daemon)
            for daemon in members:
                while len(daemon.log) < len(self.order):
                    self.log_next(daemon)
                self.write(daemon)
            for daemon in members:
                self.show(daemon)
                self.report(daemon)
            if not any(client.open for client in self.clients):
                return
            for client in self.clients:
                if client.at is None or (client.open and self.chance.random() < 0.3):
                    self.connect(client, self.chance.choice(members))
        self.wrong.append("requests are open after a long calm")


def copied(tables: Tables) -> Tables:
    return {group: table.copy() for group, table in tables.items()}


def judged(world: World) -> list[str]:
    """What is wrong at the end: deliveries twice or out of order, sites that differ, outcomes that
    are not true."""
    wrong: list[str] = []
    members = [world.daemons[name] for name in world.members]
    logs = [
        [
            (index, copy.request)
            for index, copy in enumerate(daemon.log[: daemon.seen])
            if index >= daemon.begins and daemon.done[index] == DELIVER
        ]
        for daemon in members
    ]
    for daemon, log in zip(members, logs, strict=True):
        for many in (Counter(r.body for _, r in log), Counter(r.name for _, r in log)):
            twice = [one for one, often in many.items() if often > 1]
            if twice:
                wrong.append(f"{daemon.name} delivers {twice[0]} twice")
        last: dict[tuple[str, int, str], int] = {}
        for _, request in log:
            stream = request.client, request.generation, request.group
            if request.number < last.get(stream, 0):
                wrong.append(f"{daemon.name} delivers {request.name} out of order")
            last[stream] = request.number
        begins = max(daemon.begins, members[0].begins)
        if [one for one in log if one[0] >= begins] != [one for one in logs[0] if one[0] >= begins]:
            wrong.append(f"{daemon.name} and {members[0].name} deliver different requests")
    complete = min(members, key=lambda one: one.begins)
    where = {request.body: index for index, request in logs[members.index(complete)]}
    for client in world.clients:
        for body, (outcome, told_at) in client.outcomes.items():
            index = where.get(body)
            if outcome == STABLE and index is None and complete.begins == 0:
                wrong.append(f"{client.name}'s {body} is told stable and was not delivered")
            elif outcome != STABLE and index is not None and index >= told_at:
                wrong.append(f"{client.name}'s {body} is told {outcome}, and delivered after that")
    return wrong
