"""Members through changing epochs on a hostile network in virtual time, and the judge of the run.

Smaller than the simulator, and nearer to the object: a crash may come between any two duties of an
outbox, each member's disk is the list of its records, and all of it is a function of the seed.
"""

import heapq
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ordercast.core.epochs.layout import Layout, first_layout, nowhere
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import (
    Confirmed,
    EpochOpened,
    Filled,
    Folded,
    MemberBox,
    MemberRecord,
)
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metagroups import build_metagroups
from ordercast.forest.star import build_star
from ordercast.model.epochs import Edit
from ordercast.model.errors import ConfigError, Error
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Delivery
from ordercast.model.options import MILLISECOND, NEVER, SECOND, Limits, Options, Timing
from ordercast.wire.epochs import Fed, Knock
from support.judges.epoch_judge import Seen, judge

_DUTIES = 5  # points in an outbox at which a crash may come


def build(table: GroupTable, builder: str, protocol: str) -> Forest:
    if builder not in ("greedy", "star"):
        raise ConfigError(f"there is no builder {builder!r}")
    if protocol == "centralized" or builder == "star":
        return build_star(table)
    if protocol == "metagroup":
        return build_metagroups(table)
    return build_greedy(table)


class World:
    """`loss`: also of doubling and delay; `crash`: chance per outbox, more while a change is under
    way. Calm after `calm_at`."""

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
        causal: bool = False,
        builder: str = "greedy",
        protocol: str = "propagation",
        checkpoint_batches: int = 16,
        log_entries: int = 128,
        burst: float = 0.0,
        policy: str = "wait",
        slow_member: str = "wait",
        missed_bytes: int = Limits().missed_bytes,
        stability: str = "plain",
        make: Callable[..., Member] = Member,
    ) -> None:
        self.draw = random.Random(seed)
        self._knocking = random.Random(seed)  # how often sites knock does not change the rest
        self.loss = loss
        self.crash_chance = crash
        self.calm_at = 1 << 62
        self.now = 0
        self.make = make
        self.first: Layout = first_layout(
            sites, voters, {g: tuple(m) for g, m in groups.items()}, builder, protocol, build,
            whole=causal, open_groups=False, causal=causal,
        )  # fmt: skip
        self.newcomers: set[str] = set()
        self.options = Options(
            deliver=deliver,
            on_failure=policy,
            causal=causal,
            slow_member=slow_member,
            stability=stability,
            limits=Limits(checkpoint_batches=checkpoint_batches, missed_bytes=missed_bytes),
            timing=Timing(suspect=300 * MILLISECOND),
        )
        self.log_entries = log_entries
        self.burst = burst  # chance that a site takes more calls before it is drained
        self._bursting: set[str] = set()
        self.members: dict[str, Member] = {}
        self.disks: dict[str, list[MemberRecord]] = {site: [] for site in sites}
        self.boots: dict[str, int] = {}
        self.seen: dict[str, list[Seen]] = {site: [] for site in sites}
        self.opened: dict[str, list[EpochOpened]] = {site: [] for site in sites}
        self.stages: dict[tuple[str, str, int], set[str]] = {}
        self.copied: dict[tuple[str, str, int], bytes] = {}  # copies of producers' messages
        self.listed: dict[str, tuple[str, ...]] = {}  # members of implicit groups
        self.before: dict[tuple[str, str, int], int] = {}  # deliveries at the origin, by message
        self.payloads: dict[tuple[str, str, int], bytes] = {}  # of the last with this number
        self.cut: set[frozenset[str]] = set()
        self.deaf: set[tuple[str, str]] = set()  # (from, to): frames that are lost on the way
        self.stores: dict[str, int] = {}
        self.outcomes: dict[str, str] = {}
        self.epochs: dict[int, tuple[Any, ...]] = {}
        self.nominal: dict[int, dict[str, tuple[str, ...]]] = {}  # absent members included
        self.attempts: dict[str, int] = {}
        self.rollbacks: list[tuple[str, Rollback]] = []
        self.lost: dict[str, int] = {}  # how often a site's store was lost
        self.lapses: dict[str, dict[int, None]] = {}  # epochs that a site missed for good
        self.first_epoch: dict[str, int] = {}  # the first epoch of a site after its store was lost
        self.down: set[str] = set()  # for good
        self.ever: set[Any] = set()  # all that was delivered anywhere
        self.violations: list[tuple[Any, ...]] = []
        self.crashes = self.crashes_within = self.events = self.partitions = 0
        self._alarms: dict[str, int] = {}
        self._heap: list[tuple[int, int, str, Any, Any, Any]] = []
        self._tick = itertools.count()
        self._store_numbers = itertools.count(1)
        for site in sites:
            self.start(site)

    # --- running ----------------------------------------------------------------------------------

    def start(self, site: str) -> None:
        self.boots[site] = self.boots.get(site, 0) + 1
        member = self.make(
            site,
            nowhere(self.first.voters) if site in self.newcomers else self.first,
            self.options,
            build,
            boot=self.boots[site],
            store=self.stores.setdefault(site, next(self._store_numbers)),
            records=list(self.disks[site]),
        )
        member.manager.log_entries = self.log_entries
        self.members[site] = member
        self._bursting.discard(site)
        member.start(self.now)
        self.drain(site)

    def add(self, site: str) -> None:
        """A machine that was not there: no disk, and nothing known but the first voters."""
        if site not in self.disks:
            self.newcomers.add(site)
            self.disks[site], self.seen[site], self.opened[site] = [], [], []
            self.start(site)

    def crash(self, site: str, away: int | None = None) -> None:
        member = self.members.pop(site, None)
        if member is not None and member.layout.flushing is not None:
            self.crashes_within += 1
        self._alarms.pop(site, None)
        self.crashes += 1
        away = self.draw.randint(1, 800) * MILLISECOND if away is None else away
        self._push(self.now + away, "start", site)

    def lose(self, site: str, away: int | None = None) -> None:
        """The machine is gone, and what its application had seen: another comes in its place."""
        self.crash(site, away)
        self.disks[site], self.seen[site], self.opened[site] = [], [], []
        self.stores.pop(site)
        self.attempts.pop(site, None)
        self.lost[site] = self.lost.get(site, 0) + 1
        self.first_epoch[site] = NEVER
        self.stages = {key: stages for key, stages in self.stages.items() if key[0] != site}
        self.before = {key: count for key, count in self.before.items() if key[0] != site}
        self.payloads = {key: one for key, one in self.payloads.items() if key[0] != site}
        self.copied = {key: one for key, one in self.copied.items() if key[0] != site}

    def submit(self, site: str, group: str, *payloads: bytes) -> None:
        self._submit(
            site, lambda member: (group, member.submit(self.now, group, [*payloads])), payloads
        )

    def submit_to(self, site: str, sites: Sequence[str], *payloads: bytes) -> None:
        group = self._submit(
            site, lambda member: member.submit_to(self.now, sites, [*payloads]), payloads
        )
        self.listed[group] = tuple(sites)

    def _submit(
        self, site: str, call: Callable[[Member], tuple[str, int]], payloads: Sequence[bytes]
    ) -> str:
        member = self.members.get(site)
        if member is None:
            return ""
        try:
            group, seq = call(member)
        except Error:
            return ""
        for number, payload in enumerate(payloads, start=seq):
            sent = site, group, number
            for known in (self.before, self.stages, self.copied):
                known.pop(sent, None)  # a refused number: sent now, not then
            self.payloads[sent] = payload
        self.before[site, group, seq] = len(self.seen[site])
        self.drain(site)
        return group

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
                    if not isinstance(c, Knock):
                        self._drain_soon(a)
                    elif a not in self._bursting:
                        self.drain(a)
            elif kind == "alarm":
                if a in self.members and self._alarms.get(a, NEVER) <= self.now:
                    self.members[a].alarm(self.now)
                    self.drain(a)
            elif kind == "drain":
                if a in self.members and a in self._bursting:
                    self.drain(a)
            elif kind == "start":
                if a not in self.members and a not in self.down:
                    self.start(a)
            else:
                a()
        self.now = until

    def settle(self, limit: int = 60 * SECOND, step: int = SECOND) -> None:
        """Faults stop; until all is quiet, looked at after each step, or the limit is reached."""
        self.calm_at = self.now
        end = self.now + limit
        while self.now < end:
            self.run(self.now + step)
            if self.quiet():
                break

    def quiet(self) -> bool:
        counts = {
            member.layout.count
            for site, member in self.members.items()
            if site in member.layout.roster
        }
        return (
            len(self.members) == len(self.disks) - len(self.down)
            and len(counts) == 1
            and self.handed_over()
            and all(member.quiet() for member in self.members.values())
        )

    def handed_over(self) -> bool:
        """Whether applications have all that members have for them: no site is to be drained."""
        return self._bursting.isdisjoint(self.members)

    # --- an outbox's duties -----------------------------------------------------------------------

    def _drain_soon(self, site: str) -> None:
        if site in self._bursting:
            return
        if self.draw.random() < self.burst:
            self._bursting.add(site)
            self._push(self.now + self.draw.randint(0, 2 * MILLISECOND), "drain", site)
        else:
            self.drain(site)

    def drain(self, site: str) -> None:
        self._bursting.discard(site)
        member = self.members[site]
        box = member.drain()
        self.mistaken(site, box)
        danger = self._danger(member, box)
        hit = self.now < self.calm_at and not _only_knocks(box) and self.draw.random() < danger
        cut = self.draw.randrange(_DUTIES) if hit else _DUTIES
        for duty in (self._send, self._persist, self._then_send, self._deliver, self._forget):
            if cut == 0:
                self.crash(site)
                return
            cut -= 1
            duty(site, box)
        alarm = self._alarms[site] = min(box.epochs_alarm, box.voters_alarm)
        if alarm < NEVER:
            self._push(max(alarm, self.now), "alarm", site)

    def mistaken(self, site: str, box: MemberBox) -> None:
        """Here all sites are honest."""
        self.violations += [("taken for a liar", site, *mistake) for mistake in box.mistakes]

    def _danger(self, member: Member, box: MemberBox) -> float:
        """More where it matters: a report, a step of a change."""
        if any(isinstance(f, Fed) and f.closed for _, f in (*box.send, *box.then_send)):
            return 20 * self.crash_chance
        if box.forget is not None or any(isinstance(r, Folded) for r in box.persist):
            return 20 * self.crash_chance
        if any(isinstance(r, (Filled, Confirmed)) for r in box.persist):
            return 20 * self.crash_chance
        if member.layout.closing or member.layout.flushing is not None:
            return self.crash_chance * (20 if member.manager.leads else 5)
        return self.crash_chance

    def _send(self, site: str, box: MemberBox) -> None:
        self._transmit(site, box.send)

    def _persist(self, site: str, box: MemberBox) -> None:
        self.disks[site].extend(box.persist)
        layout = self.members[site].layout
        for record in box.persist:
            if isinstance(record, Confirmed) and record.lapsed:
                epochs = [epoch for epoch, _, _, _ in record.counts]
                self.lapses.setdefault(site, {})[min(epochs, default=0)] = None
        for epoch, domain in layout.domains.items():
            groups = {g: layout.groups[g] for g in domain.structure.groups if g in layout.groups}
            self.nominal.setdefault(epoch, groups)
            what = (dict(domain.structure.groups), domain.protocol, domain.builder)
            if self.epochs.setdefault(epoch, what) != what:
                self.violations.append(("one decision per number", epoch, site))

    def _then_send(self, site: str, box: MemberBox) -> None:
        self._transmit(site, box.then_send)
        self.members[site].stored(box.counted)

    def _deliver(self, site: str, box: MemberBox) -> None:
        seen = self.seen[site]
        for item in box.deliver:
            if isinstance(item, EpochOpened):
                self._opened(site, item)
                continue
            if isinstance(item, Rollback):
                self._roll_back(site, item)
                continue
            for delivery in item.deliveries():
                row: Seen = (delivery.epoch, delivery.id, delivery.payload)
                self.ever.add(delivery.id)
                if delivery.attempt < self.attempts.get(site, 1) and self._annulled(site, delivery):
                    continue
                if delivery.position == len(seen) + 1:
                    seen.append(row)
                elif delivery.position > len(seen):
                    self.violations.append(("hole", site, delivery.position, len(seen)))
                elif seen[delivery.position - 1] != row:
                    self.violations.append(("redelivery", site, delivery.position))
        for receipt in box.receipts:
            for seq in range(receipt.seq, receipt.seq + receipt.count):
                stages = self.stages.setdefault((site, receipt.group, seq), set())
                if receipt.stage == "accepted":
                    stages.clear()  # a refused number may be used again
                stages.add(receipt.stage)
        self.outcomes.update(box.outcomes)

    def _opened(self, site: str, opened: EpochOpened) -> None:
        if opened not in self.opened[site]:
            self.opened[site].append(opened)
        if self.first_epoch.get(site) == NEVER and self.members[site].flush.takes_part():
            self.first_epoch[site] = opened.epoch

    def _roll_back(self, site: str, rollback: Rollback) -> None:
        """A rollback must name exactly the deliveries after its position, all of one epoch."""
        if rollback.attempt <= self.attempts.get(site, 1):
            return  # repeated by a restart
        seen = self.seen[site]
        gone = seen[rollback.position :]
        named = [message for _, message in rollback.annulled]
        if named[: len(gone)] != [message for _, message, _ in gone]:
            self.violations.append(("rollback names others", site, rollback))
        if any(epoch != rollback.epoch for epoch, _, _ in gone):
            self.violations.append(("rollback into another epoch", site, rollback))
        if self.options.deliver == "safe":
            self.violations.append(("rollback at safe", site, rollback))
        del seen[rollback.position :]
        self.attempts[site] = rollback.attempt
        self.rollbacks.append((site, rollback))

    def _annulled(self, site: str, delivery: Delivery) -> bool:
        """Whether a restart repeats this delivery although it was rolled back since."""
        return any(
            who == site and rollback.attempt > delivery.attempt
            and delivery.position > rollback.position
            for who, rollback in self.rollbacks
        )  # fmt: skip

    def _forget(self, site: str, box: MemberBox) -> None:
        if box.forget is not None:
            self.disks[site] = [box.forget]

    def _transmit(self, site: str, sends: Sequence[tuple[str, Any]]) -> None:
        faulty = self.now < self.calm_at and self.loss > 0
        for peer, frame in sends:
            if self.now < self.calm_at and (
                frozenset((site, peer)) in self.cut or (site, peer) in self.deaf
            ):
                continue
            draw = self._knocking if isinstance(frame, Knock) else self.draw
            if faulty and draw.random() < self.loss:
                continue
            for _ in range(2 if faulty and draw.random() < self.loss / 2 else 1):
                delay = draw.randint(100_000, 2 * MILLISECOND)
                if faulty and draw.random() < self.loss:
                    delay *= draw.randint(1, 60)
                self._push(self.now + delay, "frame", peer, site, frame)

    def hold(self, site: str, *, held: bool) -> None:
        """The site's application lags, or has caught up. After a restart it does not lag."""
        if site in self.members:
            self.members[site].hold(self.now, held=held)
            self.drain(site)

    def partition(self, side: Sequence[str]) -> None:
        """Sites on this side and all others do not hear each other. An empty side heals the
        network."""
        others = [site for site in self.disks if site not in side]
        self.cut = {frozenset((a, b)) for a in side for b in others}
        self.partitions += bool(self.cut)

    def _push(self, when: int, kind: str, a: Any, b: Any = None, c: Any = None) -> None:
        heapq.heappush(self._heap, (when, next(self._tick), kind, a, b, c))

    def losses(self) -> bool:
        return bool(self.lost) or any(self.left(site) for site in self.disks)

    def present(self, epoch: int, group: str) -> tuple[str, ...]:
        named: dict[str, tuple[str, ...]] = self.epochs[epoch][0]
        return named.get(group) or self.listed.get(group, ())

    def skipped(self, site: str, epoch: int) -> bool:
        """Whether the site was absent for so long that it never gets the messages of this epoch."""
        for last in self.lapses.get(site, ()):
            returned = [o.epoch for o in self.opened[site] if o.epoch > last and o.joined]
            if last <= epoch < min(returned, default=0):
                return True
        return False

    def removed(self, group: str) -> bool:
        """Whether the group is gone. If it was frozen then, deliveries at its absent members stand,
        and its origins were told that their messages are refused."""
        layout = max((m.layout for m in self.members.values()), key=lambda one: one.count)
        named = group.startswith("@") or group in layout.groups
        return self.options.on_failure == "exclude" and not named

    def ended_with(self, group: str, epoch: int, member: str) -> bool:
        """Whether this was the member's last epoch of a group that was removed. A group without a
        present member can be: then its absent members do not get what they have missed."""
        later = (named for at, (named, *_) in self.epochs.items() if at > epoch)
        return self.removed(group) and not any(member in named.get(group, ()) for named in later)

    def left(self, site: str) -> bool:
        """Whether the site was retired under `exclude`. It need not have anything then."""
        layout = max((m.layout for m in self.members.values()), key=lambda one: one.count)
        return self.options.on_failure == "exclude" and site not in layout.roster

    def incarnation(self, site: str) -> int:
        member = self.members.get(site)
        return member.incarnation if member is not None else 1

    def judge(self) -> list[tuple[Any, ...]]:
        return judge(self)


def _only_knocks(box: MemberBox) -> bool:
    """Whether the outbox has knocks and nothing else: no crash is drawn there."""
    rest = (box.send, box.persist, box.deliver, box.receipts, box.counted, box.outcomes, box.forget)
    return (
        bool(box.then_send)
        and not any(rest)
        and all(isinstance(frame, Knock) for _, frame in box.then_send)
    )


def by_chance(chance: int | None) -> Callable[..., World]:
    """Worlds as they are drawn, but `chance` decides what is lost and where a site crashes."""

    def make(*given: Any, **drawn: Any) -> World:
        return World(*given, **drawn if chance is None else {**drawn, "seed": chance})

    return make
