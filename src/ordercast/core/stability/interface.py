"""What a stability tracker offers.

Counts are per group: members agree on the order of a group's messages, so "the first n" means the
same everywhere. A message is stable when it is in the durable log of *every* member. A log holds
everything for its site up to its last key, so all messages before a stable one are in the logs too.
A member's *settled* prefix is the longest prefix of its log in which everything is stable. A
message is final when it is in the settled prefix of every member.

A tracker's items leave after the burst's records are durable. So a count may include messages of
this burst: they are durable when the count is sent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ordercast.core.structure import Structure
from ordercast.model.groups import Group, Site
from ordercast.model.options import Options
from ordercast.wire.frames import Item


@dataclass(frozen=True, slots=True)
class TrackingProgress:
    """How tracking gets on at a site, for operators."""

    unstable: int  # messages in the log here that are not final
    rounds: int  # rounds that have ended since the site started in this epoch
    round_ns: int  # how long a round takes, as seen from here
    limit: int  # unstable messages that call for a round; 0: there are no rounds
    to_final_ns: int  # from log to final: the last message that was measured
    slowest_to_final_ns: int  # the slowest message that was measured
    measured: int  # how many messages were measured
    all_to_final_ns: int  # how long they took together
    waits_for: tuple[Site, ...]  # sites that a round has waited for too long


class Stability(Protocol):
    def logged(self, group: Group, number: int, members: Sequence[Site]) -> bool:
        """This site's log holds the group's messages up to `number`; whether more is stable or
        final now. `members`: the members of an implicit group, which may be new here."""

    def settled(self, group: Group, number: int) -> None:
        """This site's settled prefix holds the group's messages up to `number`."""

    def concerns(self, group: Group, members: Sequence[Site]) -> None:
        """This site is the primary of the group and must learn what is final."""

    def receive(self, peer: Site, item: Item) -> list[Group]:
        """Take a peer's item; the groups of which more is stable or final now."""

    def stable(self, group: Group) -> int:
        """The last number of the group that this site knows to be stable."""

    def stable_elsewhere(self, group: Group, members: Sequence[Site]) -> int:
        """The same of any group of the domain, as far as it is heard of here; 0: nothing is.
        `members`: those of an implicit group."""

    def final(self, group: Group) -> int: ...

    def open(self) -> list[Group]:
        """The groups of which this site has logged messages that it does not know to be final."""

    def behind(self, group: Group) -> list[Site]:
        """The members that keep the group's next message from being final, as known here."""

    def restarted(self, peer: Site | None) -> None:
        """The peer has started anew and must be told everything. None: this site has started anew,
        and must tell and ask for everything."""

    def flush(self, now: int) -> int:
        """The burst ends: send what is due; when to be called again at the latest."""

    def patience(self) -> int:
        """How many nanoseconds an item that is sent now may wait for data to the same site."""

    def deadline(self) -> int: ...  # when something is due; NEVER if nothing is left to do

    def progress(self) -> TrackingProgress: ...


class MakeStability(Protocol):
    def __call__(
        self,
        site: Site,
        structure: Structure,
        send: Callable[[Site, Item], None],
        options: Options,
        boot: int,
        clock: Callable[[], int],
        /,
    ) -> Stability:
        """`boot`: how often this site has started on its store. `clock` gives the current time."""


@dataclass(frozen=True, slots=True)
class StabilityInfo:
    name: str
    make: MakeStability
