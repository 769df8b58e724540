"""`Node`: a site inside the application's process, as the application sees it.

    async with Node.open("cluster.toml", site="a") as node:
        receipt = await node.multicast("alpha", b"payload")
        async for item in node.deliveries(): ...

Payloads sent to one group in one turn of the event loop travel as one batch. `multicast` returns as
soon as the window has room; the receipt tells when the message is durable, ordered, stable.
"""

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NoReturn, overload

from ordercast.core.batches import extras_of
from ordercast.model.arguments import require_id, require_payloads, require_producer
from ordercast.model.epochs import Edit
from ordercast.model.errors import Error
from ordercast.model.groups import Group, Site
from ordercast.model.headers import BatchHeaders, Headers
from ordercast.model.messages import in_generation
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import read_cluster
from ordercast.net.site.assembly import open_store, over_tcp
from ordercast.net.site.changes import ClusterChanges
from ordercast.net.site.founding import require_known
from ordercast.net.site.handover import StateHooks, state_hooks
from ordercast.net.site.named_readers import require_unnamed, require_unplaced
from ordercast.net.site.named_stream import (
    NamedBatches,
    NamedBatchReader,
    NamedDeliveries,
    require_span,
)
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.running_site import CLOSE_S, RunningSite
from ordercast.net.site.status import status_of
from ordercast.net.site.stream import Batches, Deliveries
from ordercast.net.store.places import note_place, require_free, require_place

_log = logging.getLogger("ordercast.net.node")


