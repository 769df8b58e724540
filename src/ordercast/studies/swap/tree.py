"""Joining and leaving the tree of a swap object, by words with neighbours only ([SWAP] §6.2).

A joiner becomes a leaf beside a site that it knows, and learns the last message chained there,
behind which it chains what its neighbour forwards (errata SWAP-3). A leaver locks itself and its
neighbours, in the order of their names, so that two leavers never wait for each other. A locked
site puts off requests and its own sends, but for what the locker sends. With all grants nothing is
on its way to the leaver, and it says `Left` to each neighbour on the same FIFO link. One neighbour,
the heir, takes its place among the others, and the state that it held if it was the sink or the
root. If its neighbours have changed meanwhile it gives the locks back and begins again; the last
site stays (SWAP-2).

As printed, the sink's heir would point to the leaver and the others would not be turned at all. The
tree spans the sites that may send. The sites that deliver change by epochs, as everywhere (SWAP-8).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ordercast.core.order.kept_states import Ask
from ordercast.core.order.swaps import Step
from ordercast.model.groups import Site
from ordercast.wire.tom import MessageName


class MovingSwap(Protocol):
    """A swap object whose neighbours may change, as its place in the tree sees it."""

    def swap(self, ask: Ask) -> Sequence[Step]:
        """Take this site's own request."""

    def receive(self, peer: Site, ask: Ask) -> Sequence[Step]:
        """Take a neighbour's request."""

    def waiting(self) -> int:
        """The number of requests that wait here and may go on combined."""

    def turn(self) -> Sequence[Step]:
        """Combine the requests that wait, and let them go on."""

    def heir(self, neighbours: Sequence[Site]) -> Site:
        """The neighbour that is to take this site's place."""

    def handover(self) -> MessageName | None:
        """The object's value, if it is here."""

    def neighbour_left(self, gone: Site, heir: Site, value: MessageName | None) -> None:
        """A neighbour has left, and the heir, perhaps this site, has taken its place and its
        value."""


@dataclass(frozen=True, slots=True)
class Join:
    """The sender wants to be a leaf beside the receiver."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The joiner is a leaf now. `after`: the last message that is chained here."""

    after: MessageName


@dataclass(frozen=True, slots=True)
class JoinRefused:
    """The joiner is no leaf: the receiver has left, or is locked. Try another site, or later."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The sender wants to leave. `attempt` tells this lock from earlier ones that were given
    back."""

    attempt: int


@dataclass(frozen=True, slots=True)
class LockGrant:
    """This site sends the locker nothing more until the locker has left or given the lock back."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Release:
    """The lock is given back, or no longer asked for."""


@dataclass(frozen=True, slots=True)
class Left:
    """The sender is gone. Its other neighbours are now the heir's."""

    heir: Site
    neighbours: tuple[Site, ...]
    value: MessageName | None


Word = Join | Joined | JoinRefused | Lock | LockGrant | Release | Left


@dataclass(frozen=True, slots=True)
class Say:
    peer: Site
    word: Word


Told = Step | Say


