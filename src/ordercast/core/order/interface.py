"""What an ordering object offers, and what it asks of the site around it.

The site hands an ordering object its own submissions and, in FIFO order per peer, the items that
peers' ordering objects sent it. The object gives every batch a place, the same at every site (its
order key), and tells the site of each batch that is placed *here*: in the order of their keys, and
nothing for this site is ever placed before one that was told already.

What must be durable before it is revealed goes through `persist`, in order, before anything that
reveals it. A restarted object is given the state folded from the records that were dropped
(`restore`) and then every record still held (`replay`), with the same effects but for persisting.

There are two kinds. On a *tree* (`Ordering`) batches go up to a primary and down its tree; lanes
are numbered through restarts by what passed. *Direct* protocols (`DirectOrdering`) send any peer
any item of theirs; lanes begin anew with each start, so the object tells again what it owes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ordercast.core.outbox import Note, OrderingState, Passed, Record
from ordercast.core.structure import Structure
from ordercast.model.epochs import Included
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Placed
from ordercast.model.options import Options
from ordercast.wire.frames import Item

CLOSING = 0
"""The incarnation of the Close of an epoch: a batch to all sites of the domain, submitted again and
again until it is placed, which the site does not keep for the object."""


class Environment(Protocol):
    """What a site does for its ordering object."""

    @property
    def options(self) -> Options: ...

    @property
    def resumes(self) -> bool:
        """Whether a restart goes on in this epoch: then promises must be durable."""

    def send(self, peer: Site, lane: int, item: Item) -> None:
        """Queue an item for a peer; lanes are FIFO and reliable."""

    def persist(self, record: Record) -> None: ...

    def passed(self, entry: Passed, children: Sequence[Site], *, mine: bool) -> None:
        """A batch has its place and passes this site; `mine`: this site is to deliver it."""

    def ordered(self, batch: Batch) -> None:
        """This site's own batch has its place; in the order of its seqs. Not while replaying."""

    def dealt_with(self, origin: Site) -> None:
        """The next submission of a peer needs no more from it than stability."""

    def room(self) -> bool:
        """Whether more may be placed here: no child lags too far behind."""

    def may_log(self) -> bool:
        """Whether a direct protocol may let one more pass; else `resume` comes later."""

    def stable(self, group: Group, number: int) -> bool:
        """Whether the group's messages up to `number` are known here to be stable."""

    def check_incarnation(self, batch: Batch) -> None:
        """PeerMistake where the batch is of another incarnation than its origin has now."""


class Ordering(Protocol):
    @property
    def states(self) -> Sequence[type[OrderingState]]:
        """What `journal` may give and `restore` may get."""

    def submit(self, batch: Batch) -> None:
        """Place this site's own batch, or send it where it will be placed."""

    def check(self, peer: Site, item: Item) -> None:
        """PeerMistake for an item that the peer may not send, or that contradicts what is known
        here. Nothing changes. It is asked before `receive`, again if the item had to wait."""

    def receive(self, peer: Site, item: Item) -> None: ...

    def resume(self) -> None:
        """There is room again: place what was held for lack of it."""

    def way(self, batch: Batch) -> str:
        """Causal order: a batch need not wait for earlier ones of this site that go the same way.
        For others it waits until they are stable (on a tree) or have their places (direct)."""

    def log(self) -> Sequence[Placed]:
        """What is still held of the batches for this site whose place is final, in key order."""

    def restore(self, state: OrderingState) -> None: ...

    def replay(self, record: Passed) -> None: ...

    def forget(self, record: Passed) -> None:
        """The oldest record still held may be dropped: fold it into the state."""

    def journal(self) -> OrderingState:
        """The state folded from everything forgotten so far."""

    def placed_here(self) -> Included:
        """Per origin and group, the last seq that this site has placed in this epoch."""

    def held(self) -> int:
        """Batches received but not placed yet (bounded by the senders' windows)."""

    def restarted(self, peer: Site | None) -> None:
        """The peer has started anew, or is heard in this epoch for the first time since it has:
        what was on its way to it on the lane CONTROL is lost."""


class DirectOrdering(Ordering, Protocol):
    """A protocol without a tree. It takes whatever comes: an item that it left to wait could be the
    one that another site waits for. What it lets pass it asks for (`Environment.may_log`). Of a
    Close that has passed here it goes on answering, for those whom it has not passed. With causal
    order its keys grow with what happened before, everywhere in the domain."""

    restless: ClassVar[tuple[type, ...]]
    """Kinds of items that may be under way although nothing is left to do."""

    def note(self, record: Note) -> None:
        """Replay a record of its own, among the others in the order in which they were written."""

    def known(self, batch: Batch) -> bool:
        """Whether this site's own batch, to be submitted again, had its place before a restart."""

    def restarted(self, peer: Site | None) -> None:
        """The peer has started anew: what it had not acknowledged is sent again; what it had, it
        has durably. None: this site has, and all is replayed and submitted: tell what is owed."""

    def acknowledged(self, peer: Site, items: Sequence[Item]) -> None:
        """The peer has these items durably."""

    def flush(self, now: int) -> int:
        """The end of a burst, or the time that was asked for: when to be called next (`NEVER`)."""

    def final(self, group: Group, seq: int) -> None:
        """This site's own messages to the group up to `seq` need no more."""

    def waits_for(self, batch: Batch) -> list[Site]:
        """Whose word is missing for this site's own batch to have its place."""

    def awaited(self) -> Sequence[Site]:
        """Origins a batch of which waits here for what they alone can say."""

    def most_held(self, window: int, origins: int) -> int:
        """As `most_queued`: the most that are received and not placed yet."""

    def most_queued(self, window: int, origins: int) -> int:
        """The most items on a lane to one peer, when each of so many origins has at most `window`
        batches that are not stable."""


class MakeOrdering(Protocol):
    def __call__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> Ordering: ...


@dataclass(frozen=True, slots=True)
class ProtocolInfo:
    """One row of the registry: a protocol by name and what it supports."""

    name: str
    make: MakeOrdering
    builders: tuple[str, ...] = ()  # forests it runs on; empty: any
    wait: bool = True
    causal: bool = True
    exclude: bool = True  # whoever fails is done without, origins outside the domain included
    direct: bool = False  # `make` makes a DirectOrdering
    headers: bool = False  # `make` makes a HeadOrdering (`core.heads`)


Registry = Mapping[str, ProtocolInfo]