class Node(ClusterChanges[Coroutine[Any, Any, None]]):
    """A running site. Made by `Node.open`, or by a `local_cluster`."""

    def __init__(self, running: RunningSite) -> None:
        self._running = running
        self._sender = running.sender
        self._join = running.core.admission.join  # bound: most messages need nothing else
        self.cluster = running.cluster
        """The cluster file, as the site goes by it."""
        self.site = running.site
        """The name of the site."""
        self.boot = running.boot
        """How often the site has been started on its store."""

    @classmethod
    def open(
        cls,
        cluster: "str | Path | Cluster",
        site: Site,
        *,
        dir: str | Path | None = None,  # noqa: A002 - the name of the command's option
        new: bool = False,
        embedded: bool = True,
        address: str = "",
        snapshot: Callable[[Group], bytes] | None = None,
        restore: Callable[[Group, bytes], object] | None = None,
    ) -> "AbstractAsyncContextManager[Node]":
        """A running site, to be used with `async with`.

        `dir` holds its store (default: what the environment's ORDERCAST_DIR or the file says).
        `new`: begin without a past there, although another directory has a store of the site.
        `embedded`: the application reads here, and holds others up when it lags; False: readers
        come and go, as a daemon's. `address` (HOST:PORT): of a site that is not in the file, and is
        added while the cluster runs.

        `snapshot` and `restore`: where an epoch opens in which another site has joined a group of
        this one, `snapshot(group)` gives the application's state of the group. At the joiner
        `restore(group, state)` takes it, before the first delivery of that epoch.

        Entering raises ConfigError (the file, the site, an address that is taken, a store that
        another process has open or another directory has, a directory of another user),
        StoreCorrupt, or PeerRefused.
        Leaving flushes, and raises an Error that tells what was not flushed in time."""
        hooks = state_hooks(snapshot, restore)
        return _Opening(cls, cluster, site, dir, new, embedded, address, hooks)

    async def close(self, *, timeout_s: float = CLOSE_S) -> None:
        """Flush, then stop; leaving the block does the same. Raises an Error that tells what was
        not flushed in time, or why the site had stopped by itself."""
        await self._running.close(timeout_s=timeout_s)

    # --- what it is -------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """How often the site has begun without its past; part of the id of its messages."""
        return self._running.incarnation

    @property
    def address(self) -> tuple[str, int]:
        """Where the site listens: host and port."""
        return self._running.address

    @property
    def admitted(self) -> bool:
        """Whether the cluster has this site; not before a newcomer was told so."""
        return self._running.admitted

    @property
    def retired(self) -> bool:
        """Whether the site has heard that it is no part of the cluster, or no longer."""
        return self._running.retired

    # --- sending ----------------------------------------------------------------------------------

    async def multicast(
        self,
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
        *,
        id: str | None = None,  # noqa: A002 - the word that callers know
        since: int | None = None,
    ) -> Receipt:
        """Send to a group, or to all members of several groups as one message. `headers`: small
        values by name, beside the payload. Waits while the window is full, and while the site
        cannot accept messages.

        `id`: of several messages that this site sends with the same id to the group, one is
        delivered, as long as the group remembers the id ('ordercast docs ids'). `since`: what
        `id_mark` has told before the id was first used. The receipt raises Expired if it came too
        late to know.

        Raises UnknownGroup, TooLarge, CrossDomain (no one domain has all members), ConfigError (the
        payload is not bytes, a name is not a name, or not all sites have a release with headers),
        NotInMajority (no majority of the voters was heard of for long, or members are absent), or
        Error (the site is closed).
        """
        if id is not None:
            return await self._once(group, [payload], headers, id, since)
        if not headers:
            seq = self._join(group, payload)  # 0 for a list of groups
            if seq:
                return Receipt(self._sender.receipts, group, seq)  # type: ignore[arg-type]
        return await self._sender.multicast(group, payload, headers)

    def multicast_nowait(
        self,
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
    ) -> Receipt:
        """Send as `multicast` does, but do not wait. Raises WindowFull where there is no room, and
        otherwise as `multicast`; NotInMajority also while the site cannot accept messages."""
        if not headers:
            seq = self._join(group, payload)
            if seq:
                return Receipt(self._sender.receipts, group, seq)  # type: ignore[arg-type]
        return self._sender.multicast_nowait(group, payload, headers)

    async def multicast_many(
        self,
        group: Group | Sequence[Group],
        payloads: Sequence[bytes],
        headers: BatchHeaders = None,
        *,
        id: str | None = None,  # noqa: A002 - the word that callers know
        since: int | None = None,
    ) -> Receipt:
        """Send a batch, which is ordered as one. `headers`: a mapping for all its messages, or a
        list with one for each. The receipt is of the last message. With an `id` all of it is
        delivered once. Waits and raises as `multicast`; TooLarge also for too many messages,
        ConfigError for none."""
        if id is not None:
            return await self._once(group, payloads, headers, id, since)
        return await self._sender.multicast_many(group, payloads, headers)

    async def _once(
        self,
        group: Group | Sequence[Group],
        payloads: Sequence[bytes],
        headers: BatchHeaders,
        chosen: str,
        since: int | None,
    ) -> Receipt:
        require_id(group, chosen, since)
        assert isinstance(group, str)
        batch = require_payloads(payloads)
        extras = extras_of(headers, len(batch))
        return await self._running.ids.send((chosen, since), group, batch, extras)

    async def id_mark(self, group: Group) -> int:
        """How far the ids of the group are, to be kept with a new id and given as `since` whenever
        a message is sent with that id: then it is not delivered twice however late it is sent
        again. Raises UnknownGroup, NotGranted, ConfigError (the site is no member of the group, or
        too many groups remember ids), NotInMajority, or Error (the site is closed)."""
        return await self._running.ids.mark(group)

    async def produce(
        self,
        producer: str,
        number: int,
        group: Group,
        payloads: Sequence[bytes],
        headers: BatchHeaders = None,
        generation: int = 0,
    ) -> Receipt:
        """Send a batch of a producer to a group, under a number above those before it there. Of
        several copies of it, sent through any sites, one is delivered ('ordercast docs producers').
        The receipt is of its last message. `generation`: behind the first message of a later one,
        nothing of an earlier one is delivered.

        If this or the receipt raises, send the same again before any later number; but if the
        receipt raises Fenced, another program uses the name. Waits and raises
        as `multicast_many`; ConfigError also for a wrong name or number, or if the cluster has too
        many producers."""
        require_producer(group, producer, number, generation)
        batch, at = require_payloads(payloads), in_generation(generation, number)
        extras = extras_of(headers, len(batch))
        return await self._running.producing.send((producer, at), group, batch, extras)

    async def multicast_to(
        self,
        sites: Iterable[Site],
        payload: bytes | Sequence[bytes],
        headers: Headers = None,
    ) -> Receipt:
        """Send a message, or a batch, to listed sites: each gets it once. Waits and raises as
        `multicast`; ConfigError also for an unknown site."""
        return await self._sender.multicast_to(sites, payload, headers)

    async def flush(self, until: str = "ordered") -> None:
        """Wait until everything sent so far is `accepted`, `ordered` or `stable`. Raises
        UnknownGroup where a group was removed before, ConfigError for another stage, or Error (the
        site is closed)."""
        await self._sender.flush(until)

    # --- receiving --------------------------------------------------------------------------------

    @overload
    def deliveries(self, start: int | None = None, attempt: int | None = None) -> Deliveries: ...

    @overload
    def deliveries(
        self, *, reader: str, groups: Iterable[Group] | str | None = None
    ) -> NamedDeliveries: ...

    def deliveries(
        self,
        start: int | None = None,
        attempt: int | None = None,
        *,
        reader: str | None = None,
        groups: Iterable[Group] | str | None = None,
    ) -> Deliveries | NamedDeliveries:
        """Every message for this site in order, from position `start`, or after the last position
        that was confirmed. It never ends by itself. `attempt`: the attempt of the last delivery
        that the application has; if that delivery was taken back, the first item is the Rollback.

        `reader`: the messages of a named reader's groups, behind the last position that was
        confirmed under this name. If there is no such reader, it is made, with these `groups` (`*`:
        all). The first item waits until no other follower of the name is before this one.

        Reading raises ConfigError (a position below 1; no such reader, or one of other groups),
        UnknownGroup, Forgotten (a position that is no longer kept), TurnLost (the reader was reset
        or removed), or Error (the site is closed).
        """
        if reader is None:
            require_unnamed(groups)
            return self._running.stream.deliveries(start, attempt)
        return NamedDeliveries(self._follow(reader, groups, start, attempt))

    @overload
    def batches(self, start: int | None = None, attempt: int | None = None) -> Batches: ...

    @overload
    def batches(
        self, *, reader: str, groups: Iterable[Group] | str | None = None
    ) -> NamedBatchReader: ...

    def batches(
        self,
        start: int | None = None,
        attempt: int | None = None,
        *,
        reader: str | None = None,
        groups: Iterable[Group] | str | None = None,
    ) -> Batches | NamedBatchReader:
        """As `deliveries`, by the batch: less work per message. Reading raises the same."""
        if reader is None:
            require_unnamed(groups)
            return self._running.stream.batches(start, attempt)
        return NamedBatchReader(self._follow(reader, groups, start, attempt))

    def _follow(
        self,
        reader: str,
        groups: Iterable[Group] | str | None,
        start: int | None,
        attempt: int | None,
    ) -> Callable[[], NamedBatches]:
        require_unplaced(reader, start, attempt)
        named = self._running.named
        named.check(reader, groups)
        return lambda: NamedBatches(named, reader, groups)

    def read(self, reader: str, start: int, end: int) -> NamedDeliveries:
        """The messages of a named reader's groups from position `start` to `end`, for anybody: it
        needs no turn and changes nothing. It ends after `end`, and waits for what is not delivered
        yet. Raises ConfigError; reading raises as `deliveries`."""
        span = require_span(start, end)
        named = self._running.named
        named.check(reader, None)
        return NamedDeliveries(lambda: NamedBatches(named, reader, span=span))

    async def reset_reader(self, reader: str, position: int | None = None) -> int:
        """Let a named reader go on with this position (0: the first that is kept); without one,
        behind all that was delivered. Followers lose their turn. Returns the position when it is
        durable. Raises ConfigError (no such reader, a position that is not delivered),
        or Error (the site is closed)."""
        return await self._running.named.reset(reader, position)

    async def remove_reader(self, reader: str) -> None:
        """Forget a named reader: nothing is kept for it any more. Raises ConfigError (there is none
        of this name), or Error (the site is closed)."""
        await self._running.named.remove(reader)

    async def confirm(
        self, position: int, attempt: int | None = None, *, reader: str | None = None
    ) -> None:
        """The application is done with everything up to this position, and will not see it again,
        also after a restart. Returns when that is durable. Deliveries that were taken back since,
        in `attempt` or as far as the slowest reader knows, are not confirmed by this.

        `reader`: the follower of this name that has the turn is done with them.

        After a restart it waits for a position that may have been delivered before, until it is
        delivered again. Raises ConfigError for a position that is not delivered yet, TurnLost
        (nobody follows the reader here), or Error (the site is closed).
        """
        if reader is not None:
            await self._running.named.confirm_first(reader, position, attempt)
            return
        await self._running.confirm(position, attempt)

    # --- the cluster ------------------------------------------------------------------------------

    async def change(self, *edits: Edit, name: str = "") -> None:
        """Change the cluster: several edits (`ordercast.model.epochs`) at once, or none of them.
        Waits for a majority of the voters and for the sites of the domains that are changed, and
        returns when this site has seen it done. Asked again under the same `name`, it is not done
        again.

        Raises ConfigError (it is impossible, and nothing has happened), NotInMajority (it may
        still be done), or Error (the site is closed; it may still be done)."""
        await self._running.change(edits, name)

    async def status(self) -> dict[str, Any]:
        """The object that `ordercast status --json` prints for this site. Raises nothing."""
        return status_of(self._running)