class SwapTree:
    """State: neighbours; the holder of this site's lock and the sites that wait for it; requests
    that are put off; if this site is leaving, the sites whose locks it wants and how many of them
    it has."""

    def __init__(self, site: Site, swaps: MovingSwap, neighbours: Sequence[Site]) -> None:
        self.site = site
        self.swaps = swaps
        self.neighbours = sorted(neighbours)
        self.has_left = False
        self.after: MessageName | None = None  # a joiner's: the last message chained before it came
        self._locker: Site | None = None
        self._lockers: deque[tuple[Site, int]] = deque()
        self._put_off: deque[tuple[Site, Ask]] = deque()
        self._wanted: list[Site] = []
        self._locked = 0
        self._attempt = 0
        self._out: list[Told] = []

    @property
    def is_leaving(self) -> bool:
        return bool(self._wanted)

    # --- requests ---------------------------------------------------------------------------------

    def swap(self, ask: Ask) -> Sequence[Told]:
        if self._locker is not None:
            self._put_off.append((self.site, ask))
            return ()
        return self.swaps.swap(ask)

    def receive(self, peer: Site, ask: Ask) -> Sequence[Told]:
        """Take a request. A leaver that has locked itself still takes requests that were sent
        before the grants."""
        if self._locker in (None, peer, self.site):
            return self.swaps.receive(peer, ask)
        self._put_off.append((peer, ask))
        return ()

    def turn(self) -> Sequence[Told]:
        return () if self._locker is not None else self.swaps.turn()

    # --- joining and leaving ----------------------------------------------------------------------

    def join(self, beside: Site) -> Sequence[Told]:
        return (Say(beside, Join()),)

    def leave(self) -> Sequence[Told]:
        """Leave when all own messages are chained. A site that sends meanwhile stays, and so does
        the last site of the tree."""
        if self.neighbours and not self.is_leaving:
            self._begin()
        return self._said()

    def _begin(self) -> None:
        self._wanted = sorted([self.site, *self.neighbours])
        self._locked = 0
        self._attempt += 1
        self._ask()

    def _ask(self) -> None:
        wanted = self._wanted[self._locked]
        if wanted == self.site:
            self._lock(self.site, self._attempt)
        else:
            self._say(wanted, Lock(self._attempt))

    def _lock(self, locker: Site, attempt: int) -> None:
        if self._locker is not None:
            self._lockers.append((locker, attempt))
            return
        self._locker = locker
        if locker == self.site:
            self._granted()
        else:
            self._say(locker, LockGrant(attempt))

    def _granted(self) -> None:
        self._locked += 1
        if self._locked < len(self._wanted):
            self._ask()
        elif self._put_off:
            self._give_back()
        elif self._wanted == sorted([self.site, *self.neighbours]):
            self._go()
        else:
            self._begin_again()

    def _begin_again(self) -> None:
        """Lock anew: the neighbours have changed."""
        self._give_back()
        if self.neighbours:
            self._begin()

    def _give_back(self) -> None:
        wanted, self._wanted = self._wanted, []
        for site in wanted[: self._locked + 1]:
            if site != self.site:
                self._say(site, Release())
        self._unlock(self.site)

    def _go(self) -> None:
        self._out += self.swaps.turn()  # what had gathered goes first
        heir = self.swaps.heir(self.neighbours)
        value, self.has_left = self.swaps.handover(), True
        for site in self.neighbours:
            others = tuple(n for n in self.neighbours if n != heir) if site == heir else ()
            self._say(site, Left(heir, others, value if site == heir else None))
        self.neighbours, self._wanted = [], []

    # --- what neighbours say ----------------------------------------------------------------------

    def hear(self, peer: Site, word: Word, chained: MessageName) -> Sequence[Told]:
        """`chained`: the last message that is chained at this site."""
        if isinstance(word, Join):
            self._joins(peer, chained)
        elif isinstance(word, Joined):
            self.neighbours, self.after = [peer], word.after
        elif self.has_left:
            pass  # the asker has been, or will be, told so on this link
        elif isinstance(word, Lock):
            self._lock(peer, word.attempt)
        elif isinstance(word, LockGrant):
            if self.is_leaving and word.attempt == self._attempt:
                self._granted()
        elif isinstance(word, Release):
            self._unlock(peer)
        elif isinstance(word, Left):
            self._neighbour_left(peer, word)
        return self._said()

    def _joins(self, peer: Site, chained: MessageName) -> None:
        if self.has_left or self._locker is not None or self.is_leaving:
            self._say(peer, JoinRefused())
            return
        self.neighbours = sorted([*self.neighbours, peer])
        self._say(peer, Joined(chained))

    def _neighbour_left(self, peer: Site, left: Left) -> None:
        gained = left.neighbours if left.heir == self.site else (left.heir,)
        self.neighbours = sorted(n for n in (*self.neighbours, *gained) if n != peer)
        self.swaps.neighbour_left(peer, left.heir, left.value)
        self._unlock(peer)
        if self.is_leaving and peer in self._wanted[self._locked :]:
            self._begin_again()  # its grant will never come

    def _unlock(self, locker: Site) -> None:
        if self._locker != locker:
            self._lockers = deque(waiting for waiting in self._lockers if waiting[0] != locker)
            return
        self._locker = None
        while self._put_off and self._locker is None:
            peer, ask = self._put_off.popleft()
            own = peer == self.site
            self._out += self.swaps.swap(ask) if own else self.swaps.receive(peer, ask)
        if self._lockers:
            self._lock(*self._lockers.popleft())

    def _say(self, peer: Site, word: Word) -> None:
        self._out.append(Say(peer, word))

    def _said(self) -> Sequence[Told]:
        out, self._out = self._out, []
        return out
