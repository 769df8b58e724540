"""Worlds in which one site lies: frames that keep the wire's rules, in its name, to live sites.

Two kinds of liars. An *outsider* is in no group and no voter, on the roster, retired or a stranger:
nobody may believe anything of it but its own messages, so all guarantees hold at all others, and
all of them have folded the same records. An *insider* is a member
whose own object goes on beside the lies, perhaps a voter: what only it can say is believed, so here
nothing may stop, and nobody delivers a message of an honest site that the site has not sent, where
the protocol lets no such member pass on what others send.
"""

import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.outbox import Outbox
from ordercast.core.stability.registry import TRACKERS
from ordercast.model.epochs import AddGroup, AddSite, AddVoter, JoinGroup, LeaveGroup, RetireSite
from ordercast.model.implicit import implicit_group
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.epochs import ChangeRequest
from support.cases.drawn_frames import Drawer
from support.judges.epoch_judge import agreement, each_alone, judge, one_order
from support.worlds.epochs import World

GROUPS = {"alpha": "abc", "beta": "bcd", "gamma": "cd"}
ROW = {"alpha": "ab", "beta": "bc", "gamma": "cd"}
"""For protocols with arrow groups: its tree is deep enough for one."""
SITES = "abcdz"
OUTSIDER = "z"
PASSED_ON_BY_ALL = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")
"""Protocols in which any member may multicast another's batch."""
FRAMES = 250  # of a case


@dataclass
class Case:
    protocol: str
    policy: str
    deliver: str
    stability: str
    causal: bool
    liar: str
    changes: bool
    standing: str  # of an outsider

    @staticmethod
    def drawn(rng: random.Random) -> "Case":
        protocol = rng.choice(sorted(PROTOCOLS))
        insider = rng.random() < 0.5
        return Case(
            protocol,
            rng.choice(("wait", "exclude")),
            rng.choice(("safe", "agreed")),
            rng.choice(sorted(TRACKERS)),
            rng.random() < 0.25,
            rng.choice("ad") if insider else OUTSIDER,
            rng.random() < 0.4,
            rng.choice(("roster", "roster", "retired", "stranger")),
        )

    @property
    def groups(self) -> dict[str, str]:
        return ROW if ":" in self.protocol else GROUPS

    @property
    def insider(self) -> bool:
        return self.liar != OUTSIDER


@dataclass
class Result:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


NOTHING: MemberBox = Outbox((), (), (), (), (), None)


class Fallen(Member):
    """The insider's own object may fail on the answers to its lies. No other site is to blame."""

    fallen = False

    def receive(self, *args: Any) -> None:
        self._guarded(super().receive, *args)

    def alarm(self, now: int) -> None:
        self._guarded(super().alarm, now)

    def drain(self) -> MemberBox:
        return self._guarded(super().drain) or NOTHING

    def _guarded(self, call: Callable[..., Any], *args: Any) -> Any:
        if self.fallen:
            return None
        try:
            return call(*args)
        except Exception:
            self.fallen = True
            return None


class LyingWorld(World):
    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        self.refused: Counter[str] = Counter()
        self._dialling: dict[tuple[str, str], None] = {}  # pairs that will be connected again

        def make(name: str, *args: Any, **options: Any) -> Member:
            return (Fallen if name == case.liar else Member)(name, *args, **options)

        super().__init__(
            {group: list(members) for group, members in case.groups.items()},
            list(SITES if case.insider or case.standing != "stranger" else SITES[:-1]),
            ["a", "b", "c"],
            seed=seed,
            deliver=case.deliver,
            causal=case.causal,
            policy=case.policy,
            protocol=case.protocol,
            stability=case.stability,
            make=make,
        )
        for many in range(1, len(SITES) + 1):  # the liar may send to any list
            for members in combinations(SITES, many):
                self.listed[implicit_group(members)] = members
        if not case.insider:  # nothing runs there but the liar
            self.members.pop(OUTSIDER, None)
            self.down.add(OUTSIDER)

    def mistaken(self, site: str, box: MemberBox) -> None:
        """The connection is dropped, and there is a new one after the pause of a dialler."""
        for peer, why in getattr(box, "mistakes", ()):
            self.refused[why] += 1
            if peer != self.case.liar:
                self.violations.append(("taken for a liar", site, peer, why))
            if (site, peer) not in self._dialling:
                self._dialling[site, peer] = None
                self.at(self.now + 50 * MILLISECOND, partial(self._connect, site, peer))

    def _connect(self, site: str, peer: str) -> None:
        del self._dialling[site, peer]
        for one, other in ((site, peer), (peer, site)):
            if one in self.members:
                self.members[one].connected(self.now, other)
                self.drain(one)

    def quiet(self) -> bool:
        liar = self.case.liar
        honest = [member for site, member in self.members.items() if site != liar]
        return len({m.layout.count for m in honest}) == 1 and all(map(self._is_calm, honest))

    def _is_calm(self, member: Member) -> bool:
        """In causal order the liar's own batches may wait for ever: their past is invented."""
        liar = self.case.liar
        waiting = [getattr(e.ordering, "_waiting", {}) for e in member.engines.values()]
        held = [(batches, batches.pop(liar)) for batches in waiting if liar in batches]
        try:
            return member.quiet([liar])
        finally:
            for batches, own in held:
                batches[liar] = own

    def lie(self, rng: random.Random, frames: int) -> None:
        for _ in range(frames):
            others = [site for site in self.members if site != self.case.liar]
            victim = rng.choice(others)
            member = self.members[victim]
            frame = Drawer(rng, member, self.case.liar, list(SITES)).frame()
            if isinstance(frame, ChangeRequest) and self._makes_one_of_us(frame):
                continue  # any site may ask for that
            member.receive(self.now, self.case.liar, frame)
            if rng.random() < 0.7:
                self.drain(victim)
            if rng.random() < 0.2:
                self.run(self.now + rng.randrange(3 * MILLISECOND))

    def _makes_one_of_us(self, frame: ChangeRequest) -> bool:
        """A voter is believed, and so is a member."""
        return any(
            isinstance(edit, AddVoter)
            or (isinstance(edit, AddSite) and edit.site == OUTSIDER)
            or (isinstance(edit, JoinGroup) and edit.site == OUTSIDER)
            or (isinstance(edit, AddGroup) and OUTSIDER in edit.members)
            for edit in frame.edits
        )


