"""Every interleaving of a small cluster through one change, driven through the real `Member`s.

A state is what all members have in memory and on disk, what each application has seen, and the
frames under way; equal states are visited once. From a state any frame under way may arrive next
(with `fifo`: the first of each pair of sites), any call of an application that is left may come,
and as long as the budget of faults lasts a frame may be lost, or arrive and stay to arrive again,
and a member may crash at any point between the duties of the outbox that the step gave (also before
the first and after the last), and starts again at any later moment. Time does not pass until
nothing is under way; then the earliest alarm goes off. With `prompt` an alarm that is due may also
go off while frames are under way.

Failures may also be listed as calls. Each of them happens once, at any time: a site crashes between
two steps ("crash"), loses its store as well ("lose"), or the link of two sites is cut and never
heals ("unlink"); several at the same moment are one call ("together"). Nobody carries frames around
a cut link here, so a site may stay excluded for ever: then the others end without it.

A member's next state follows from its state and the call. Each such step is computed once and then
looked up, so that other orders of the same steps cost little.
"""

import io
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ordercast.core.epochs.layout import first_layout
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import EpochOpened, MemberBox, MemberRecord
from ordercast.core.structure import Structure, Tellers
from ordercast.model.epochs import Edit
from ordercast.model.errors import Error
from ordercast.model.options import MILLISECOND, NEVER, SECOND, Options, Timing
from support.judges.epoch_judge import Seen, judge
from support.models.canonical import canonical
from support.worlds.epochs import build

DUTIES = 5
LOST = DUTIES + 2  # after all duties, and with the disk
Call = tuple[str, str, Any]
"""site, "send" or "ask", (group, payload) or (change, edit); or a site and what happens to it:
"cut", "heal", "crash", "lose", "unlink" with the other site, "together" with the calls"""
OUTSIDE = ("cut", "heal", "crash", "lose", "unlink", "together")
Step = tuple[Any, ...]
State = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
"""now, members by number, frames by number (sorted), calls still to come, faults left"""


@dataclass
class Local:
    """One machine: `member` is None while it is down."""

    name: str
    disk: list[MemberRecord] = field(default_factory=list)
    boots: int = 0
    member: Member | None = None
    alarm: int | None = None
    seen: list[Seen] = field(default_factory=list)
    opened: list[EpochOpened] = field(default_factory=list)
    stages: dict[tuple[str, str, int], set[str]] = field(default_factory=dict)
    epochs: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    violations: list[tuple[Any, ...]] = field(default_factory=list)
    nominal: dict[int, dict[str, tuple[str, ...]]] = field(default_factory=dict)
    attempt: int = 1
    rollbacks: list[Rollback] = field(default_factory=list)
    lost: int = 0
    first_epoch: int = 0


@dataclass
class Found:
    states: int = 0
    steps: int = 0
    ends: int = 0
    rollbacks: int = 0  # ends in which some site had rolled back
    without: int = 0  # ends in which some site stays excluded
    computed: int = 0  # steps of one member that were computed
    complete: bool = True
    violations: list[tuple[Any, ...]] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)


