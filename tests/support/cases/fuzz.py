"""Small histories from a seed: right ones, the same with a fault planted, and plain noise.

A right history is one total order per epoch, restricted to each site's groups, with everything
that is no violation: crashes, exclusions with and without return, rollbacks, catch-up, snapshots,
joiners, truncated beginnings, gaps, several epochs, domains, incarnations, clients. `faults.py`
plants.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from ordercast.history.rows import (
    Delivered,
    EpochRow,
    Event,
    GroupRow,
    History,
    Sent,
    gap_detail,
)
from ordercast.model.messages import MessageId

AnyRow = TypeVar("AnyRow", Sent, Delivered)
FATES = ("steady", "steady", "steady", "crash", "cut off", "return", "snapshot", "join")
OUTSIDER = "z"  # an origin in no group
DIGESTS = 1_000
CLIENTS = ("00" * 16, "7f" * 16, "ee" * 16)


@dataclass
class Site:
    """A site while a history is made: its rows so far and its events."""

    name: str
    fate: str
    leaves: int = 0  # the epoch in which it is cut off or crashes (0: never)
    comes: int = 0  # the epoch in which it joins or returns (0: never)
    attempt: int = 1
    position: int = 0
    rows: list[Delivered] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    owed: list[tuple[int, MessageId]] = field(default_factory=list)  # placed while it was away
    kept: int = 0  # the position it had when it was cut off

    def tell(self, kind: str, epoch: int, detail: str = "{}", position: int | None = None) -> None:
        at = self.position if position is None else position
        n = len(self.events) + 1
        self.events.append(Event(self.name, n, kind, at, self.attempt, epoch, n, detail))

    def deliver(self, epoch: int, message: MessageId) -> None:
        self.position += 1
        self.rows.append(
            Delivered(
                self.name,
                self.position,
                self.attempt,
                epoch,
                message.group,
                message.origin,
                message.incarnation,
                message.seq,
                len(self.rows),
                digest_of(message),
            )
        )

    def is_away(self, epoch: int) -> bool:
        return (
            bool(self.leaves) and epoch > self.leaves and not (self.comes and epoch >= self.comes)
        )

    def is_known(self, epoch: int) -> bool:
        return self.fate != "join" or epoch >= self.comes


def digest_of(message: MessageId) -> int:
    origin, incarnation, group, seq = message
    return (sum(map(ord, origin + group)) * 31 + incarnation * 17 + seq) % DIGESTS


def right_history(rng: random.Random) -> History:
    """A history without a violation, causal order included."""
    history = History()
    names = list("abcdefgh"[: rng.randint(2, 6)])
    split = rng.randint(2, len(names)) if rng.random() < 0.2 else len(names)
    domains = [names[:split], names[split:]] if split < len(names) else [names]
    epochs = list(range(1, rng.randint(1, 3) * len(domains) + 1))
    for number, own in enumerate(domains):
        _Domain(rng, history, f"d{number}", own, epochs[number :: len(domains)]).make()
    _name_clients(random.Random(rng.random()), history)
    return history


def _name_clients(rng: random.Random, history: History) -> None:
    """In half of the histories clients asked for most of the messages, for one or several at a
    time; some rows do not say so."""
    if rng.random() < 0.5:
        return
    asked: dict[MessageId, dict[str, str | int]] = {}
    last = dict.fromkeys(CLIENTS, 0)
    streams: dict[tuple[str, int, str], list[MessageId]] = {}
    for sent in history.sent:
        streams.setdefault(sent.id[:3], []).append(sent.id)
    for messages in streams.values():
        while messages:
            client = rng.choice((*CLIENTS, None))
            part, messages = messages[: (size := rng.randint(1, 3))], messages[size:]
            if client is not None:
                last[client] += rng.randint(1, 2)
                for place, message in enumerate(part):
                    asked[message] = {"client": client, "request": last[client], "part": place}
    history.sent = [msgspec.structs.replace(row, **asked.get(row.id, {})) for row in history.sent]
    history.deliveries = [
        msgspec.structs.replace(row, **asked.get(row.id, {})) if rng.random() < 0.9 else row
        for row in history.deliveries
    ]


class _Domain:
    def __init__(
        self, rng: random.Random, history: History, name: str, names: list[str], epochs: list[int]
    ) -> None:
        self.rng = rng
        self.history = history
        self.name = name
        self.epochs = epochs
        self.sites = {site: self._site(site) for site in names}
        self.groups = {
            f"g{name}{i}": sorted(rng.sample(names, rng.randint(1, len(names))))
            for i in range(rng.randint(1, 4))
        }
        self.total: list[MessageId] = []  # in the order in which they are placed
        self.levels: dict[int, str] = {}
        self.resend: list[MessageId] = []
        self.seqs: dict[tuple[str, int, str], int] = {}
        self.incarnations = dict.fromkeys([*names, OUTSIDER + name], 1)

    def _site(self, name: str) -> Site:
        fate = self.rng.choice(FATES)
        first, last = self.epochs[0], self.epochs[-1]
        if fate == "crash":
            return Site(name, fate, leaves=self.rng.choice(self.epochs))
        if fate == "cut off" and first != last:
            return Site(name, fate, leaves=self.rng.choice(self.epochs[:-1]))
        if fate in ("return", "snapshot") and first != last:
            leaves = self.rng.randrange(len(self.epochs) - 1)
            comes = self.rng.randrange(leaves + 1, len(self.epochs))
            return Site(name, fate, self.epochs[leaves], self.epochs[comes])
        if fate == "join" and first != last:
            return Site(name, fate, comes=self.rng.choice(self.epochs[1:]))
        return Site(name, "steady")

    def make(self) -> None:
        for epoch in self.epochs:
            self._open(epoch)
            self._run(epoch)
        for site in self.sites.values():
            self._close(site)
        self._write()

    def _open(self, epoch: int) -> None:
        self.levels[epoch] = self.rng.choice(("safe", "agreed"))
        self.history.epochs.append(
            EpochRow(epoch, self.name, self.levels[epoch], "exclude", "propagation", "fuzz", epoch)
        )
        for group, members in self.groups.items():
            for name in members:
                site = self.sites[name]
                if site.is_known(epoch):
                    self.history.groups.append(
                        GroupRow(epoch, group, name, not site.is_away(epoch))
                    )
        for site in self.sites.values():
            if site.leaves and site.is_away(epoch) and not site.is_away(self._before(epoch)):
                site.tell("excluded", self.rng.choice((site.leaves, epoch)))
            if site.comes == epoch:
                self._come(site, epoch)

    def _before(self, epoch: int) -> int:
        at = self.epochs.index(epoch)
        return self.epochs[at - 1] if at else 0

    def _come(self, site: Site, epoch: int) -> None:
        if site.fate == "join":
            site.tell("base", epoch)
            return
        if site.position > site.kept or self.rng.random() < 0.3:
            site.attempt += 1
            site.position = site.kept
            site.tell("rollback", epoch)
        if site.fate == "snapshot":
            site.position += len(site.owed)
            site.tell("base", epoch)
        else:
            for placed, message in site.owed:
                site.deliver(placed, message)
        site.owed = []
        site.tell("returned", epoch)

    def _run(self, epoch: int) -> None:
        resent, self.resend = self.resend, []
        groups = self._usable(epoch)
        placed = resent + [
            self._message(epoch, groups) for _ in range(self.rng.randint(0, 8) if groups else 0)
        ]
        leavers = [site for site in self.sites.values() if site.leaves == epoch]
        tails = {site.name: self._tail(site, epoch) for site in leavers}
        cuts = {site.name: self.rng.randint(0, len(placed)) for site in leavers}
        for i, message in enumerate(placed):
            self.total.append(message)
            for name in self.groups[message.group]:
                site = self.sites[name]
                if not site.is_known(epoch):
                    continue
                if site.is_away(epoch) or (site.leaves == epoch and i >= cuts[name]):
                    site.owed.append((epoch, message))
                else:
                    site.deliver(epoch, message)
        for site in leavers:
            if site.fate == "crash":
                site.tell("crash", epoch)
            site.kept = site.position
            for message in tails[site.name]:
                site.deliver(epoch, message)

    def _senders(self, epoch: int) -> list[str]:
        here = [
            site.name
            for site in self.sites.values()
            if site.is_known(epoch) and not site.is_away(epoch)
        ]
        return [*here, OUTSIDER + self.name]

    def _usable(self, epoch: int) -> list[str]:
        """Groups with a live member; none that loses all of them and is joined by others later.

        (The past of such a group is not settled, so nobody may join it.)
        """

        def is_usable(members: list[str]) -> bool:
            known = [self.sites[m] for m in members if self.sites[m].is_known(epoch)]
            live = [site for site in known if not site.is_away(epoch)]
            return any(site.leaves != epoch for site in live) or (
                bool(live) and len(known) == len(members)
            )

        return [group for group, members in self.groups.items() if is_usable(members)]

    def _message(self, epoch: int, groups: list[str]) -> MessageId:
        origin = self.rng.choice(self._senders(epoch))
        group = self.rng.choice(groups)
        if self.rng.random() < 0.05:
            self.incarnations[origin] += 1
        incarnation = self.incarnations[origin]
        seq = self.seqs.get((origin, incarnation, group), 0) + 1
        self.seqs[origin, incarnation, group] = seq
        return MessageId(origin, incarnation, group, seq)

    def _tail(self, site: Site, epoch: int) -> list[MessageId]:
        """What a cut-off site delivers too early at level `agreed`; placed in the next epoch."""
        if self.levels[epoch] != "agreed" or site.fate == "crash" or self.resend:
            return []
        after = self.epochs[self.epochs.index(epoch) + 1]
        groups = [group for group in self._usable(epoch) if group in self._usable(after)]
        count = self.rng.randint(0, 3) if groups else 0
        self.resend = [self._message(epoch, groups) for _ in range(count)]
        tail = [
            message
            for message in self.resend
            if site.name in self.groups[message.group] and self.rng.random() < 0.8
        ]
        # FIFO, but not in the order in which they will be placed
        return sorted(tail, key=lambda message: (message.group, message.origin), reverse=True)

    def _close(self, site: Site) -> None:
        back = site.comes and site.fate != "crash"
        if (site.leaves and not back) or self.rng.random() < 0.15:
            if not site.leaves and self.rng.random() < 0.5:
                del site.rows[len(site.rows) - self.rng.randint(0, min(2, len(site.rows))) :]
            return
        site.tell("end", self.epochs[-1])

    def _write(self) -> None:
        for message in self.resend:  # nobody was there to place them again
            self.total.append(message)
        if self.rng.random() < 0.3:
            site = self.sites[self.rng.choice(list(self.sites))]
            if not site.events or site.events[-1].kind != "end":
                self.total.append(self._unplaced(site.name))
        for site in self.sites.values():
            _make_gaps(self.rng, site)
            _truncate(self.rng, site)
            self.history.deliveries += site.rows
            self.history.events += site.events
        self.history.sent += _sends(self.rng, self.total, self.sites)

    def _unplaced(self, origin: str) -> MessageId:
        """Accepted by an origin that was not up at the end, and delivered nowhere."""
        group = self.rng.choice(list(self.groups))
        incarnation = self.incarnations[origin]
        seq = self.seqs.get((origin, incarnation, group), 0) + 1
        return MessageId(origin, incarnation, group, seq)


def _make_gaps(rng: random.Random, site: Site) -> None:
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        if site.rows:
            row = site.rows.pop(rng.randrange(len(site.rows)))
            gap = Event(site.name, 0, "gap", row.position, row.attempt, row.epoch, 0)
            site.events.insert(0, msgspec.structs.replace(gap, detail=gap_detail(row.id)))
    site.events = [msgspec.structs.replace(e, n=n) for n, e in enumerate(site.events, 1)]


def _truncate(rng: random.Random, site: Site) -> None:
    """Forget the first rows, as retention does; a site that rolled back keeps all."""
    if rng.random() < 0.85 or len(site.rows) < 2 or site.attempt > 1:
        return
    count = rng.randint(1, len(site.rows) - 1)
    last, first = site.rows[count - 1], site.rows[count]
    if first.position != last.position + 1:
        return
    epoch = rng.choice((last.epoch, first.epoch, 0 if last.epoch == first.epoch else first.epoch))
    site.rows = site.rows[count:]
    base = Event(site.name, 1, "base", last.position, 1, epoch, 0)
    later = [msgspec.structs.replace(e, n=e.n + 1) for e in site.events]
    site.events = [base, *later]


def _sends(rng: random.Random, total: list[MessageId], sites: dict[str, Site]) -> list[Sent]:
    """Each origin had delivered some of what was placed before its message, and ever more."""
    placed = {message: i for i, message in enumerate(total)}
    seen: dict[str, int] = {}
    sent = []
    time = 0
    last_origin = ""
    for i, message in enumerate(total):
        rows = sites[message.origin].rows if message.origin in sites else []
        known = [row for row in rows if placed[row.id] < i and row.attempt == 1]
        usable = 0
        while usable < len(known) and known[usable] is rows[usable]:
            usable += 1
        count = seen[message.origin] = rng.randint(min(seen.get(message.origin, 0), usable), usable)
        after = (rows[count - 1].position, rows[count - 1].attempt) if count else (0, 0)
        if message.origin != last_origin or rng.random() < 0.7:
            time += rng.randint(1, 9)
        last_origin = message.origin
        digest = digest_of(message)
        sent.append(Sent(*message, *after, time, 8, digest))
    return sent


def noise(rng: random.Random) -> History:
    """Rows drawn at random from so few values that everything collides with everything."""
    sites = "abcd"[: rng.randint(2, 4)]
    groups = ["g", "h", "k"][: rng.randint(1, 3)]
    epochs = rng.randint(1, 3)
    history = History()
    for epoch in range(1, epochs + 1):
        level = rng.choice(("safe", "agreed"))
        history.epochs.append(EpochRow(epoch, "d", level, "exclude", "none", "noise", 0))
        for group in groups:
            for site in sites:
                if rng.random() < 0.7:
                    history.groups.append(GroupRow(epoch, group, site, rng.random() < 0.8))
    for _ in range(rng.randint(1, 8)):
        message = MessageId(
            rng.choice(sites), rng.randint(1, 2), rng.choice(groups), rng.randint(1, 3)
        )
        after = (rng.randint(0, 4), rng.randint(0, 2))
        digest = rng.choice((None, digest_of(message)))
        history.sent.append(Sent(*message, *after, rng.randint(0, 5), 8, digest))
    ids = [sent.id for sent in history.sent]
    for site in sites:
        for position in range(1, rng.randint(1, 7)):
            message = rng.choice(ids)
            at = position if rng.random() < 0.9 else rng.randint(0, 7)
            digest = digest_of(message) if rng.random() < 0.9 else rng.choice((None, 7))
            history.deliveries.append(
                Delivered(
                    site,
                    at,
                    rng.choice((1, 1, 2)),
                    rng.randint(1, epochs),
                    message.group,
                    message.origin,
                    message.incarnation,
                    message.seq,
                    rng.randint(0, 9),
                    digest,
                )
            )
        for n in range(1, rng.randint(1, 5)):
            kind = rng.choice(("base", "rollback", "excluded", "returned", "gap", "end", "end"))
            detail = gap_detail(rng.choice(ids)) if kind == "gap" else "{}"
            place = (rng.randint(0, 6), rng.randint(0, 3), rng.randint(0, epochs))
            history.events.append(Event(site, n, kind, *place, 0, detail))
    rng.shuffle(history.deliveries)
    if rng.random() < 0.7:
        history.sent = [_asked_at_random(rng, row) for row in history.sent]
        history.deliveries = [_asked_at_random(rng, row) for row in history.deliveries]
    return history


def _asked_at_random(rng: random.Random, row: AnyRow) -> AnyRow:
    if rng.random() < 0.6:
        return row
    asked = {"client": rng.choice(CLIENTS), "request": rng.randint(1, 3), "part": rng.randint(0, 1)}
    return msgspec.structs.replace(row, **asked)


def named(history: History, run: str) -> History:
    """The same history as the run of that name."""

    def rename(rows: Iterable[msgspec.Struct]) -> list[msgspec.Struct]:
        return [msgspec.structs.replace(row, run=run) for row in rows]

    tables = {name: rename(rows) for name, rows in history.tables().items()}
    return History(**tables, meta=history.meta)  # type: ignore[arg-type]


def together(histories: Iterable[History]) -> History:
    """Several runs in one history."""
    whole = History()
    for history in histories:
        whole.groups += history.groups
        whole.sent += history.sent
        whole.deliveries += history.deliveries
        whole.events += history.events
        whole.epochs += history.epochs
    return whole
