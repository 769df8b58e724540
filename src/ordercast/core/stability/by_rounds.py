"""A protocol of [STAB] as the tracker of a running site (docs/stability.md says why).

All sites of the domain in this epoch take part, alive or not. Each site puts in how far its durable
log and its settled prefix reach, for each group that it is a member of. Counts only grow while the
epoch lasts, so the result of a round stays true.

A site that has something that is not final asks the first site for a round: at once if an
application waits (`safe`, causal order), else by the trigger of §6, or after `report_delay`. Other
sites than the first wait twice as long, so that the first can begin by itself. After a round that
brought nothing a site waits longer.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ordercast.core.stability.arrays import LogArray, changes_between
from ordercast.core.stability.interface import MakeStability, TrackingProgress
from ordercast.core.stability.paths import paths_of
from ordercast.core.stability.protocols import Manner
from ordercast.core.stability.seat import Seat
from ordercast.core.stability.trigger import Trigger
from ordercast.core.structure import Structure
from ordercast.model.groups import Group, Site
from ordercast.model.options import NEVER, Options
from ordercast.wire.frames import Item
from ordercast.wire.stability import ROUNDS, RoundAsk, RoundMissing

_ANY = NEVER  # in a RoundAsk: one more round, whatever the last one was
_LONG = 10  # times `report_delay`: then sites tell for whom a round waits
_LONGEST = 64  # times `report_delay`: the longest pause between rounds that bring nothing
_UNHEARD = (0, 0, 0, "")


class RoundWaits:
    """The sites that a round waits for, when it lasts too long, so that every site can name them.

    A site that waits for answers names the missing sites towards the first site, which tells all.
    On the way each site leaves out those that have reported themselves: they are waiting, too.
    This is for operators; no protocol depends on it.
    """

    def __init__(self, seat: Seat, send: Callable[[Site, Item], None], patience: int) -> None:
        self.sites: tuple[Site, ...] = ()  # as the first site has told
        self._seat = seat
        self._send = send
        self._patience = patience
        self.look_at = NEVER  # when to tell for whom the round waits
        self._said: dict[Site, tuple[Site, ...]] = {}  # by the sites below
        self._told: tuple[Site, ...] = ()

    def watch(self, now: int, *, under_way: bool) -> None:
        """A round has begun or ended. `under_way`: a round is under way now."""
        self.sites = self._told = ()
        self._said.clear()
        self.look_at = now + self._patience if under_way else NEVER

    def look(self, now: int) -> None:
        """Called at `look_at`, while a round is under way."""
        self.look_at = now + self._patience
        self._tell()

    def receive(self, peer: Site, item: RoundMissing) -> None:
        if item.round != self._seat.part.round or not self._seat.under_way:
            return
        if peer == self._seat.above:
            self.sites = item.sites
            self._tell_below(item)
        elif peer in self._seat.below:
            self._said[peer] = item.sites
            self._tell()

    def _tell(self) -> None:
        seat = self._seat
        found = dict.fromkeys(seat.part.awaited())
        for sites in self._said.values():
            found.update(dict.fromkeys(sites))
        for name in (seat.site, *self._said):
            found.pop(name, None)
        if tuple(found) == self._told:
            return
        self._told = tuple(found)
        item = RoundMissing(seat.part.round, self._told)
        if seat.above is not None:
            self._send(seat.above, item)
        else:
            self.sites = self._told
            self._tell_below(item)

    def _tell_below(self, item: RoundMissing) -> None:
        for peer in self._seat.below:
            self._send(peer, item)


class TimeToFinal:
    """Measures the time from log to final, of one message at a time."""

    def __init__(self) -> None:
        self.last = self.slowest = self.count = self.total = 0
        self.idle = True  # no message is measured now
        self._message: tuple[Group, int] = ("", 0)
        self._since = 0

    def logged(self, group: Group, number: int, now: int) -> None:
        """Measure this message. Call it if this is idle."""
        self.idle = False
        self._message, self._since = (group, number), now

    def final(self, group: Group, number: int, now: int) -> None:
        if not self.idle and self._message[0] == group and self._message[1] <= number:
            self.idle = True
            self.last = now - self._since
            self.slowest = max(self.slowest, self.last)
            self.count += 1
            self.total += self.last


class ByRounds:
    def __init__(
        self,
        manner: Manner,
        site: Site,
        structure: Structure,
        send: Callable[[Site, Item], None],
        options: Options,
        boot: int,
        clock: Callable[[], int],
    ) -> None:
        self.site = site
        self.structure = structure
        self._named = structure.groups
        self.send = send
        self.clock = clock
        self.eager = options.prompt_stability
        self.paths = paths_of(site, structure, structured=manner.structured)
        # This site's own counts. A group of which no member is known to have anything is not there:
        # so an epoch does not begin with a round about all groups. An entry may lack members then.
        self._logs: LogArray = {}
        self.seat = Seat(site, self.paths, manner, send, self._logs, self._ended, boot)
        self._touched = self.seat.touched
        self.is_first = self.seat.above is None
        limits, delay = options.limits, options.timing.report_delay
        buffer = max(1, min(limits.window_messages, limits.held_batches // 2))
        self._linger = options.timing.ack_delay
        self.trigger = Trigger(buffer, delay if self.is_first else 2 * delay)
        self.waits = RoundWaits(self.seat, send, _LONG * delay)
        self._members: dict[Group, tuple[Site, ...]] = {}
        self._known: LogArray = {}  # what the last round found
        self._stable: dict[Group, int] = {}
        self._final: dict[Group, int] = {}
        self._news: dict[Group, None] = {}  # more is stable or final than was told
        self._not_final: dict[Group, None] = {}
        self._at_once: dict[Group, None] = {}  # an application waits for messages of these
        self._time = TimeToFinal()
        self.rounds = 0  # how many have ended
        # When to have a round.
        self.held = 0  # messages in the log that are not final
        self._finals = 0  # messages in the log that became final
        self._oldest = self._newest = 0  # when the first and the last of the held messages came
        self._since = NEVER  # since when a round has been worth asking for
        self._times = 1  # how often the patience; doubles after a round without news
        self._wanted = False  # some site has asked for a round
        self._asked = False  # this site has asked, and no round has begun since
        self._part = self.seat.part
        self._begun = self._part.round  # the last round that is known here to have begun, and then:
        self._begun_at = self._begun_held = self._begun_finals = 0  # the time, `held`, `_finals`
        # As `concerns` does it for one group; there may be very many.
        concerning, mine = structure.concerning(site), structure.groups_at(site)
        self._members = {group: self._named[group] for group in concerning}
        self._stable, self._final = dict.fromkeys(concerning, 0), dict.fromkeys(concerning, 0)
        self._mine = dict.fromkeys(mine)

    # --- what the site tells ----------------------------------------------------------------------

    def concerns(self, group: Group, members: Sequence[Site]) -> None:
        if group in self._members:
            return
        self._members[group] = tuple(members)
        self._stable[group] = self._final[group] = 0
        if self.site in members:
            self._mine[group] = None
        self._learn(group)

    def logged(self, group: Group, number: int, members: Sequence[Site]) -> bool:
        if group not in self._members:
            self.concerns(group, members)
        before, settled = self._logs.get(group, _UNHEARD)[:2]
        self._logs[group] = (number, settled, 1, self.site)
        self._touched[group] = None
        now = self.clock()
        if not self.held:
            self._oldest = now
        self._newest = now
        self.held += number - before
        if self._time.idle:
            self._time.logged(group, number, now)
        self._times = 1
        if self._since == NEVER or not self._not_final:
            self._since = now
        self._not_final[group] = None
        if len(self._members[group]) == 1:
            self._stable[group] = number
            return True
        if self.eager and (self._asks_for(group) or self._was_behind(group)):
            self._at_once[group] = None
        return False

    def settled(self, group: Group, number: int) -> None:
        self._logs[group] = (self._logs.get(group, _UNHEARD)[0], number, 1, self.site)
        self._touched[group] = None
        if len(self._members[group]) == 1:
            self._become_final(group, number)
            if self._primary(group) == self.site:
                self._not_final.pop(group, None)
                return  # no other site needs to know
        # A message of the group is not final, or is not known to be at the primary.
        if self._since == NEVER or not self._not_final:
            self._since = self.clock()
        self._not_final[group] = None

    def _primary(self, group: Group) -> Site:
        members = () if group in self._named else self._members[group]
        return self.structure.primary(group, members)

    def _asks_for(self, group: Group) -> bool:
        """Whether this is the one member that asks at once: the first site if it is a member, else
        the member that as a rule has a message first."""
        members = self._members[group]
        if self.paths.first in members:
            return self.is_first
        primary = self._primary(group)
        return self.site == (primary if primary in members else members[0])

    def _own(self, group: Group) -> tuple[int, int, int, Site] | None:
        """This site's counts. None: it is no member."""
        return self._logs.get(group, _UNHEARD if group in self._mine else None)

    def _was_behind(self, group: Group) -> bool:
        """Whether the last round found this site furthest behind, or with nothing of what others
        have, and it has logged more since."""
        entry = self._known.get(group, _UNHEARD)
        if group not in self.seat.answer:
            return group in self._known and self._logs.get(group, _UNHEARD)[0] > 0
        return entry[3] == self.site and self._logs[group][0] > entry[0]

    # --- rounds -----------------------------------------------------------------------------------

    def receive(self, peer: Site, item: Item) -> list[Group]:
        if not isinstance(item, ROUNDS):
            return []
        if isinstance(item, RoundAsk):
            if peer in self.seat.below and item.round >= self.seat.round:
                self._wanted = True
        elif isinstance(item, RoundMissing):
            self.waits.receive(peer, item)
        else:
            self.seat.receive(peer, item)
            if self._part.round > self._begun or self._part.told > self._begun:
                self._take_note()
        news, self._news = list(self._news), {}
        return news

    def _take_note(self) -> None:
        """A new round has begun. It counts all that is logged here, and answers all requests."""
        now = self.clock()
        self._begun, self._begun_at = max(self._part.round, self._part.told), now
        self._begun_held, self._begun_finals = self.held, self._finals
        self._asked = self._wanted = False
        self._at_once.clear()
        self._since = NEVER
        self.waits.watch(now, under_way=True)
        self.trigger.begun(self.held, self._oldest, self._newest, now)

    def _ended(self, array: LogArray) -> None:
        if self._part.round > self._begun or self._part.told > self._begun:
            self._take_note()
        self.rounds += 1
        changes = changes_between(self._known, array)
        self._known = array
        # What the last round said already is learnt. What was logged since then is not final.
        some = self._members if changes is None else dict.fromkeys((*changes, *self._not_final))
        moved = False
        for group in some:
            moved = (group in self._members and self._learn(group)) or moved
        self._times = 1 if moved else min(2 * self._times, _LONGEST)
        now = self.clock()
        # In `full_dist` a round may end after a later one has begun.
        self.waits.watch(now, under_way=self._part.round > self._part.told)
        self.trigger.ended(min(self._finals - self._begun_finals, self._begun_held), now)
        self._oldest = self._begun_at  # as a rule, all older messages are final now
        if self._not_final and self._since == NEVER:
            self._since = now

    def _learn(self, group: Group) -> bool:
        """Take from the last round what it says of a group; whether that is news. An entry counts
        only if all members of the group in this epoch are in it."""
        members = self._members[group]
        entry = self._known.get(group)
        mine = self._own(group)
        if entry is None or entry[2] != len(members):
            if self.eager and self._was_behind(group):
                self._at_once[group] = None
            if entry is not None and mine is _UNHEARD:  # others have some: say that here is none
                self._logs[group] = (0, 0, 1, self.site)
                self._touched[group] = None
            return False
        logged, settled = entry[:2]
        if mine is not None and logged > mine[0]:
            return False  # wrong: no round can find more than this site has logged
        if mine is not None and mine[:2] == (logged, settled):
            self._not_final.pop(group, None)
        elif self.eager and mine is not None and self._was_behind(group):
            self._at_once[group] = None
        if logged <= self._stable[group] and settled <= self._final[group]:
            return False
        self._stable[group] = max(logged, self._stable[group])
        self._become_final(group, settled)
        self._news[group] = None
        return True

    def _become_final(self, group: Group, number: int) -> None:
        more = number - self._final[group]
        if more > 0:
            self._final[group] = number
            if group in self._logs:
                self._time.final(group, number, self.clock())
                self.held -= more
                self._finals += more

    def restarted(self, peer: Site | None) -> None:
        if peer is None:
            self._asked = self._wanted = True
            for neighbour in self.seat.neighbours:  # so they learn that this site has started anew
                self.send(neighbour, RoundAsk(_ANY))
            return
        self.seat.restarted(peer)
        if peer == self.seat.above and self._asked:
            self.send(peer, RoundAsk(_ANY))

    # --- when to have a round ---------------------------------------------------------------------

    def flush(self, now: int) -> int:
        under_way = self._part.round > self._part.told
        at = NEVER
        if under_way:
            if now >= self.waits.look_at:
                self.waits.look(now)
            at = self.waits.look_at
        if not (under_way if self.is_first else self._asked):
            patient_until = self._patient_until() if self._not_final else NEVER
            asked = self._wanted or self._at_once or now >= patient_until
            if asked or (self._not_final and self._times == 1 and self.held >= self.trigger.limit):
                self._begin() if self.is_first else self._ask()
                patient_until = self._patient_until()
            at = min(at, patient_until)
        return at if at > now else now + self._linger  # a later time, whatever peers say

    def _begin(self) -> None:
        self.seat.begin()
        if self._part.round > self._begun:
            self._take_note()

    def _ask(self) -> None:
        assert self.seat.above is not None
        self._asked = True
        self.send(self.seat.above, RoundAsk(self.seat.round))

    def _patient_until(self) -> int:
        """When to ask for a round at the latest; NEVER, if it was asked for or is under way."""
        if self._since == NEVER or not self._not_final or self._asked:
            return NEVER
        if self.is_first and self._part.round > self._part.told:
            return NEVER
        return self._since + self._times * self.trigger.patience

    def patience(self) -> int:
        """0 if an application, or a buffer that fills up, waits for the round."""
        return 0 if self.eager or 2 * self.held >= self.trigger.limit else self._linger

    def deadline(self) -> int:
        """NEVER if nothing is left to do here: all is final. Otherwise 0, which is no real time."""
        busy = self._not_final or self._wanted or self._asked or self.seat.under_way
        return 0 if busy else NEVER

    # --- what is known ----------------------------------------------------------------------------

    def stable(self, group: Group) -> int:
        return self._stable.get(group, 0)

    def stable_elsewhere(self, group: Group, members: Sequence[Site]) -> int:
        """A round tells everybody the counts of all groups."""
        entry = self._known.get(group)
        if entry is None or entry[2] != len(members or self._named.get(group, ())):
            return self.stable(group)
        return max(entry[0], self.stable(group))

    def final(self, group: Group) -> int:
        return self._final.get(group, 0)

    def progress(self) -> TrackingProgress:
        return TrackingProgress(
            self.held, self.rounds, self.trigger.took, self.trigger.limit,
            self._time.last, self._time.slowest, self._time.count, self._time.total,
            self.waits.sites,
        )  # fmt: skip

    def open(self) -> list[Group]:
        return [group for group in self._not_final if group in self._logs]

    def behind(self, group: Group) -> list[Site]:
        """The sites whose answers a round waits for; else one of the sites that the last round
        found furthest behind."""
        if self.waits.sites:
            return list(self.waits.sites)
        entry, mine = self._known.get(group, _UNHEARD), self._own(group)
        if entry[3] and (mine is None or entry[:2] < mine[:2]):
            return [entry[3]]
        return []


def by_rounds(manner: Manner) -> MakeStability:
    """What makes a site's tracker: `ByRounds` in this manner."""
    return partial(ByRounds, manner)
