"""What a stability tracker offers .

Counts are per group: members agree on the order of a group's messages, so "the first n" means the
same everywhere. A message is stable when it is in the durable ordered log of *every* member; since
a log holds everything for its site up to its last key, so is then all that was ordered before it
for that site. A member's *settled* prefix is the longest prefix of its log in which everything is
stable; a message is final when it is in every member's settled prefix.

What a tracker sends is sent after the burst's records are durable, so a count of the log counts
only what will be durable by then.
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
    rounds: int  # that have ended since the site started in this epoch
    round_ns: int  # how long they take, as seen from here
    limit: int  # so many unstable messages call for a round; 0 where there are none
    to_final_ns: int  # from the log to final: the last message that was looked at
    slowest_to_final_ns: int  # the slowest of them
    measured: int  # how many were looked at,
    all_to_final_ns: int  # and how long they took together
    waits_for: tuple[Site, ...]  # the sites that a round has waited for, for long


class Stability(Protocol):
    def logged(self, group: Group, number: int, members: Sequence[Site]) -> bool:
        """This site's log holds the group's messages up to `number`; whether that made news.
        `members`: of an implicit group, which may be new."""

    def settled(self, group: Group, number: int) -> None:
        """This site's settled prefix holds the group's messages up to `number`."""

    def concerns(self, group: Group, members: Sequence[Site]) -> None:
        """This site is the primary of the group and must learn what is final."""

    def receive(self, peer: Site, item: Item) -> list[Group]:
        """Take a peer's item; the groups of which more is stable or final than before."""

    def stable(self, group: Group) -> int:
        """The group's messages up to here are stable, as far as this site knows."""

    def final(self, group: Group) -> int: ...

    def open(self) -> list[Group]:
        """The groups of which this site has logged what is not known to be final."""

    def behind(self, group: Group) -> list[Site]:
        """The members that keep the group's next message from being final, as known here."""

    def restarted(self, peer: Site | None) -> None:
        """The peer (None: this site itself) has started anew and must hear, or tell, everything."""

    def flush(self, now: int) -> int:
        """The burst ends: send what is due; when to be called again at the latest."""

    def patience(self) -> int:
        """For so many nanoseconds, what is sent now may wait for data to the same site."""

    def deadline(self) -> int: ...

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
        """`boot`: how often this site has started on its store; `clock`: the time by it, now."""


@dataclass(frozen=True, slots=True)
class StabilityInfo:
    name: str
    make: MakeStability