class Model:
    def __init__(
        self,
        groups: Mapping[str, Sequence[str]],
        sites: Sequence[str],
        voters: Sequence[str],
        calls: Sequence[Call],
        *,
        faults: int = 0,
        kinds: Sequence[str] = ("crash", "loss", "double"),
        fifo: bool = False,
        deliver: str = "agreed",
        protocol: str = "propagation",
        policy: str = "wait",
        hit: Sequence[str] = (),
        patience: int = SECOND,
        prompt: bool = False,
    ) -> None:
        self.sites = tuple(sites)
        self.calls = tuple(calls)
        self.faults, self.kinds, self.fifo = faults, kinds, fifo
        self.options = Options(
            deliver=deliver, on_failure=policy, timing=Timing(suspect=100 * MILLISECOND)
        )
        self.hit = tuple(hit) or self.sites  # who may crash
        self.patience = patience  # how long a site may stay away, or cut off
        self.prompt = prompt  # an alarm that is due may go off before what is under way arrives
        self._until = 0
        self.first = first_layout(
            sites, voters, {g: tuple(m) for g, m in groups.items()}, "greedy", protocol, build
        )
        self._shared: dict[Any, Structure] = {}
        self._blobs: list[bytes] = []
        self._facts: list[tuple[bool, bool, int, int | None, bool]] = []
        self._absent: list[tuple[str, ...]] = []  # of each local: the sites that it knows excluded
        self._cut_links: dict[tuple[int, ...], frozenset[frozenset[str]]] = {}
        self._ids: dict[bytes, int] = {}
        self._frames: list[tuple[str, str, Any]] = []
        self._frame_ids: dict[tuple[str, str, Any], int] = {}
        self._steps: dict[Any, tuple[int, tuple[int, ...]]] = {}
        self._judged: dict[Any, list[tuple[Any, ...]]] = {}

    # --- one member -------------------------------------------------------------------------------

    def _intern(self, local: Local) -> int:
        key = canonical(local)
        number = self._ids.get(key)
        if number is None:
            number = self._ids[key] = len(self._blobs)
            out = io.BytesIO()
            pickler = pickle.Pickler(out, protocol=5)
            pickler.dispatch_table = {Structure: self._reduce, Tellers: self._reduce}
            pickler.dump(local)
            self._blobs.append(out.getvalue())
            member = local.member
            up = member is not None
            quiet = member is not None and member.quiet()
            count = member.layout.count if member is not None else -1
            self._facts.append((up, quiet, count, local.alarm, bool(local.violations)))
            self._absent.append(tuple(member.layout.absent) if member is not None else ())
        return number

    def _reduce(self, structure: Structure) -> Any:
        key = (type(structure), structure.epoch, repr(structure.forest), repr(structure.table))
        self._shared.setdefault(key, structure)
        _STRUCTURES[key] = self._shared[key]
        return _structure, (key,)

    def _apply(self, number: int, now: int, event: tuple[Any, ...], cut: int) -> Any:
        """(the member's number afterwards, the frames it sent)."""
        key = (number, now, event, cut)
        known = self._steps.get(key)
        if known is None:
            local: Local = pickle.loads(self._blobs[number])
            sent: list[tuple[str, str, Any]] = []
            self._do(local, now, event)
            if local.member is not None:
                self._duties(local, local.member.drain(), cut, sent)
            known = self._steps[key] = (
                self._intern(local),
                tuple(self._frame(frame) for frame in sent),
            )
        return known

    def _frame(self, frame: tuple[str, str, Any]) -> int:
        number = self._frame_ids.get(frame)
        if number is None:
            number = self._frame_ids[frame] = len(self._frames)
            self._frames.append(frame)
        return number

    def _do(self, local: Local, now: int, event: tuple[Any, ...]) -> None:
        kind = event[0]
        if kind == "start":
            local.boots += 1
            local.member = Member(
                local.name, self.first, self.options, build,
                boot=local.boots, store=1 + self.sites.index(local.name) + 10 * local.lost,
                records=local.disk,
            )  # fmt: skip
            local.member.start(now)
            return
        member = local.member
        if member is None:
            return
        if kind == "frame":
            source, _, frame = self._frames[event[1]]
            member.receive(now, source, frame)
        elif kind == "alarm":
            member.alarm(now)
        elif kind == "call":
            _, what, (name, thing) = self.calls[event[1]]
            if what == "ask":
                member.ask(now, name, (thing,))
            else:
                try:
                    member.submit(now, name, [thing])
                except Error:
                    return

    def _duties(self, local: Local, box: MemberBox, cut: int, sent: list[Any]) -> None:
        duties: list[Callable[[], None]] = [
            lambda: sent.extend((local.name, *send) for send in box.send),
            lambda: self._persist(local, box),
            lambda: self._then_send(local, box, sent),
            lambda: self._deliver(local, box),
            lambda: self._forget(local, box),
        ]
        for duty in duties[: min(cut, DUTIES)]:
            duty()
        if cut <= DUTIES:
            local.member, local.alarm = None, None
        elif cut == LOST:
            self._lose(local)
        else:
            alarm = min(box.epochs_alarm, box.voters_alarm)
            local.alarm = alarm if alarm < NEVER else None

    def _then_send(self, local: Local, box: MemberBox, sent: list[Any]) -> None:
        sent.extend((local.name, *send) for send in box.then_send)
        assert local.member is not None
        local.member.stored(box.counted)

    def _persist(self, local: Local, box: MemberBox) -> None:
        local.disk.extend(box.persist)
        assert local.member is not None
        for epoch, domain in local.member.layout.domains.items():
            local.epochs[epoch] = (dict(domain.structure.groups), domain.protocol, domain.builder)
            groups = local.member.layout.groups
            local.nominal[epoch] = {g: groups[g] for g in domain.structure.groups if g in groups}

    def _deliver(self, local: Local, box: MemberBox) -> None:
        for item in box.deliver:
            if isinstance(item, EpochOpened):
                if item not in local.opened:
                    local.opened.append(item)
                    member = local.member
                    if local.first_epoch == NEVER and member and member.flush.takes_part():
                        local.first_epoch = item.epoch
                continue
            if isinstance(item, Rollback):
                self._roll_back(local, item)
                continue
            for delivery in item.deliveries():
                row: Seen = (delivery.epoch, delivery.id, delivery.payload)
                if delivery.attempt < local.attempt and any(
                    old.attempt > delivery.attempt and delivery.position > old.position
                    for old in local.rollbacks
                ):
                    continue
                if delivery.position == len(local.seen) + 1:
                    local.seen.append(row)
                elif delivery.position > len(local.seen):
                    local.violations.append(("hole", local.name, delivery.position))
                elif local.seen[delivery.position - 1] != row:
                    local.violations.append(("redelivery", local.name, delivery.position))
        for receipt in box.receipts:
            for seq in range(receipt.seq, receipt.seq + receipt.count):
                key = (local.name, receipt.group, seq)
                local.stages.setdefault(key, set()).add(receipt.stage)

    def _roll_back(self, local: Local, rollback: Rollback) -> None:
        if rollback.attempt <= local.attempt:
            return
        gone = [message for _, message, _ in local.seen[rollback.position :]]
        if [message for _, message in rollback.annulled][: len(gone)] != gone:
            local.violations.append(("rollback names others", local.name, rollback))
        if self.options.deliver == "safe":
            local.violations.append(("rollback at safe", local.name, rollback))
        del local.seen[rollback.position :]
        local.attempt = rollback.attempt
        local.rollbacks.append(rollback)

    def _lose(self, local: Local) -> None:
        """The machine is gone; another will come under its name."""
        local.member, local.alarm = None, None
        local.disk, local.seen, local.opened, local.stages = [], [], [], {}
        local.attempt, local.rollbacks = 1, []
        local.lost += 1
        local.first_epoch = NEVER

    def _forget(self, local: Local, box: MemberBox) -> None:
        if box.forget is not None:
            local.disk = [box.forget]

    # --- all of them ------------------------------------------------------------------------------

    def _first_state(self) -> State:
        """Founded, and everyone has been told: reached without faults, one frame after another."""
        numbers = [self._intern(Local(site)) for site in self.sites]
        state: State = (0, tuple(numbers), (), tuple(range(len(self.calls))), 0)
        for place in range(len(self.sites)):
            state = self._step(state, place, ("start",))
        for _ in range(10_000):
            if state[2]:
                state = self._deliver_frame(state, state[2][0])
            elif state[0] > 3 * SECOND and self._calm(state):
                break
            else:
                state = self._next_alarm(state)
        self._until = state[0] + self.patience
        return (*state[:4], self.faults)

    def _is_cut(self, to_come: tuple[int, ...]) -> str:
        """The site that is cut off from the others now, if any."""
        for number, (site, what, _) in enumerate(self.calls):
            if what == "cut" and number not in to_come and number + 1 in to_come:
                return site
        return ""

    def _unlinked(self, to_come: tuple[int, ...]) -> frozenset[frozenset[str]]:
        """The pairs of sites whose link is cut for good."""
        found = self._cut_links.get(to_come)
        if found is None:
            done = [call for n, call in enumerate(self.calls) if n not in to_come]
            found = self._cut_links[to_come] = frozenset(
                frozenset((site, other))
                for call in done
                for site, what, other in _parts(call)
                if what == "unlink"
            )
        return found

    def _passes(self, frame: int, to_come: tuple[int, ...]) -> bool:
        ends = self._frames[frame][:2]
        return self._is_cut(to_come) not in ends and frozenset(ends) not in self._unlinked(to_come)

    def _fail(self, state: State) -> Iterator[tuple[Step, State]]:
        """A failure that is listed, or several at one moment, of sites that are up."""
        now, numbers, frames, to_come, left = state
        for call in to_come:
            parts = _parts(self.calls[call])
            hit = {site: what for site, what, _ in parts if what in ("crash", "lose")}
            if self.calls[call][1] in ("cut", "heal", "send", "ask") or any(
                not self._facts[numbers[self.sites.index(site)]][0] for site in hit
            ):
                continue
            after = tuple(
                self._apply(number, now, ("fail",), {"crash": 0, "lose": LOST}[hit[site]])[0]
                if site in hit
                else number
                for site, number in zip(self.sites, numbers, strict=True)
            )
            rest = tuple(other for other in to_come if other != call)
            kept = tuple(frame for frame in frames if self._passes(frame, rest))
            yield ("fail", 0, call), (now, after, kept, rest, left)

    def _cut_or_heal(self, state: State) -> Iterator[tuple[Step, State]]:
        now, numbers, frames, to_come, left = state
        for call in to_come:
            site, what, _ = self.calls[call]
            if what == "cut" or (what == "heal" and call - 1 not in to_come):
                rest = tuple(other for other in to_come if other != call)
                kept = frames
                if what == "cut":
                    kept = tuple(f for f in frames if site not in self._frames[f][:2])
                place = self.sites.index(site)
                yield ((what, place), (now, numbers, kept, rest, left))

    def without(self, state: State) -> tuple[str, ...]:
        """The sites that stay excluded, because a link of theirs is cut for good."""
        apart = {site for pair in self._unlinked(state[3]) for site in pair}
        if not apart:
            return ()
        latest = max(state[1], key=lambda number: self._facts[number][2])
        return tuple(site for site in self._absent[latest] if site in apart)

    def _calm(self, state: State) -> bool:
        out = self.without(state)
        facts = [
            self._facts[number]
            for site, number in zip(self.sites, state[1], strict=True)
            if site not in out
        ]
        return all(up and quiet for up, quiet, _, _, _ in facts) and (
            len({count for _, _, count, _, _ in facts}) == 1
        )

    def _step(
        self, state: State, place: int, event: tuple[Any, ...], *,
        cut: int = DUTIES + 1, without: int | None = None, faults: int = 0,
    ) -> State:  # fmt: skip
        now, numbers, frames, to_come, left = state
        number, sent = self._apply(numbers[place], now, event, cut)
        under_way = list(frames)
        if without is not None:
            under_way.remove(without)
        under_way.extend(frame for frame in sent if self._passes(frame, to_come))
        if not self.fifo:
            under_way.sort()
        after = (*numbers[:place], number, *numbers[place + 1 :])
        return (now, after, tuple(under_way), to_come, left - faults)

    def _deliver_frame(self, state: State, frame: int) -> State:
        place = self.sites.index(self._frames[frame][1])
        return self._step(state, place, ("frame", frame), without=frame)

    def _next_alarm(self, state: State) -> State:
        now, numbers, frames, to_come, left = state
        alarms = [(self._facts[n][3], place) for place, n in enumerate(numbers)]
        at, place = min((at, place) for at, place in alarms if at is not None)
        state = (max(now, at), numbers, frames, to_come, left)
        return self._step(state, place, ("alarm",))

    def _next(self, state: State) -> Iterator[tuple[Step, State]]:
        now, numbers, frames, to_come, left = state
        events: list[tuple[int, tuple[Any, ...], int | None]] = []
        channels: set[tuple[str, str]] = set()
        for frame in dict.fromkeys(frames):
            source, target, _ = self._frames[frame]
            if self.fifo and (source, target) in channels:
                continue
            channels.add((source, target))
            place = self.sites.index(target)
            events.append((place, ("frame", frame), frame))
            if left and "loss" in self.kinds:
                rest = list(frames)
                rest.remove(frame)
                yield ("lost", place, frame), (now, numbers, tuple(rest), to_come, left - 1)
            if left and "double" in self.kinds:
                yield ("doubled", place, frame), self._step(state, place, events[-1][1], faults=1)
        for place in range(len(self.sites)):
            if not self._facts[numbers[place]][0]:
                yield ("start", place), self._step(state, place, ("start",))
        yield from self._cut_or_heal(state)
        yield from self._fail(state)
        if self.options.on_failure == "exclude" and not frames and now < self._until:
            up = [self._facts[number][0] for number in numbers]
            away = not all(up) or self._is_cut(to_come) or self._unlinked(to_come)
            if away and any(up):  # others may go on without it
                yield ("alarm",), self._next_alarm(state)
        for place, number in enumerate(numbers):
            due = self._facts[number][3]
            if self.prompt and frames and due is not None and due <= now:
                events.append((place, ("alarm",), None))
        for call in to_come:
            if self.calls[call][1] in OUTSIDE:
                continue
            place = self.sites.index(self.calls[call][0])
            if self._facts[numbers[place]][0]:
                events.append((place, ("call", call), None))
        for place, event, frame_or_none in events:
            cuts = [DUTIES + 1]
            may_hit = self.sites[place] in self.hit and self._facts[numbers[place]][0]
            if left and "crash" in self.kinds and may_hit:
                cuts = list(range(DUTIES + 2))
            if left and "lose" in self.kinds and may_hit:
                cuts.append(LOST)
            for cut in cuts:
                hit = int(cut != DUTIES + 1)
                after = self._step(state, place, event, cut=cut, without=frame_or_none, faults=hit)
                if event[0] == "call":
                    rest_to_come = tuple(call for call in to_come if call != event[1])
                    after = (*after[:3], rest_to_come, after[4])
                yield (event[0], place, event[-1], cut), after

    def _told(self, step: Step) -> str:
        """A step of a trace, for a person."""
        if step[0] == "fail":
            return f"failures: {_parts(self.calls[step[2]])}"
        text = f"{step[0]} at {self.sites[step[1]]}" if len(step) > 1 else step[0]
        if step[0] in ("frame", "lost", "doubled"):
            source, _, content = self._frames[step[2]]
            text += f" from {source}: {content}"
        if len(step) > 3 and step[3] <= DUTIES:
            text += f"; it crashes after {step[3]} duties"
        if len(step) > 3 and step[3] == LOST:
            text += "; it crashes and loses its store"
        return text

    def explore(self, most: int = 10_000_000) -> Found:
        found = Found()
        first = self._first_state()
        came_from: dict[State, tuple[State, Step] | None] = {first: None}
        stack = [first]
        while stack:
            state = stack.pop()
            wrong = [v for n in state[1] if self._facts[n][4] for v in self._load(n).violations]
            following = [] if wrong else list(self._next(state))
            if not following and not wrong:
                following, wrong = self._at_rest(state, found)
            found.steps += len(following)
            if wrong:
                found.violations = wrong
                found.trace = [self._told(step) for step in _path(came_from, state)]
                break
            for what, after in following:
                if after not in came_from:
                    came_from[after] = (state, what)
                    stack.append(after)
            if len(came_from) > most:
                found.complete = False
                break
        found.states, found.computed = len(came_from), len(self._steps)
        return found

    def _at_rest(self, state: State, found: Found) -> tuple[list[tuple[Step, State]], list[Any]]:
        """Nothing is under way: it is the end, or an alarm must help."""
        if self._calm(state):
            found.ends += 1
            found.rollbacks += any(self._load(number).rollbacks for number in state[1])
            found.without += bool(self.without(state))
            return [], self._judge(state)
        if state[0] > 100 * SECOND:
            return [], [("not quiet",)]
        return [(("alarm",), self._next_alarm(state))], []

    def _load(self, number: int) -> Local:
        local: Local = pickle.loads(self._blobs[number])
        return local

    def _judge(self, state: State) -> list[tuple[Any, ...]]:
        key = (state[1], self.without(state))
        known = self._judged.get(key)
        if known is None:
            known = self._judged[key] = judge(Ended(self, state))  # type: ignore[arg-type]
        return known


