"""Whom a round waits for, when it lasts too long: so that every site can name them.

Who waits for answers says so towards the first site, which tells all. On the way each leaves out
those that have said so themselves: they wait for somebody, too. Nothing depends on it.
"""

from collections.abc import Callable

from ordercast.core.stability.seat import Seat
from ordercast.model.groups import Site
from ordercast.model.options import NEVER
from ordercast.wire.frames import Item
from ordercast.wire.stability import RoundMissing


class Missing:
    def __init__(self, seat: Seat, send: Callable[[Site, Item], None], patience: int) -> None:
        self.sites: tuple[Site, ...] = ()  # as the first site says
        self._seat = seat
        self._send = send
        self._patience = patience
        self._look_at = NEVER
        self._said: dict[Site, tuple[Site, ...]] = {}  # by those below
        self._told: tuple[Site, ...] = ()

    def begun(self, now: int) -> None:
        self.ended()
        self._look_at = now + self._patience

    def ended(self) -> None:
        self.sites = self._told = ()
        self._said.clear()
        self._look_at = NEVER

    def flush(self, now: int) -> int:
        """When to look again."""
        if self._seat.under_way and now >= self._look_at:
            self._look_at = now + self._patience
            self._tell()
        return self._look_at if self._seat.under_way else NEVER

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