def run_case(seed: int, frames: int = FRAMES, protocol: str = "") -> Result:
    """With this protocol, or a drawn one."""
    rng = random.Random(f"lies {seed}")
    case = Case.drawn(rng)
    case.protocol = protocol or case.protocol
    result = Result()
    liar = {"a": "voter", "d": "member"}.get(case.liar, case.standing)
    result.counts.update({case.protocol: 1, liar: 1})
    world: LyingWorld | None = None
    try:
        world = LyingWorld(case, seed)
        _play(world, rng, frames, result)
    except Exception as error:
        trace = traceback.extract_tb(error.__traceback__)[-3:]
        where = " < ".join(f"{f.filename.rsplit('/', 1)[-1]}:{f.lineno}" for f in reversed(trace))
        result.wrong.append(f"stopped: {type(error).__name__}: {error} at {where}")
    if world is not None:
        result.counts["refused"] += world.refused.total()
        result.counts["events"] += world.events
    if result.wrong:
        result.wrong.append(repr(case))
    return result


def _play(world: LyingWorld, rng: random.Random, frames: int, result: Result) -> None:
    world.run(SECOND)
    if not world.case.insider and world.case.standing == "retired":
        world.ask("a", "it leaves", RetireSite(OUTSIDER))
        world.run(2 * SECOND)
    left = frames
    while left > 0:
        honest = [site for site in world.members if site != world.case.liar]
        for _ in range(rng.randrange(4)):
            group = rng.choice(sorted(world.case.groups))
            world.submit(rng.choice(honest), group, b"%d" % rng.randrange(1 << 30))
        if world.case.changes and rng.random() < 0.05:
            _change(world, rng)
        if world.case.policy == "exclude" and rng.random() < 0.02:
            world.crash(rng.choice(honest), 200 * MILLISECOND)
            world.run(world.now + 400 * MILLISECOND)
        some = min(left, rng.randint(1, 20))
        world.lie(rng, some)
        left -= some
    result.counts["frames"] += frames
    world.run(world.now + SECOND)
    if world.case.insider:
        world.settle(5 * SECOND)
    else:
        world.settle()
    result.wrong += [str(one) for one in _judged(world)[:2]]


def _change(world: LyingWorld, rng: random.Random) -> None:
    layout = max((m.layout for m in world.members.values()), key=lambda one: one.count)
    site = rng.choice("abd")
    edit = LeaveGroup if site in layout.groups.get("beta", ()) else JoinGroup
    world.ask(rng.choice("abc"), f"change {rng.randrange(1 << 20)}", edit("beta", site))


def _judged(world: LyingWorld) -> list[tuple[Any, ...]]:
    liar, case = world.case.liar, world.case
    world.down.add(liar)
    if not case.insider and case.policy == "exclude":
        found = judge(world)  # nobody waits for the liar any longer
        found = [one for one in found if liar not in map(str, one[1:3])]
        return found + _forged(world) + _rewritten(world)
    if case.insider:
        passes_on = case.protocol.partition(":")[0] in PASSED_ON_BY_ALL or any(
            world.first.domains[1].structure.parent(site) == liar for site in SITES
        )
        return [] if passes_on or liar in world.first.voters else _forged(world)
    order = {
        site: {message: n for n, (_, message, _) in enumerate(seen)}
        for site, seen in world.seen.items()
        if site != liar
    }
    found = [one for site in order for one in each_alone(world, site)]
    found += one_order(world, order)
    found += [one for one in agreement(world, order) if one[0] != "agreement"]
    return [*world.violations, *found, *_forged(world), *_rewritten(world)]


def _rewritten(world: LyingWorld) -> list[tuple[Any, ...]]:
    """All have folded what the voters' log has committed."""
    voters = [member for member in world.members.values() if member.raft.log.last]
    log = max(voters, key=lambda member: member.raft.committed).raft
    return [
        ("rewritten", site, member.layout.count)
        for site, member in world.members.items()
        if site != world.case.liar
        and log.log.snapshot.upto <= member.layout.count <= log.committed
        and member.layout.chain != log.log.chain_at(member.layout.count)
    ]


def _forged(world: LyingWorld) -> list[tuple[Any, ...]]:
    """Whatever an honest site delivers of an honest site, that site has sent."""
    return [
        ("forged", site, message, payload)
        for site, seen in world.seen.items()
        if site != world.case.liar
        for _, message, payload in seen
        if message[0] != world.case.liar
        and world.payloads.get((message[0], message[2], message[3])) != payload
    ]
