"""`tom`: tree-based ordered multicast ([TOM] §3), with the repairs of errata TOM-1 to TOM-7.

An origin sends a batch straight to its receivers and to the ordering node: the site whose label is
the longest common prefix of the *receivers'* labels (TOM-2). A bid, which is the batch's header,
goes from hop to hop by labels to the ordering node (TOM-1). Hops forward it at once, in one frame
with whatever else goes the same way (TOM-7). When the ordering node has bid and body it places the
batch, the batches of one origin in order. The final header travels down the label tree, FIFO, into
the subtrees that hold receivers. Each site merges the batches that it places with the batches that
come down, as in [GS]: that makes the order total (TOM-3; as the paper prints it, final headers are
multicast directly).

A receiver logs a batch when it has header and body, and never logs past a header whose body is
missing (TOM-4). It forwards headers without waiting for bodies. A site fetches a missing body from
the ordering node, which keeps it until the batch is final. A bid that did not arrive (a hop has
restarted) is sent again by its origin. An origin outside the tree sends no bid: the ordering node
takes the body for its header.

What is durable: a header whose body is missing, and every later header until the body comes, is
noted (`Headed`) before it is acknowledged or forwarded. `Passed` records are written in the same
order, with bodies.
"""

from collections import deque
from collections.abc import Sequence
from typing import cast

import msgspec
from msgspec.structs import asdict, replace

from ordercast.core.claims import check_addressed, check_close, check_whole
from ordercast.core.order.bodies import EarlyBodies, name_of
from ordercast.core.order.interface import CLOSING, Environment
from ordercast.core.order.kept_states import TomState
from ordercast.core.order.propagation import Propagation
from ordercast.core.outbox import (
    Headed,
    OrderingState,
    Passed,
    by_stream,
    stream_seqs,
)
from ordercast.core.passed_headers import HeadEnvironment
from ordercast.core.retention import Held
from ordercast.core.structure import Structure
from ordercast.model.errors import ConfigError, PeerMistake
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch, Placed
from ordercast.model.options import MILLISECOND, NEVER, SECOND
from ordercast.wire.frames import CONTROL, DOWN, UP, Item, Relay, Submit
from ordercast.wire.tom import Bid, Body, BodyRequest, MessageName

FETCH_AFTER, BID_AFTER = 200 * MILLISECOND, 500 * MILLISECOND
FETCH_AT_MOST = 4 * SECOND
MOST_FETCHED = 64  # the most bodies that a site asks a peer for at once
MOST_BIDS = 16_384  # the most that wait for bodies; an origin repeats dropped ones

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Headed).decode


class _Head:
    """A header that has passed here and is not in the log: its body, or that of an earlier header,
    is missing."""

    __slots__ = ("entry", "held", "mine")

    def __init__(self, entry: Passed, held: Held, mine: bool) -> None:
        self.entry = entry
        self.held = held
        self.mine = mine

    @property
    def complete(self) -> bool:
        return not self.mine or bool(self.entry.placed.batch.body)


