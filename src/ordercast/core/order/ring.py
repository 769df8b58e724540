"""`ring`: a token goes round all sites of a domain; the site that holds it numbers: [TOM] §4.2.1.

The token carries the last number given. The site that holds it numbers the batches that wait there,
one after the other. It sends each batch to its members, and a header to every other site of the
domain: a site that did not learn that a number is not for it would wait for that number for ever
(errata OTHER-3, SWAP-6). The number is the order key; each site lets the numbers pass one by one,
without gap. Only one site numbers at a time, so there is one order, and it is causal.

*Repair.* A site asks in the token for numbers that it lacks, if it knew of them a rotation ago. The
site that gave them sends them again. It keeps them until the token has gone round and found that
they have passed at all sites (the token's `floor`). So only the token, the numbered batches and the
passed batches must be durable where a restarted site goes on (`wait`), and at most `AHEAD` numbers
are open.

*Pace.* While something was numbered in the last rotation, the token moves on at once. After that it
rests at each site, longer with every idle rotation. A site that has something to send then calls
the token. The call goes backwards round the ring to the token, and the sites that the call has
passed do not let the token rest.

The token is never made again within an epoch. It is lost only with a site, and then the next epoch
has a token of its own. An origin outside the domain hands its batches to the root of its tree.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice, pairwise

from msgspec.structs import asdict, replace

from ordercast.core.claims import check_ahead
from ordercast.core.order.direct import Domainwide, Mine
from ordercast.core.order.interface import CLOSING, Environment
from ordercast.core.order.kept_states import DirectState, ResumedRing
from ordercast.core.outbox import (
    Note,
    OrderingState,
    Passed,
    Stamped,
    Stream,
    Visited,
    by_stream,
    stream_seqs,
)
from ordercast.core.structure import Structure
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Key
from ordercast.model.options import MILLISECOND, NEVER, SECOND
from ordercast.wire.frames import DOWN, UP, Final, Item, Offer
from ordercast.wire.ring import Call, Header, Numbered, RepairRange, Token

AHEAD = 4_096  # the most numbers that are given and have not passed everywhere
FIRST_REST = MILLISECOND  # at each site in the second idle rotation; doubles with each more
# The longest rest while some site lacks numbers, and otherwise.
REPAIR_REST, LONGEST_REST = 100 * MILLISECOND, 500 * MILLISECOND
# How long a site waits before it asks for a hole; doubles with each request, up to the second.
REPAIR_AFTER, REPAIR_AT_MOST = 200 * MILLISECOND, 2 * SECOND
MOST_HOLES = 16  # the most holes that a site asks for at once

Entry = tuple[Site, Batch | None]
"""The site that gave the number, and the batch if it is for this site."""


class Ring(Domainwide):
    """State: the token, or a copy of it as sent on; batches that wait for it; numbers given here;
    numbers that have come and have not passed."""

    states = (OrderingState, DirectState, ResumedRing)

    restless = (Token, Call)

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        super().__init__(site, structure, environment, causal=causal)
        tellers = self.structure
        self._ring = tellers.domains[tellers.root_of[site]]
        place = self._ring.index(site)
        self._first = place == 0
        self._after = self._ring[(place + 1) % len(self._ring)]
        self._before = self._ring[place - 1]
        self._token: Token | None = Token(1, 0, 0, 0, 0) if self._first else None
        self._sent: Token | None = None  # the token as it was last sent on
        self._unheard = False  # the next site has not acknowledged `_sent`
        self._turn = int(self._first)  # the token's turn when it was last here
        self._fresh = self._first  # the token has just come: `flush` has not seen it
        self._rest_until = 0
        self._waiting: deque[Batch] = deque()  # own batches and batches from outside
        self._given: dict[int, Batch] = {}  # by number, above the token's floor
        self._entries: dict[int, Entry] = {}
        self._passed = 0  # the last number that has passed here
        self._advancing = False
        self._seen = 0  # the token's number when it was last here
        # The number before the first hole (-1: none); when to ask for it; how long to wait then.
        self._hole, self._ask_at, self._ask_wait = -1, NEVER, REPAIR_AFTER
        # Since the token left: this site has sent a call; a call has come. `_slow`: it left when it
        # was resting at each site.
        self._calling = self._called = self._slow = False
        self._queued: dict[Stream, int] = {}  # from outside: last seq that waits or has its number
        self._through: dict[Stream, int] = {}  # the last seq that has its number
        self._numbers_before: dict[Mine, int] = {}  # of own batches
        self._closing = False  # the Close was submitted here

    # --- what waits for the token -----------------------------------------------------------------

    def submit(self, batch: Batch) -> None:
        mine = (batch.incarnation, batch.group, batch.seq)
        if batch.incarnation == CLOSING and self._closing:
            return  # the Close is submitted until it has passed
        self._closing = self._closing or batch.incarnation == CLOSING
        self.expect_place(batch)
        gateway = self.way(batch)
        number = self._numbers_before.pop(mine, 0)
        if gateway != self.site:
            self._handed[mine] = batch
            self.environment.send(gateway, UP, Offer(batch, 0))
        elif self.known(batch):
            if number in self._given:
                self._given[number] = batch
                self._enter(number, self.site, self._for_here(batch))
            self.has_place(batch)
        else:
            self._waiting.append(batch)

    def _offered(self, batch: Batch) -> None:
        """Take a batch that an origin outside the domain has offered."""
        if self.known(batch) or batch.seq <= self._inherited.get(_stream(batch), 0):
            self._answer(batch, 1)  # a repeat: the answer was lost, or is under way
        elif batch.seq > self._queued.get(_stream(batch), 0):
            if self.environment.resumes:
                self.environment.persist(Stamped(batch, 0, self.site))
            self._queue(batch)

    def _queue(self, batch: Batch) -> None:
        self._queued[_stream(batch)] = batch.seq + batch.count - 1
        self._waiting.append(batch)

    def _answer(self, batch: Batch, number: int) -> None:
        mine = (batch.incarnation, batch.group, batch.seq)
        self.environment.send(batch.origin, DOWN, Final(*mine, number, self.site))

    # --- numbering --------------------------------------------------------------------------------

    def _number_all(self, token: Token) -> Token:
        """Number the batches that wait here, while there is room."""
        # After a restart this site may have given numbers that its record of the token lacks.
        number = max(token.number, next(reversed(self._given), 0))
        most = token.floor + AHEAD
        while self._waiting and number < most and self._may_number(self._waiting[0]):
            number += 1
            self._give(number, self._waiting.popleft())
        if number == token.number:
            return token
        return Token(token.turn, number, token.floor, token.least, 0, token.missing)

    def _may_number(self, batch: Batch) -> bool:
        return batch.incarnation == CLOSING or self.environment.room()

    def _give(self, number: int, batch: Batch) -> None:
        if self.environment.resumes:
            self.environment.persist(Stamped(self._kept(batch), number, self.site))
        self._given[number] = batch
        for site in self._ring:
            if site != self.site:
                self._tell(site, number, batch)
        self._through[_stream(batch)] = batch.seq + batch.count - 1
        self._enter(number, self.site, self._for_here(batch))
        if batch.origin == self.site:
            self.has_place(batch)
        else:
            self._answer(batch, number)

    def _tell(self, site: Site, number: int, batch: Batch) -> None:
        """Send a number to a site. A batch without its body is final: its members have passed it
        and need it no longer."""
        if site not in self.members(batch):
            self.environment.send(site, UP, Header(number))
        elif batch.body:
            self.environment.send(site, UP, Numbered(batch, number))

    def _for_here(self, batch: Batch) -> Batch | None:
        return batch if self.site in self.members(batch) else None

    # --- what passes ------------------------------------------------------------------------------

    def check(self, peer: Site, item: Item) -> None:
        if type(item) is Offer:
            self.check_offer(peer, item)
        elif type(item) is Final:
            self.check_handed(peer, item)
        elif peer not in self._ring:
            raise PeerMistake("it is of another domain")
        elif isinstance(item, (Numbered, Header)):
            if item.number > self._passed + AHEAD:
                raise PeerMistake(f"number {item.number} is given while {self._passed} has passed")
            if type(item) is Numbered:
                self.check_passed_on(peer, item.batch)
                self.check_member(item.batch)
        elif type(item) is Token:
            self._check_token(peer, item)
        elif type(item) is not Call or peer != self._after:
            raise PeerMistake(f"it sends a {type(item).__name__}")

    def _check_token(self, peer: Site, token: Token) -> None:
        """PeerMistake unless its floor has passed here, and its turn and number have not shrunk."""
        if peer != self._before:
            raise PeerMistake("it sends the token and is not the site before")
        if token.turn <= self._turn:
            return  # a repeat
        check_ahead(token.turn, self._turn, "turn")
        right = token.floor <= self._passed and token.least <= token.number
        if not (right and self._seen <= token.number <= token.floor + AHEAD):
            raise PeerMistake(f"a token of number {token.number} and floor {token.floor}")
        if any(site not in self._ring for site, _, _ in token.missing):
            raise PeerMistake("a token in which a site of another domain misses something")

    def receive(self, peer: Site, item: Item) -> None:
        if type(item) is Offer:
            self._offered(item.batch)
        elif type(item) is Final:
            self.placed_elsewhere(item)
        elif type(item) is Numbered:
            self._enter(item.number, peer, item.batch)
        elif type(item) is Header:
            self._enter(item.number, peer, None)
        elif type(item) is Token:
            if item.turn > self._turn:
                self._turn, self._token, self._fresh = item.turn, item, True
        elif type(item) is Call and not self._is_on_its_way(item.turn):
            self._called = True

    def _is_on_its_way(self, turn: int) -> bool:
        """Whether the token is on its way to the next site, which last saw it at this turn."""
        return self._token is None and self._sent is not None and self._sent.turn > turn

    def _enter(self, number: int, giver: Site, batch: Batch | None) -> None:
        if number > self._passed and number not in self._entries:
            self._entries[number] = (giver, batch)
            self._advance()

    def _advance(self) -> None:
        if self._advancing:
            return
        self._advancing = True
        while (entry := self._entries.get(self._passed + 1)) is not None:
            giver, batch = entry
            if batch is not None and not self.environment.may_log():
                break
            self._passed += 1
            del self._entries[self._passed]
            if batch is not None:
                self.append(Key((self._passed,), giver), batch)
        self._advancing = False

    def resume(self) -> None:
        self._advance()

    def held(self) -> int:
        return sum(batch.origin != self.site for batch in self._waiting)

    # --- the token --------------------------------------------------------------------------------

    def flush(self, now: int) -> int:
        """Number what waits and send the token on, or let it rest; call it if it is elsewhere."""
        token = self._token
        if token is None:
            wanted = bool(self._waiting) and self._slow and self.environment.room()
            if not self._calling and (self._called or wanted):
                self._calling = True
                self.environment.send(self._before, UP, Call(self._turn))
            return NEVER
        if came := self._fresh:
            self._fresh = False
            self._rest_until = now + self._rest(token)
            self._forget_given(token.floor)
            for site, first, last in token.missing:
                self._repair(site, first, last)
        numbered = self._number_all(token)
        if len(self._ring) == 1:
            self._forget_given(self._passed)
            if numbered.floor < self._passed:
                numbered = replace(numbered, floor=self._passed)
        elif self._called or now >= self._rest_until or numbered is not token:
            self._send_on(now, numbered)
            return NEVER
        self._token = numbered
        if self.environment.resumes and (came or numbered.number != token.number):
            self.environment.persist(Visited(replace(numbered, missing=()), True, self._passed))
        return NEVER if len(self._ring) == 1 else self._rest_until

    def _rest(self, token: Token) -> int:
        idle = token.idle // len(self._ring)  # in whole rotations
        most = LONGEST_REST if token.floor == token.number else REPAIR_REST
        return min(FIRST_REST << min(idle - 1, 10), most) if idle else 0

    def _send_on(self, now: int, token: Token) -> None:
        floor, least = token.floor, min(token.least, self._passed)
        if self._first:  # the token has visited all sites since it was here
            floor, least = token.least, self._passed
        others = [one for one in token.missing if one[0] != self.site]
        missing = (*others, *self._missing(now, token.number))
        idle = min(token.idle + 1, 16 * len(self._ring))
        sent = Token(token.turn + 1, token.number, floor, least, idle, missing)
        self._slow = token.idle >= len(self._ring)
        self._calling = self._called = False
        self._token, self._sent, self._unheard = None, sent, True
        if self.environment.resumes:
            self.environment.persist(Visited(replace(sent, missing=()), False, self._passed))
        self.environment.send(self._after, UP, sent)

    def _missing(self, now: int, number: int) -> list[RepairRange]:
        """The holes to ask for: those that have been here for some time, and for a rotation."""
        seen, self._seen = self._seen, number
        if self._passed >= seen or self._passed + 1 in self._entries:
            self._hole = -1
            return []
        if self._hole != self._passed:
            self._hole, self._ask_wait = self._passed, REPAIR_AFTER
            self._ask_at = now + self._ask_wait
        if now < self._ask_at:
            return []
        self._ask_wait = min(2 * self._ask_wait, REPAIR_AT_MOST)
        self._ask_at = now + self._ask_wait
        here = [self._passed, *sorted(n for n in self._entries if n <= seen), seen + 1]
        holes = ((a + 1, b - 1) for a, b in pairwise(here) if b - a > 1)
        return [(self.site, first, last) for first, last in islice(holes, MOST_HOLES)]

    def _repair(self, site: Site, first: int, last: int) -> None:
        for number, batch in self._given.items():
            if first <= number <= last:
                self._tell(site, number, batch)

    def _forget_given(self, floor: int) -> None:
        while self._given and (first := next(iter(self._given))) <= floor:
            del self._given[first]

    def acknowledged(self, peer: Site, items: Sequence[Item]) -> None:
        if self._sent is not None and peer == self._after and self._sent in items:
            self._unheard = False

    def final(self, group: Group, seq: int) -> None:
        """What is final has its place, though the root may have restarted before it said so."""
        for mine in [one for one in self._handed if one[1] == group and one[2] <= seq]:
            self.has_place(self._handed.pop(mine))

    def waits_for(self, batch: Batch) -> list[Site]:
        """The next site, if it has not acknowledged the token that it was sent."""
        if self.is_handed(batch):
            return [self.way(batch)]
        return [self._after] if self._unheard and self._token is None else []

    def most_queued(self, window: int, origins: int) -> int:
        """Numbers that have not passed, and their repeats; offers or answers; token and call."""
        return 2 * AHEAD + window * origins + 2

    # --- what survives a restart ------------------------------------------------------------------

    def restarted(self, peer: Site | None) -> None:
        """A restarted peer asks in the token for numbers that it lacks. It may have forgotten a
        call, or an answer that it was about to give. If this site has restarted, the token that
        it sent may be lost."""
        if peer is not None:
            self._calling = self._calling and peer != self._before
            for batch in self._handed.values():
                if self.way(batch) == peer:
                    self.environment.send(peer, UP, Offer(batch, 0))
            return
        if self._token is None and self._sent is not None:
            self._unheard = True
            self.environment.send(self._after, UP, self._sent)
        self._numbers_before.clear()
        self._slow = True  # it may be: this site does not know
        self._advance()

    def known(self, batch: Batch) -> bool:
        return batch.seq <= self._through.get(_stream(batch), 0)

    def note(self, record: Note) -> None:
        if isinstance(record, Visited):
            self._visited(record.token, held=record.held, passed=record.passed)
        elif isinstance(record, Stamped):
            self._again(record.batch, record.clock) if record.clock else self._queue(record.batch)

    def _visited(self, token: Token, *, held: bool, passed: int) -> None:
        self._skip_to(passed)
        self._forget_given(token.floor)
        self._seen = token.number
        self._token, self._sent = (token, None) if held else (None, token)
        self._turn = token.turn if held else token.turn - 1

    def _again(self, batch: Batch, number: int) -> None:
        """Replay: this site gave the batch its number."""
        own = batch.origin == self.site
        self._closing = self._closing or batch.incarnation == CLOSING
        if own:  # it comes with its payloads when it is submitted again
            self._numbers_before[batch.incarnation, batch.group, batch.seq] = number
        elif self._waiting:
            batch = self._waiting.popleft()  # with its body, as it was noted when it came
        self._through[_stream(batch)] = batch.seq + batch.count - 1
        self._given[number] = batch
        mine = self._for_here(batch)
        if number > self._passed and not (own and mine and not batch.body):
            self._entries[number] = (self.site, mine)

    def _kept(self, batch: Batch) -> Batch:
        """The batch as a note has it: its body is with the accepted batches, or noted before."""
        return batch if batch.incarnation == CLOSING else replace(batch, body=b"")

    def _skip_to(self, passed: int) -> None:
        self._passed = max(passed, self._passed)
        for number in [number for number in self._entries if number <= self._passed]:
            del self._entries[number]

    def replay(self, record: Passed) -> None:
        self._skip_to(record.placed.key.path[0])
        super().replay(record)

    def restore(self, state: OrderingState) -> None:
        super().restore(state)
        if not isinstance(state, ResumedRing):
            return
        self._through = by_stream(state.through)
        self._queued = dict(self._through)
        for batch, number in state.given:
            self._again(batch, number)
        for batch in state.waiting:
            self._queue(batch)
        token, held, passed = state.token
        self._skip_to(passed)
        if token is not None:
            self._visited(token, held=held, passed=passed)

    def journal(self) -> DirectState:
        state = super().journal()
        if not self.environment.resumes:
            return state
        return ResumedRing(
            **asdict(state),
            token=(self._token or self._sent, self._token is not None, self._passed),
            through=stream_seqs(self._through),
            given=tuple((self.noted(batch), number) for number, batch in self._given.items()),
            waiting=tuple(batch for batch in self._waiting if batch.origin != self.site),
        )


def _stream(batch: Batch) -> Stream:
    return (batch.origin, batch.incarnation, batch.group)
