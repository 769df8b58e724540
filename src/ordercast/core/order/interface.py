"""The interface of an ordering object, and its demands on the site around it.

The site hands an ordering object its own submissions and, in FIFO order per peer, the items that
peers' ordering objects sent. The object gives every batch its place, an order key that is the same
at every site. It tells the site of each batch that is placed *here*, in the order of their keys:
no batch for this site is ever placed before one that the site was told of.

A fact that must be durable before it is revealed goes through `persist`, in order, before anything
that reveals it. After a restart the object is given the state that was folded from the dropped
records (`restore`), and then every record still held (`replay`). A replay has the same effects as
the first time, except that nothing is persisted.

There are two kinds of protocols. On a *tree* (`Ordering`) batches go up to a primary and down its
tree; the numbers of a lane count what has passed, so they go on through restarts. *Direct*
protocols (`DirectOrdering`) send any of their items to any peer; lanes begin anew with each start,
so the object tells again what it owes.
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
"""The incarnation of the Close of an epoch. The Close is a batch to all sites of the domain. It is
submitted again and again until it is placed, and the site does not keep it for the object."""


class Environment(Protocol):
    """What a site does for its ordering object."""

    @property
    def options(self) -> Options: ...

    @property
    def resumes(self) -> bool:
        """Whether a restarted site goes on in this epoch: then promises must be durable."""

    def send(self, peer: Site, lane: int, item: Item) -> None:
        """Queue an item for a peer; lanes are FIFO and reliable."""

    def persist(self, record: Record) -> None: ...

    def passed(self, entry: Passed, children: Sequence[Site], *, mine: bool) -> None:
        """A batch has its place and passes this site; `mine`: this site is to deliver it."""

    def ordered(self, batch: Batch) -> None:
        """This site's own batch has its place. Called in seq order, and not while replaying."""

    def dealt_with(self, origin: Site) -> None:
        """The peer's next submission has its place, or had it before: acknowledge it as done."""

    def room(self) -> bool:
        """Whether more may be placed here: no child lags too far behind."""

    def may_log(self) -> bool:
        """Whether a direct protocol may let one more batch pass; if not, `resume` comes later."""

    def stable(self, group: Group, number: int) -> bool:
        """Whether the group's messages up to `number` are known here to be stable."""

    def check_incarnation(self, batch: Batch) -> None:
        """PeerMistake if the batch is of another incarnation than its origin has now."""


class Ordering(Protocol):
    @property
    def states(self) -> Sequence[type[OrderingState]]:
        """What `journal` may give and `restore` may get."""

    def submit(self, batch: Batch) -> None:
        """Place this site's own batch, or send it where it will be placed."""

    def check(self, peer: Site, item: Item) -> None:
        """PeerMistake for an item that the peer may not send, or that contradicts what is known
        here. Nothing changes. Called before `receive`, and again if the item had to wait."""

    def receive(self, peer: Site, item: Item) -> None: ...

    def resume(self) -> None:
        """There is room again: go on with what was held for lack of room."""

    def way(self, batch: Batch) -> str:
        """Causal order: a batch need not wait for this site's earlier batches that go the same way.
        It waits until the others are stable (on a tree) or have their places (direct)."""

    def log(self) -> Sequence[Placed]:
        """The batches for this site that have their place and are still held, in key order."""

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
        """The peer has started anew, or is heard in this epoch for the first time since then. What
        was on its way to the peer on the lane CONTROL is lost."""


class DirectOrdering(Ordering, Protocol):
    """A protocol without a tree. It takes every item: an item that it left to wait could be the
    one that another site waits for. Before it lets a batch pass it asks (`Environment.may_log`).
    After the Close has passed here the object goes on answering sites that the Close has not
    passed. With causal order a batch's key is above the keys of all that happened before it."""

    restless: ClassVar[tuple[type, ...]]
    """Kinds of items that may be under way although the site has nothing left to do."""

    def note(self, record: Note) -> None:
        """Replay a note. Notes and other records come in the order they were written in."""

    def known(self, batch: Batch) -> bool:
        """Whether this site's own batch, to be submitted again, had its place before a restart."""

    def restarted(self, peer: Site | None) -> None:
        """The peer has started anew. The links send again what it had not acknowledged; the rest it
        has durably. None: this site has started anew, and all records are replayed and all own
        batches submitted: tell what is owed."""

    def acknowledged(self, peer: Site, items: Sequence[Item]) -> None:
        """The peer has these items durably."""

    def flush(self, now: int) -> int:
        """A burst ends, or the time asked for has come. Returns when to call again."""

    def final(self, group: Group, seq: int) -> None:
        """This site's own messages to the group are final up to `seq`."""

    def waits_for(self, batch: Batch) -> list[Site]:
        """The sites whose answer this site's own batch needs before it has its place."""

    def awaited(self) -> Sequence[Site]:
        """Origins of batches that wait here for a decision that only their origin can take."""

    def most_held(self, window: int, origins: int) -> int:
        """The most batches received and not placed yet; the arguments are as in `most_queued`."""

    def most_queued(self, window: int, origins: int) -> int:
        """The most items on a lane to one peer, if each of `origins` origins has at most `window`
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
    builders: tuple[str, ...] = ()  # the builders of the forests it runs on; empty: any
    given: bool = False  # with `builders`, it runs on the tree of the groups file too
    wait: bool = True  # it supports on_failure = "wait"
    causal: bool = True
    exclude: bool = True  # an epoch goes on without a failed site, or a failed origin outside
    direct: bool = False  # `make` makes a DirectOrdering
    headers: bool = False  # `make` makes a HeadOrdering (`core.passed_headers`)
    local: bool = False  # its tree changes beside the site that comes or goes, and nowhere else


Registry = Mapping[str, ProtocolInfo]