class Tom(Propagation):
    """State besides the state of message passing: bids and bodies that came early; heads in key
    order."""

    states = (OrderingState, TomState)

    def __init__(
        self, site: Site, structure: Structure, environment: Environment, *, causal: bool
    ) -> None:
        for group in structure.groups_at(site):
            require_prefix(structure, group)
        super().__init__(site, structure, environment, causal=causal)
        self._labels = structure.labels
        self._bids: dict[MessageName, None] = {}  # at the ordering node, until placed
        self._bodies = EarlyBodies()
        self._heads: deque[_Head] = deque()
        self._missing: dict[MessageName, _Head] = {}
        self._bodies_here: dict[MessageName, Batch] = {}  # placed here, not forgotten
        self._heard: dict[tuple[Site, int, Group], int] = {}  # last seq of headers for this site
        self._old_heard: dict[tuple[Site, int, Group], int] = {}
        self._restored: deque[Headed] = deque()  # of the checkpoint, until its records are replayed
        self._fetch_at, self._fetch_wait = NEVER, FETCH_AFTER
        self._fetched: dict[MessageName, None] = {}  # asked for, and not here yet
        self._bid_at = NEVER
        self._bidding = False  # some own batch may have no place yet
        # Per ordering node: the oldest own batch without a place, and at how many looks in a row.
        self._stuck: dict[Site, tuple[MessageName, int]] = {}

    # --- TOM_send: the body to all receivers, the header to the ordering node --------------------

    def submit(self, batch: Batch) -> None:
        node = self.structure.primary(batch.group, batch.members)
        receivers = batch.members or self.structure.members(batch.group)
        if node != self.site:
            self._bid(Bid(*name_of(batch), node))
            self.environment.send(node, UP, Submit(batch))
            self._bidding = True
            if self.site in receivers:
                self._keep(batch)
        for receiver in receivers:
            if receiver not in (self.site, node):
                self.environment.send(receiver, CONTROL, Body(batch))
        if node == self.site:
            if self.causal and batch.incarnation != CLOSING:
                self._arrive(self.site, batch)
            else:
                self._place(self.site, batch)

    def _bid(self, bid: Bid) -> None:
        """Send the bid one hop on, if the ordering node is in this site's tree."""
        hop = self._labels.next_hop(self.site, bid.to)
        if hop is not None:
            self.environment.send(hop, CONTROL, bid)

    # --- TOM_receive ------------------------------------------------------------------------------

    def _check_relayed_body(self, batch: Batch) -> None:
        """PeerMistake if a header comes with a body: bodies come by themselves."""
        if batch.body:
            raise PeerMistake("a header comes down with a body")

    def check_control(self, peer: Site, item: Item) -> None:
        """The `check` of items on the lane CONTROL."""
        if type(item) is Bid:
            self._check_bid(peer, item)
        elif type(item) is Body:
            batch = item.batch
            node = check_addressed(self.structure, batch)
            if peer != batch.origin and peer != node:
                raise PeerMistake(f"it sends a body of {batch.origin!r}'s")
            if batch.incarnation == CLOSING:
                check_close(self._root, batch)
            else:
                self.environment.check_incarnation(batch)
            check_whole(batch)
        elif type(item) is not BodyRequest:
            raise PeerMistake(f"a {type(item).__name__} is not of this protocol")
        elif len(item.wanted) > MOST_FETCHED:
            raise PeerMistake(f"it fetches {len(item.wanted):,} bodies at once")

    def _check_bid(self, peer: Site, bid: Bid) -> None:
        """PeerMistake unless the bid comes from the side of the tree where its origin is, and goes
        on to another side."""
        labels = self._labels
        if bid.origin not in labels.label or bid.to not in labels.label:
            raise PeerMistake(f"a bid of {bid.origin!r} for {bid.to!r}")
        if labels.next_hop(self.site, bid.origin) != peer:
            raise PeerMistake(f"a bid of {bid.origin!r}, which is not on its side of the tree")
        hop = labels.next_hop(self.site, bid.to)
        if hop == peer or (hop is None and bid.to != self.site):
            raise PeerMistake(f"a bid for {bid.to!r}, to which there is no way by here")
        named = self.structure.groups.get(bid.group)
        if named is not None and self.structure.primary(bid.group) != bid.to:
            raise PeerMistake(f"a bid for {bid.to!r}, which does not order {bid.group!r}")

    def control(self, peer: Site, item: Item) -> None:
        if type(item) is Bid:
            if item.to == self.site:
                self._bid_arrives(item)
            else:
                self._bid(item)
        elif type(item) is Body:
            if peer == item.batch.origin or name_of(item.batch) in self._missing:
                self._keep(item.batch)
        elif type(item) is BodyRequest:
            for name in item.wanted:
                batch = self._bodies_here.get(name)
                if batch is not None:
                    self.environment.send(peer, CONTROL, Body(batch))

    def _bid_arrives(self, bid: Bid) -> None:
        stream = (bid.origin, bid.incarnation, bid.group)
        if bid.seq > self._seqs.get(stream, 0) and len(self._bids) < MOST_BIDS:
            self._bids[*stream, bid.seq] = None
            if self._waiting and not self._releasing:
                self._release()

    def _arrive(self, peer: Site, batch: Batch) -> None:
        """Take a body at the ordering node. It waits for its bid, and for room."""
        self._waiting.setdefault(peer, deque()).append(batch)
        if not self._releasing:
            self._release()

    def _ready(self, origin: Site, batch: Batch) -> bool:
        name = name_of(batch)
        if origin != self.site and name not in self._bids and self._bids_for(origin):
            stream = (batch.origin, batch.incarnation, batch.group)
            if batch.seq > self._seqs.get(stream, 0):
                return False
        return not self.causal or super()._ready(origin, batch)

    def _bids_for(self, origin: Site) -> bool:
        """Whether the origin is in this site's tree: then it sends bids along the tree."""
        label = self._labels.label
        return origin in label and label[origin][:1] == label[self.site][:1]

    def _place_next(self, origin: Site, batch: Batch) -> None:
        self._bids.pop(name_of(batch), None)
        if self.causal:
            super()._place_next(origin, batch)
        else:
            self._place(origin, batch)

    # --- final headers go down, bodies complete them ----------------------------------------------

    def _pass(self, entry: Passed, item: Relay) -> None:
        placed, batch = entry.placed, entry.placed.batch
        name = name_of(batch)
        self._numbers[batch.group] = placed.number + batch.count - 1
        mine, children = self._routes.get(batch.group) or self._route(batch)
        relay = Relay(_header(placed)) if item.placed.batch.body else item
        if mine:
            self._heard[batch.origin, batch.incarnation, batch.group] = batch.seq + batch.count - 1
            body = None if batch.body else self._bodies.take(name)
            if body is not None and body.count == batch.count:
                entry = _completed(entry, body)
        if not entry.from_parent:
            self._bodies_here[name] = batch
        whole = not mine or bool(entry.placed.batch.body)
        at_once = whole and not self._heads
        environment = cast(HeadEnvironment, self.environment)
        environment.persist(entry if at_once else Headed(*_fields(entry)))
        for child in children:
            environment.send(child, DOWN, relay)
        if at_once:
            if mine:
                self._log.append(entry.placed)
            environment.passed(entry, children, mine=mine)
        else:
            head = _Head(entry, environment.headed(entry, children, mine=mine), mine)
            self._heads.append(head)
            if not whole:
                self._missing[name] = head
        if self._waiting and not self._releasing:
            self._release()

    def _keep(self, batch: Batch) -> None:
        """Keep a body: it completes a head, or waits for its header. A body that does not fit its
        header is dropped: the ordering node has the right one."""
        head = self._missing.get(name_of(batch))
        if head is not None:
            if head.entry.placed.batch.count != batch.count:
                return
            del self._missing[name_of(batch)]
            head.entry = _completed(head.entry, batch)
            self._fetch_wait = FETCH_AFTER
            if self._fetched.pop(name_of(batch), 0) is None and not self._fetched:
                self._fetch_at = 0  # all bodies asked for are here: ask for the rest
            self._advance()
        elif batch.seq > self._heard.get((batch.origin, batch.incarnation, batch.group), 0):
            self._bodies.add(batch)

    def _advance(self) -> None:
        while self._heads and self._heads[0].complete:
            head = self._heads.popleft()
            self.environment.persist(head.entry)
            self._log_head(head)

    def _log_head(self, head: _Head) -> None:
        if head.mine:
            self._log.append(head.entry.placed)
        cast(HeadEnvironment, self.environment).filled(head.held, head.entry, mine=head.mine)

    def held(self) -> int:
        """Early bodies of origins outside the tree are not counted: if the origin is gone, their
        headers may never come."""
        bodies = sum(self._bids_for(origin) for origin in self._bodies.origins())
        return super().held() + len(self._heads) + bodies + len(self._bids)

    def early(self) -> int:
        return len(self._bodies)

    # --- what is late is asked for, or sent, again -----------------------------------------------

    def flush(self, now: int) -> int:
        """The burst ends: send what is due; when to be called again."""
        if self._heads:
            self._advance()
        if not self._missing:
            self._fetch_at, self._fetch_wait = NEVER, FETCH_AFTER
        elif self._fetch_at == NEVER:
            self._fetch_at = now + self._fetch_wait
        elif self._fetch_at <= now:
            self._fetch()
            self._fetch_at = now + self._fetch_wait
            self._fetch_wait = min(2 * self._fetch_wait, FETCH_AT_MOST)
        if self._bid_at <= now:
            self._bid_again()
            self._bid_at = now + BID_AFTER if self._bidding else NEVER
        elif self._bidding and self._bid_at == NEVER:
            self._bid_at = now + BID_AFTER
        return min(self._fetch_at, self._bid_at)

    def _fetch(self) -> None:
        wanted: dict[Site, list[MessageName]] = {}
        for name, head in self._missing.items():
            names = wanted.setdefault(head.entry.placed.key.site, [])
            if len(names) < MOST_FETCHED:
                names.append(name)
        self._fetched = {name: None for names in wanted.values() for name in names}
        for node, names in wanted.items():
            self.environment.send(node, CONTROL, BodyRequest(tuple(names)))

    def _bid_again(self) -> None:
        """If the oldest own batch without a place at an ordering node is the same as at the last
        look, bids may be lost: send them again at the second look, the fourth, and every eighth."""
        before, self._stuck = self._stuck, {}
        for node, batches in cast(HeadEnvironment, self.environment).submitted().items():
            oldest = name_of(batches[0])
            known, looks = before.get(node, (oldest, 0))
            looks = looks + 1 if known == oldest else 1
            self._stuck[node] = (oldest, looks)
            if looks in (2, 4) or looks % 8 == 0:
                for batch in batches:
                    self._bid(Bid(*name_of(batch), node))
        self._bidding = bool(self._stuck)

    def restarted(self, peer: Site | None) -> None:
        """Bids on their way through the restarted peer are lost. Send again, at once, the bids of
        own batches without a place, and bids of other sites that the peer had not taken."""
        environment = cast(HeadEnvironment, self.environment)
        lost = environment.lost_control(peer) if peer is not None else ()
        for bid in dict.fromkeys(item for item in lost if type(item) is Bid):
            if bid.origin != self.site:
                self._bid(bid)
        for node, batches in environment.submitted().items():
            if self._labels.next_hop(self.site, node) == peer:
                for batch in batches:
                    self._bid(Bid(*name_of(batch), node))

    # --- what survives a restart ------------------------------------------------------------------

    def restore(self, state: OrderingState) -> None:
        super().restore(state)
        self._old_heard = by_stream(state.inherited)
        if isinstance(state, TomState):
            self._old_heard = by_stream(state.heard)
            self._restored = deque(map(_decode, state.heads))
        self._heard = dict(self._old_heard)

    def replay(self, record: Passed) -> None:
        self._replay_heads(record.placed)
        if self._heads and self._heads[0].entry.placed.key == record.placed.key:
            head = self._heads.popleft()
            self._missing.pop(name_of(record.placed.batch), None)
            head.entry = record
            self._log_head(head)
        else:
            super().replay(record)

    def note(self, record: Headed) -> None:
        self._replay_heads(record.placed)
        super().replay(Passed(*_fields(record)))

    def replayed(self) -> None:
        self._replay_heads(None)

    def completes(self, record: Passed) -> bool:
        """Whether the record's header was noted before it: then it was forwarded back then."""
        key = record.placed.key
        if self._heads:
            return self._heads[0].entry.placed.key == key
        return bool(self._restored) and self._restored[0].placed.key == key

    def heads(self) -> Sequence[Headed]:
        """The heads of the checkpoint, which are replayed behind its records."""
        return self._restored

    def _replay_heads(self, before: Placed | None) -> None:
        """Replay the heads of the checkpoint: behind all its records, before all later records."""
        if self._restored and (before is None or before.key >= self._restored[0].placed.key):
            restored, self._restored = self._restored, deque()
            for record in restored:
                super().replay(Passed(*_fields(record)))

    def forget(self, record: Passed) -> None:
        super().forget(record)
        batch = record.placed.batch
        stream = (batch.origin, batch.incarnation, batch.group)
        if not record.from_parent:
            self._bodies_here.pop(name_of(batch), None)
        if stream in self._heard:
            self._old_heard[stream] = batch.seq + batch.count - 1

    def journal(self) -> OrderingState:
        return TomState(
            **asdict(super().journal()),
            heard=stream_seqs(self._old_heard),
            heads=tuple(_encode(Headed(*_fields(head.entry))) for head in self._heads),
        )


def require_prefix(structure: Structure, group: Group) -> None:
    """ConfigError unless the primary's label is the longest common prefix of all members'."""
    node = structure.ordering_node(group)
    if node != structure.primary(group):
        raise ConfigError(
            f"tom needs primaries by labels (builder 'balanced' or 'greedy'): group {group!r} is"
            f" ordered by {structure.primary(group)!r}, not by {node!r}"
        )


def _header(placed: Placed) -> Placed:
    return Placed(placed.key, placed.number, replace(placed.batch, body=b""))


def _fields(entry: Passed | Headed) -> tuple[Placed, Site, bool]:
    return entry.placed, entry.source, entry.from_parent


def _completed(entry: Passed, body: Batch) -> Passed:
    """The header's batch, whose past the ordering node has completed, with the body that came."""
    placed = entry.placed
    batch = replace(placed.batch, body=body.body)
    return Passed(Placed(placed.key, placed.number, batch), entry.source, entry.from_parent)
