"""Members through changing epochs on a hostile network in virtual time, and the judge of the run.

Smaller than the simulator, and nearer to the object: a crash may come between any two duties of an
outbox, each member's disk is the list of its records, and all of it is a function of the seed.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.member import REFUSED, Member
from ordercast.core.epochs.records import EpochOpened, MemberBox, MemberRecord
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.star import build_star
from ordercast.model.epochs import (
    AddGroup,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    UseBuilder,
    UseProtocol,
)
from ordercast.model.errors import Error
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, SECOND, Limits, Options

Message = tuple[str, int, str, int]
Seen = tuple[int, Message, bytes]  # epoch, id, payload

_DUTIES = 5  # points in an outbox at which a crash may come


def build(table: GroupTable, builder: str, protocol: str) -> Forest:
    if protocol == "centralized" or builder == "star":
        return build_star(table)
    return build_greedy(table)


class World:
    """`loss`: also of doubling and delay; `crash`: chance per outbox. Calm after `calm_at`."""

    def __init__(
        self,
        groups: Mapping[str, Sequence[str]],
        sites: Sequence[str],
        voters: Sequence[str],
        *,
        seed: int = 1,
        loss: float = 0.0,
        crash: float = 0.0,
        deliver: str = "safe",
        builder: str = "greedy",
        make: Callable[..., Member] = Member,
    ) -> None:
        self.draw = random.Random(seed)
        self.loss = loss
        self.crash_chance = crash
        self.calm_at = 1 << 62
        self.now = 0
        self.make = make
        self.first: Layout = first_layout(
            sites, voters, {g: tuple(m) for g, m in groups.items()}, builder, "propagation", build
        )
        self.options = Options(
            deliver=deliver, on_failure="wait", limits=Limits(checkpoint_batches=16)
        )
        self.members: dict[str, Member] = {}
        self.disks: dict[str, list[MemberRecord]] = {site: [] for site in sites}
        self.boots: dict[str, int] = {}
        self.seen: dict[str, list[Seen]] = {site: [] for site in sites}
        self.opened: dict[str, list[EpochOpened]] = {site: [] for site in sites}
        self.stages: dict[tuple[str, str, int], set[str]] = {}
        self.outcomes: dict[str, str] = {}
        self.epochs: dict[int, tuple[Any, ...]] = {}
        self.violations: list[tuple[Any, ...]] = []
        self.crashes = self.events = 0
        self._alarms: dict[str, int | None] = {}
        self._heap: list[tuple[int, int, str, Any, Any, Any]] = []
        self._tick = itertools.count()
        for site in sites:
            self.start(site)

    # --- running ----------------------------------------------------------------------------------

    def start(self, site: str) -> None:
        self.boots[site] = self.boots.get(site, 0) + 1
        member = self.make(
            site,
            self.first,
            self.options,
            build,
            boot=self.boots[site],
            store=1 + sorted(self.disks).index(site),
            records=list(self.disks[site]),
        )
        self.members[site] = member
        member.start(self.now)
        self.drain(site)

    def crash(self, site: str, away: int | None = None) -> None:
        self.members.pop(site, None)
        self._alarms.pop(site, None)
        self.crashes += 1
        away = self.draw.randint(1, 800) * MILLISECOND if away is None else away
        self._push(self.now + away, "start", site)

    def submit(self, site: str, group: str, payload: bytes) -> None:
        member = self.members.get(site)
        if member is None:
            return
        try:
            member.submit(self.now, group, [payload])
        except Error:
            return
        self.drain(site)

    def ask(self, site: str, change: str, *edits: Edit) -> None:
        member = self.members.get(site)
        if member is not None:
            member.ask(self.now, change, tuple(edits))
            self.drain(site)

    def at(self, when: int, call: Callable[[], None]) -> None:
        self._push(when, "call", call)

    def run(self, until: int) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.now, _, kind, a, b, c = heapq.heappop(self._heap)
            self.events += 1
            if kind == "frame":
                if a in self.members:
                    self.members[a].receive(self.now, b, c)
                    self.drain(a)
            elif kind == "alarm":
                alarm = self._alarms.get(a)
                if a in self.members and alarm is not None and alarm <= self.now:
                    self.members[a].alarm(self.now)
                    self.drain(a)
            elif kind == "start":
                if a not in self.members:
                    self.start(a)
            else:
                a()
        self.now = until

    def settle(self, limit: int = 60 * SECOND) -> None:
        """Faults stop; until all is quiet, or the limit is reached."""
        self.calm_at, self.crash_chance = self.now, 0.0
        end = self.now + limit
        while self.now < end:
            self.run(self.now + SECOND)
            if self.quiet():
                break

    def quiet(self) -> bool:
        counts = {
            member.layout.count
            for site, member in self.members.items()
            if site in member.layout.roster
        }
        return (
            len(self.members) == len(self.disks)
            and len(counts) == 1
            and all(member.quiet() for member in self.members.values())
        )

    # --- an outbox's duties -----------------------------------------------------------------------

    def drain(self, site: str) -> None:
        member = self.members[site]
        box = member.drain()
        hit = self.now < self.calm_at and self.draw.random() < self.crash_chance
        cut = self.draw.randrange(_DUTIES) if hit else _DUTIES
        for duty in (self._send, self._persist, self._then_send, self._deliver, self._forget):
            if cut == 0:
                self.crash(site)
                return
            cut -= 1
            duty(site, box)
        self._alarms[site] = box.alarm
        if box.alarm is not None:
            self._push(max(box.alarm, self.now), "alarm", site)

    def _send(self, site: str, box: MemberBox) -> None:
        self._transmit(site, box.send)

    def _persist(self, site: str, box: MemberBox) -> None:
        self.disks[site].extend(box.persist)
        for epoch, domain in self.members[site].layout.domains.items():
            what = (dict(domain.structure.groups), domain.protocol, domain.builder)
            if self.epochs.setdefault(epoch, what) != what:
                self.violations.append(("one decision per number", epoch, site))

    def _then_send(self, site: str, box: MemberBox) -> None:
        self._transmit(site, box.then_send)

    def _deliver(self, site: str, box: MemberBox) -> None:
        seen = self.seen[site]
        for item in box.deliver:
            if isinstance(item, EpochOpened):
                self.opened[site].append(item)
                continue
            for delivery in item.deliveries():
                row: Seen = (delivery.epoch, delivery.id, delivery.payload)
                if delivery.position == len(seen) + 1:
                    seen.append(row)
                elif delivery.position > len(seen):
                    self.violations.append(("hole", site, delivery.position, len(seen)))
                elif seen[delivery.position - 1] != row:
                    self.violations.append(("redelivery", site, delivery.position))
        for receipt in box.receipts:
            for seq in range(receipt.seq, receipt.seq + receipt.count):
                self.stages.setdefault((site, receipt.group, seq), set()).add(receipt.stage)
        self.outcomes.update(box.outcomes)

    def _forget(self, site: str, box: MemberBox) -> None:
        if box.forget is not None:
            self.disks[site] = [box.forget]

    def _transmit(self, site: str, sends: Sequence[tuple[str, Any]]) -> None:
        faulty = self.now < self.calm_at and self.loss > 0
        for peer, frame in sends:
            if faulty and self.draw.random() < self.loss:
                continue
            for _ in range(2 if faulty and self.draw.random() < self.loss / 2 else 1):
                delay = self.draw.randint(100_000, 2 * MILLISECOND)
                if faulty and self.draw.random() < self.loss:
                    delay *= self.draw.randint(1, 60)
                self._push(self.now + delay, "frame", peer, site, frame)

    def _push(self, when: int, kind: str, a: Any, b: Any = None, c: Any = None) -> None:
        heapq.heappush(self._heap, (when, next(self._tick), kind, a, b, c))

    # --- judging ----------------------------------------------------------------------------------

    def judge(self) -> list[tuple[Any, ...]]:
        """Every violation; for a run that has settled."""
        found = list(self.violations)
        place: dict[Message, tuple[int, bytes]] = {}
        order: dict[str, dict[Message, int]] = {}
        for site, seen in self.seen.items():
            order[site] = {message: n for n, (_, message, _) in enumerate(seen)}
            if len(order[site]) != len(seen):
                found.append(("twice", site))
            epochs = [epoch for epoch, _, _ in seen]
            if epochs != sorted(epochs):
                found.append(("epochs go down", site))
            last: dict[tuple[str, str], int] = {}
            for epoch, message, payload in seen:
                origin, _, group, seq = message
                if seq <= last.get((origin, group), 0):
                    found.append(("fifo", site, message))
                last[origin, group] = seq
                if place.setdefault(message, (epoch, payload)) != (epoch, payload):
                    found.append(("two epochs", message))
                if site not in self.epochs[epoch][0].get(group, ()):
                    found.append(("no member", site, message, epoch))
        for message, (epoch, _) in place.items():
            found.extend(
                ("agreement", member, message, epoch)
                for member in self.epochs[epoch][0].get(message[2], ())
                if message not in order[member]
            )
        for a, b in itertools.combinations(order, 2):
            common = [order[b][message] for message in order[a] if message in order[b]]
            if common != sorted(common):
                found.append(("order", a, b))
        for (site, group, seq), stages in self.stages.items():
            there = (site, 1, group, seq) in place
            if "accepted" in stages and REFUSED not in stages and not there:
                found.append(("lost", site, group, seq))
            if there and REFUSED in stages:
                found.append(("refused and delivered", site, group, seq))
        if not self.quiet():
            found.append(("not quiet", sorted(set(self.disks) - set(self.members))))
        found.extend(self._logs_differ())
        return found

    def _logs_differ(self) -> list[tuple[Any, ...]]:
        """Voters' logs agree as far as they are committed."""
        known: dict[int, Any] = {}
        found: list[tuple[Any, ...]] = []
        for site, member in self.members.items():
            raft = member.raft
            found.extend(
                ("voters' logs differ", site, index)
                for index in range(raft.log.snapshot.upto + 1, raft.committed + 1)
                if known.setdefault(index, raft.log.entry(index)) != raft.log.entry(index)
            )
        return found