class Ended:
    """A run that has ended, as the judge reads it."""

    def __init__(self, model: Model, state: State) -> None:
        locals_ = {site: model._load(n) for site, n in zip(model.sites, state[1], strict=True)}
        self.options = model.options
        self.disks = {site: local.disk for site, local in locals_.items()}
        out = model.without(state)
        self.members = {s: local.member for s, local in locals_.items() if s not in out}
        self.seen = {site: local.seen for site, local in locals_.items()}
        self.opened = {site: local.opened for site, local in locals_.items()}
        self.stages = {k: v for local in locals_.values() for k, v in local.stages.items()}
        self.listed: dict[str, tuple[str, ...]] = {}
        self.before: dict[tuple[str, str, int], int] = {}
        self.payloads: dict[tuple[str, str, int], bytes] = {}
        self.copied: dict[tuple[str, str, int], bytes] = {}  # nobody here is a producer
        self.epochs: dict[int, tuple[Any, ...]] = {}
        self.violations: list[tuple[Any, ...]] = []
        for site, local in locals_.items():
            for epoch, what in local.epochs.items():
                if self.epochs.setdefault(epoch, what) != what:
                    self.violations.append(("one decision per number", epoch, site))

        self.nominal = {e: groups for one in locals_.values() for e, groups in one.nominal.items()}
        self.down = set(out)
        self.lost = {site: local.lost for site, local in locals_.items() if local.lost}
        self.rollbacks = [(site, one) for site, local in locals_.items() for one in local.rollbacks]
        self.ever: set[Any] = set()
        self.first_epoch = {s: local.first_epoch for s, local in locals_.items() if local.lost}

    def losses(self) -> bool:
        return bool(self.lost)

    def present(self, _epoch: int, _group: str) -> tuple[str, ...]:
        return tuple(self.members)

    def removed(self, _group: str) -> bool:
        return False

    def ended_with(self, _group: str, _epoch: int, _member: str) -> bool:
        return False

    def skipped(self, _site: str, _epoch: int) -> bool:
        return False  # nobody is absent for that long

    def left(self, _site: str) -> bool:
        return False

    def incarnation(self, site: str) -> int:
        member = self.members.get(site)
        return member.incarnation if member is not None else 1

    def quiet(self) -> bool:
        return True


_STRUCTURES: dict[Any, Structure] = {}


def _structure(key: Any) -> Structure:
    return _STRUCTURES[key]


def _path(came_from: Mapping[State, tuple[State, Step] | None], state: State) -> list[Step]:
    steps: list[Step] = []
    at = came_from[state]
    while at is not None:
        steps.append(at[1])
        at = came_from[at[0]]
    return steps[::-1]


def _parts(call: Call) -> tuple[Call, ...]:
    """What happens at one moment."""
    return tuple(call[2]) if call[1] == "together" else (call,)


def edit_call(site: str, edit: Edit) -> Call:
    return (site, "ask", ("change", edit))