def site_of(node: Node) -> RunningSite:
    """The site behind a node, for rooms that do more than an application."""
    return node._running


_WITH = "a site is opened by `async with Node.open(...) as node:`"


class _Opening:
    """`async with Node.open(...)`: starts the site on entering, closes it on leaving."""

    def __init__(
        self,
        kind: type[Node],
        cluster: str | Path | Cluster,
        site: Site,
        directory: str | Path | None,
        new: bool,
        embedded: bool,
        address: str,
        hooks: StateHooks | None,
    ) -> None:
        self._kind = kind
        self._cluster = cluster
        self._site = site
        self._directory = directory
        self._new = new
        self._embedded = embedded
        self._address = address
        self._hooks = hooks
        self._running: RunningSite | None = None

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{_WITH}; {name!r} is the node's", name=name, obj=self)

    def __await__(self) -> NoReturn:
        raise TypeError(_WITH)

    def __enter__(self) -> NoReturn:
        raise TypeError(_WITH)

    def __exit__(self, *error: object) -> None:
        """Never called: nothing is entered without `async`."""

    async def __aenter__(self) -> Node:
        cluster = self._cluster
        if not isinstance(cluster, Cluster):
            cluster = read_cluster(cluster)
        self._running = await open_site(
            cluster,
            self._site,
            cluster.directory(self._directory),
            new=self._new,
            embedded=self._embedded,
            address=self._address,
            hooks=self._hooks,
        )
        return self._kind(self._running)

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """If the application has no error of its own, unflushed messages are one."""
        assert self._running is not None
        try:
            await self._running.close()
        except Error as unflushed:
            if error is None:
                raise
            _log.warning("%s", unflushed)


async def open_site(
    cluster: Cluster,
    site: Site,
    directory: Path,
    *,
    new: bool = False,
    embedded: bool,
    address: str = "",
    clients: tuple[str, int] | None = None,
    hooks: StateHooks | None = None,
) -> RunningSite:
    """Start a site of the file, or one with an address, on its store in this directory. `clients`:
    where its daemon listens for those of other machines."""
    require_known(cluster, site, directory, address)
    require_place(cluster, [site], directory, new=new)
    require_free(cluster, [site], directory)
    store = open_store(cluster, site, directory)
    if store.path is not None:
        note_place(cluster, directory)
    try:
        running = RunningSite(
            cluster,
            site,
            store,
            over_tcp(cluster),
            embedded=embedded,
            address=address,
            clients=clients,
            hooks=hooks,
        )
        await running.start()
    except BaseException:
        await store.close()
        raise
    return running