def schedule(seed: int, make: Callable[..., Member] = Member) -> World:
    """A run drawn from the seed: a few groups, sends and changes under faults, then calm."""
    draw = random.Random(seed * 7 + 1)
    sites = list("abcdefgh")[: draw.randint(4, 8)]
    groups = {f"g{n}": draw.sample(sites, draw.randint(1, 4)) for n in range(draw.randint(2, 4))}
    world = World(
        groups,
        sites,
        draw.sample(sites, draw.choice([1, 3, 3, 3])),
        seed=seed,
        loss=draw.choice([0, 0, 0.05, 0.2]),
        crash=draw.choice([0, 0, 0.002, 0.01]),
        deliver=draw.choice(["safe", "agreed"]),
        builder=draw.choice(["greedy", "star"]),
        make=make,
    )

    def send(number: int) -> None:
        member = world.members.get(draw.choice(sites))
        if member is not None and member.layout.groups:
            group = draw.choice(sorted(member.layout.groups))
            world.submit(member.name, group, b"%d" % number)

    def change(number: int) -> None:
        member = world.members.get(draw.choice(sites))
        edit = None if member is None else draw_edit(draw, member.layout, sites, number)
        if member is not None and edit is not None:
            world.ask(member.name, f"change {number}", edit)

    for number in range(draw.randint(20, 100)):
        world.at(draw.randint(SECOND // 2, 3 * SECOND), lambda n=number: send(n))  # type: ignore[misc]
    for number in range(draw.randint(1, 6)):
        world.at(draw.randint(SECOND, 5 * SECOND // 2), lambda n=number: change(n))  # type: ignore[misc]
    world.run(3 * SECOND)
    world.settle()
    return world


def draw_edit(draw: random.Random, layout: Layout, sites: list[str], number: int) -> Edit | None:
    groups = sorted(layout.groups)
    kind = draw.randrange(7)
    if kind == 0:
        return AddGroup(f"n{number}", tuple(draw.sample(sites, draw.randint(1, 3))))
    if kind == 1:
        return UseBuilder(draw.choice(["greedy", "star"]), draw.choice([*sites, ""]))
    if kind == 2:
        return UseProtocol(draw.choice(["propagation", "centralized"]), draw.choice([*sites, ""]))
    if not groups:
        return None
    group = draw.choice(groups)
    if kind == 3:
        return LeaveGroup(group, draw.choice(layout.groups[group]))
    if kind == 4 and len(groups) > 1:
        return RemoveGroup(group)
    return JoinGroup(group, draw.choice(sites))
