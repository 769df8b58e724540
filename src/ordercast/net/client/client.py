"""`connect`: the methods of a node, on a daemon that is reached over its socket or an address.

A client keeps what it sends until the daemon has it durably. After a broken connection, or a
restart of the daemon, the client connects again. It repeats messages that were not accepted under
the same numbers (so nothing is sent twice), and goes on reading at the next position.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, overload

import msgspec

from ordercast.model.arguments import require_id, require_number, require_producer
from ordercast.model.epochs import Edit
from ordercast.model.errors import ConfigError, Error, Forgotten
from ordercast.model.groups import Group, Site
from ordercast.model.headers import BatchHeaders, Headers
from ordercast.model.messages import CLIENT_BYTES, STAGES, in_generation
from ordercast.net.admin.frames import (
    ADMIN_CODECS,
    Answer,
    Change,
    ClientFrame,
    ClientHello,
    Confirm,
    DaemonFrame,
    DigestRequest,
    Failed,
    GrantsRequest,
    GroupMarks,
    IdMarkRequest,
    Opened,
    RangeEnd,
    Rejected,
    Rolled,
    ServedCluster,
    Shed,
    StagesReached,
    StatusRequest,
    SubscribedBatches,
    Targets,
    TimesRequest,
    TurnGiven,
    Welcome,
    Withheld,
    decode_digests,
    error_of,
    too_new,
)
from ordercast.net.admin.targets import KnownTargets
from ordercast.net.client.calls import Away, DaemonCall, P
from ordercast.net.client.connection import DaemonConnection
from ordercast.net.client.endpoints import (
    Credentials,
    Endpoint,
    SocketEndpoint,
    TlsEndpoint,
    endpoints_of,
    is_address,
)
from ordercast.net.client.followers import (
    NamedCalls,
    NamedClientBatches,
    NamedClientDeliveries,
    NamedSubscription,
)
from ordercast.net.client.outgoing import ClientOutgoing, SendLimits, Target
from ordercast.net.client.readers import ClientBatches, ClientDeliveries, ClientSubscription
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import require_own
from ordercast.net.cluster.file import read_cluster
from ordercast.net.cluster.processes import require_site
from ordercast.net.site.changes import ClusterChanges, new_change_name, require_change
from ordercast.net.site.named_readers import require_unnamed
from ordercast.net.site.named_stream import require_span
from ordercast.wire.replica_digest import ReplicaDigest

_log = logging.getLogger("ordercast.net.client")

START_S = 5.0  # for the daemon to answer at first
PATIENCE_S = 30.0  # for a daemon that has gone away
FLUSH_S = 10.0  # when leaving the block
WAIT = "wait"
UNANSWERED = (WAIT, "fail")


class NotFlushed(Error):
    """Leaving, the client could not hand over everything; the message says what is left."""


def connect(
    cluster: str | Path | Cluster | Sequence[str],
    site: Site | None = None,
    dir: str | Path | None = None,  # noqa: A002 - the name of the command's option
    *,
    cert: str | Path | None = None,
    key: str | Path | None = None,
    ca: str | Path | None = None,
    secret: str | Path | None = None,
    unanswered: str = "wait",
    start_s: float = START_S,
    patience_s: float = PATIENCE_S,
    flush_s: float = FLUSH_S,
) -> "Client":
    """The daemon of a site, to be used with `async with`.

    `cluster` is the cluster file of a site on this machine, or the address of a daemon anywhere:
    `tls://HOST:PORT`, with the files of our certificate (`cert`; `key` and `ca` if they are not
    beside it), or `tcp://HOST:PORT` on this machine, with the cluster's `secret`. With an address,
    `site` may be left out: it is the one that answers. Of several addresses, in a list or with
    commas between, the first that answers is used, and another when that daemon has gone away. What
    can be recognised as a copy is sent again to the other one (docs/requests.md). `unanswered` is
    about the other sends, if their daemon goes away before it has answered: they "wait" for that
    site, or "fail" at once when another site answers.

    `start_s`: how long it may take to answer at first; `patience_s`: how long it may be away before
    the calls that wait for it fail; `flush_s`: how long leaving waits until all is accepted. Raises
    ConfigError if a file does not exist, or has a mistake, or if there is no such site.
    """
    times = (start_s, patience_s, flush_s)
    if is_address(cluster) or not isinstance(cluster, (str, Path, Cluster)):
        files = (None if file is None else Path(file) for file in (cert, key, ca, secret))
        endpoints = endpoints_of(cluster, Credentials(*files), site)  # type: ignore[arg-type]
        if unanswered not in UNANSWERED:
            raise ConfigError(f"unanswered: {unanswered!r} is none of {', '.join(UNANSWERED)}")
        name = next((each.cluster for each in endpoints if isinstance(each, TlsEndpoint)), "")
        client = Client(endpoints, name, site or "", *times)
        client._waits = unanswered == WAIT
        return client
    found = cluster if isinstance(cluster, Cluster) else read_cluster(cluster)
    directory = found.directory(dir)
    require_own(directory)
    if site is None:
        raise ConfigError(f"{found.source}: which site? name it with site=")
    require_site(found, site, directory)
    client = Client([SocketEndpoint(directory / f"{site}.sock")], found.name, site, *times)
    client.cluster = found
    return client


class Client(ClusterChanges[Coroutine[Any, Any, None]]):
    """A daemon's site, as `connect` gives it; to be used with `async with`.

    Entering raises Away (no daemon answers) or Error (it refuses this client). Leaving waits until
    all is accepted, and raises NotFlushed where it is not."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        cluster: str,
        site: Site,
        start_s: float,
        patience_s: float,
        flush_s: float,
    ) -> None:
        self.cluster: Cluster | ServedCluster = ServedCluster(cluster, "", "", False, 0)
        """The cluster file; of a daemon elsewhere, what the daemon tells of it."""
        self.site = site
        """The name of the daemon's site; "" until it is known."""
        self.boot = 0
        """How often the site has been started on its store; 0 before the daemon answers."""
        self.incarnation = 0
        """How often the site has begun without its past; 0 before the daemon answers."""
        self._store = 0  # the number of the site's store
        self._endpoints = endpoints
        self._waits = True  # for a site that has not answered all that was sent to it
        self._start_s = start_s
        self._patience_s = patience_s
        self._flush_s = flush_s
        self._hello = ClientHello(
            max(ADMIN_CODECS), cluster, site, secrets.token_bytes(CLIENT_BYTES), min(ADMIN_CODECS),
            stamps=True,
        )  # fmt: skip
        self._link: DaemonConnection | None = None
        self._targets = KnownTargets(site)
        self._outgoing = ClientOutgoing(self._targets, self._send)
        self._join = self._outgoing.join
        self._welcome: Welcome | None = None  # the last daemon's
        self._calls: dict[int, DaemonCall] = {}
        self._subscriptions: dict[int, ClientSubscription] = {}
        self._named = NamedCalls(
            self._subscriptions, self._next_id, self._begin_named, self._ask, self._send
        )
        self._last_id = 0
        self._ready: asyncio.Future[None] | None = None
        self._giving_up: asyncio.TimerHandle | None = None
        self._closed = False

    # --- opening and closing ----------------------------------------------------------------------

    async def __aenter__(self) -> "Client":
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        link = self._link = DaemonConnection(
            self._endpoints, self._hello, self._may_use, self._up, self._frame, self._down
        )
        link.start()
        try:
            async with asyncio.timeout(self._start_s):
                await self._ready
        except TimeoutError:
            await self._close()
            hint = ""
            if isinstance(self.cluster, Cluster):
                source = self.cluster.source
                hint = f"; start it with 'ordercast node {source} --site {self.site}'"
            raise Away(f"{link}: no daemon answers ({link.trouble}){hint}") from None
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        left = ""
        try:
            async with asyncio.timeout(self._flush_s):
                await self.flush("accepted")
        except TimeoutError:
            left = self._outgoing.unaccepted()
        except Error as trouble:
            left = str(trouble)
        finally:
            await self._close()
        if left:
            message = f"site {self.site}: left before all was accepted: {left}"
            if error is None:
                raise NotFlushed(message)
            _log.warning("%s", message)

    async def _close(self) -> None:
        self._closed = True
        self._outgoing.count_joined()  # nothing joins any more
        if self._giving_up is not None:
            self._giving_up.cancel()
        if self._link is not None:
            await self._link.close()
        self._fail(Error(f"the connection to site {self.site} is closed"), for_good=True)

    # --- sending ----------------------------------------------------------------------------------

    async def multicast(
        self,
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
        *,
        id: str | None = None,  # noqa: A002 - the word that callers know
        since: int | None = None,
    ) -> ClientReceipt:
        """Send to a group, or to all members of several groups as one message. `headers`: small
        values by name, beside the payload. Waits while the messages on their way to the daemon are
        as many as the daemon allows.

        `id`: of several messages that clients of this name send with the same id to the group, one
        is delivered, as long as the group remembers the id ('ordercast docs ids'). `since`: what
        `id_mark` has told before the id was first used; it is asked for if it is not given. The
        client repeats the message, at any site it comes to, until it is stable, and the receipt
        raises Expired if it came too late to know.

        Raises UnknownGroup, TooLarge, CrossDomain (no one domain has all members), ConfigError (the
        payload is not bytes, a name is not a name, or not all sites have a release with headers),
        Away (the daemon has not answered for too long), or Error (the client is closed). Errors
        that only the site can find are raised by the receipt.
        """
        if id is None and not headers:
            receipt = self._join(group, payload)
            if receipt is not None:
                return receipt
        self._require_open()
        if id is not None:
            return await self._once(group, [payload], headers, id, since)
        outgoing = self._outgoing
        target = outgoing.target(group)
        payloads = [payload]
        size, runs = outgoing.measure(target, payloads, headers)
        await outgoing.room(1, size)
        return outgoing.add(target, payloads, size, runs)

    def multicast_nowait(
        self,
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
    ) -> ClientReceipt:
        """Send as `multicast` does, but do not wait. Raises WindowFull where there is no room, and
        otherwise as `multicast`."""
        if not headers:
            receipt = self._join(group, payload)
            if receipt is not None:
                return receipt
        self._require_open()
        outgoing = self._outgoing
        target = outgoing.target(group)
        payloads = [payload]
        size, runs = outgoing.measure(target, payloads, headers)
        outgoing.require_room(1, size)
        return outgoing.add(target, payloads, size, runs)

    async def multicast_many(
        self,
        group: Group | Sequence[Group],
        payloads: Sequence[bytes],
        headers: BatchHeaders = None,
        *,
        id: str | None = None,  # noqa: A002 - the word that callers know
        since: int | None = None,
    ) -> ClientReceipt:
        """Send a batch, which is ordered as one. `headers`: a mapping for all its messages, or a
        list with one for each. The receipt is of the last message. With an `id` all of it is
        delivered once. Waits and raises as `multicast`; TooLarge also for too many messages,
        ConfigError for none."""
        self._require_open()
        if id is not None:
            return await self._once(group, payloads, headers, id, since)
        return await self._send_batch(self._outgoing.target(group), list(payloads), headers)

    async def _once(
        self,
        group: Group | Sequence[Group],
        payloads: Sequence[bytes],
        headers: BatchHeaders,
        chosen: str,
        since: int | None,
    ) -> ClientReceipt:
        require_id(group, chosen, since)
        assert isinstance(group, str)
        outgoing, batch = self._outgoing, list(payloads)
        target = outgoing.target(group)
        size, runs = outgoing.measure(target, batch, headers)
        if since is None:
            since = await self.id_mark(group)
        await outgoing.room(len(batch), size)
        return outgoing.send_by_id(target, batch, size, runs, (chosen, since))

    async def id_mark(self, group: Group) -> int:
        """How far the ids of the group are, to be kept with a new id and given as `since` whenever
        a message is sent with that id: then it is not delivered twice however late it is sent
        again. Raises UnknownGroup, ConfigError (the daemon's site is no member of the group, its
        program does not know ids, or too many groups remember ids), NotInMajority, Away, or Error
        (the client is closed)."""
        self._require_open()
        require_id(group, "any id", None)
        self._outgoing.target(group)
        if not self._outgoing.takes_ids:
            raise ConfigError("id: the daemon's program does not know ids")
        return int(msgspec.json.decode(await self._ask(IdMarkRequest, group)))

    async def produce(
        self,
        producer: str,
        number: int,
        group: Group,
        payloads: Sequence[bytes],
        headers: BatchHeaders = None,
        generation: int = 0,
    ) -> ClientReceipt:
        """Send a batch of a producer to a group, under a number above those before it there. Of
        several copies of it, sent through any sites, one is delivered ('ordercast docs producers').
        The receipt is of its last message. `generation`: behind the first message of a later one,
        nothing of an earlier one is delivered.

        If this or the receipt raises, send the same again before any later number; but if the
        receipt raises Fenced, another program uses the name. Waits and raises
        as `multicast_many`; ConfigError also for a wrong name or number, or if the cluster has too
        many producers. The client repeats it, at any site it comes to, until it is stable."""
        self._require_open()
        require_producer(group, producer, number, generation)
        number = in_generation(generation, number)
        outgoing, batch = self._outgoing, list(payloads)
        target = outgoing.target(group)
        size, runs = outgoing.measure(target, batch, headers)
        outgoing.require_above(producer, number, group)
        await outgoing.room(len(batch), size)
        try:
            return outgoing.produce(target, batch, size, runs, (producer, number))
        except ConfigError:  # another one has overtaken it while it waited
            outgoing.give_back(len(batch), size)
            raise

    async def multicast_to(
        self,
        sites: Iterable[Site],
        payload: bytes | Sequence[bytes],
        headers: Headers = None,
    ) -> ClientReceipt:
        """Send a message, or a batch, to listed sites: each gets it once. Waits and raises as
        `multicast`; ConfigError also for an unknown site."""
        self._require_open()
        batch = [payload] if isinstance(payload, bytes) else list(payload)
        return await self._send_batch(self._outgoing.listed(sites), batch, headers)

    async def _send_batch(
        self, target: Target, batch: list[bytes], headers: BatchHeaders
    ) -> ClientReceipt:
        outgoing = self._outgoing
        size, runs = outgoing.measure(target, batch, headers)
        await outgoing.room(len(batch), size)
        return outgoing.add(target, batch, size, runs, whole=True)

    async def flush(self, until: str = "ordered") -> None:
        """Wait until everything sent so far by this client is `accepted`, `ordered` or `stable`.
        Raises as the receipts, and ConfigError for another stage."""
        if until not in STAGES:
            raise ConfigError(f"until: {until!r} is none of {', '.join(STAGES)}")
        await self._outgoing.flush(STAGES.index(until) + 1)

    # --- receiving --------------------------------------------------------------------------------

    @overload
    def batches(
        self, start: int | None = None, attempt: int | None = None, *, observe: bool = False
    ) -> ClientBatches: ...

    @overload
    def batches(
        self, *, reader: str, groups: Iterable[Group] | str | None = None
    ) -> NamedClientBatches: ...

    def batches(
        self,
        start: int | None = None,
        attempt: int | None = None,
        *,
        observe: bool = False,
        reader: str | None = None,
        groups: Iterable[Group] | str | None = None,
    ) -> ClientBatches | NamedClientBatches:
        """As `deliveries`, by the batch: less work per message. Reading raises the same."""
        if reader is not None:
            follow = self._named.follow(reader, groups, start, attempt)
            return NamedClientBatches(follow, self._end_reading)
        require_unnamed(groups)
        return ClientBatches(
            partial(self._begin_reading, start, observe, attempt), self._end_reading
        )

    @overload
    def deliveries(
        self, start: int | None = None, attempt: int | None = None, *, observe: bool = False
    ) -> ClientDeliveries: ...

    @overload
    def deliveries(
        self, *, reader: str, groups: Iterable[Group] | str | None = None
    ) -> NamedClientDeliveries: ...

    def deliveries(
        self,
        start: int | None = None,
        attempt: int | None = None,
        *,
        observe: bool = False,
        reader: str | None = None,
        groups: Iterable[Group] | str | None = None,
    ) -> ClientDeliveries | NamedClientDeliveries:
        """Every message for the daemon's site in order, from position `start`, or after the last
        position that was confirmed. It never ends by itself. `attempt`: the attempt of the last
        delivery that the application has; if that delivery was taken back, the first item is the
        Rollback. `observe`: nobody waits for this reader (see `slow_member`), however far behind it
        is.

        `reader`: the messages of a named reader's groups, behind the last position that was
        confirmed under this name. If there is no such reader, it is made, with these `groups` (`*`:
        all). The first item waits until no other follower of the name is before this one.

        Reading raises ConfigError (a position below 1; no such reader, or one of other groups),
        UnknownGroup, Forgotten (a position, or a reader, that is no longer kept), TurnLost (another
        follower has confirmed beyond what this one has read, or the reader was reset or removed),
        Away (the daemon has not answered for too long), or Error (the client is closed).
        """
        if reader is not None:
            follow = self._named.follow(reader, groups, start, attempt)
            return NamedClientDeliveries(follow, self._end_reading)
        require_unnamed(groups)
        begin = partial(self._begin_reading, start, observe, attempt)
        return ClientDeliveries(begin, self._end_reading)

    def _begin_reading(
        self, start: int | None, observe: bool, attempt: int | None
    ) -> ClientSubscription:
        self._require_open()
        subscription = ClientSubscription(self._next_id(), start, observe, self._send, attempt)
        self._subscriptions[subscription.number] = subscription
        subscription.subscribe()
        return subscription

    def _begin_named(self, subscription: NamedSubscription) -> None:
        self._require_open()
        self._subscriptions[subscription.number] = subscription
        subscription.subscribe()

    def _end_reading(self, subscription: ClientSubscription) -> None:
        if self._subscriptions.pop(subscription.number, None) is not None and not self._closed:
            subscription.close()

    def read(self, reader: str, start: int, end: int) -> NamedClientDeliveries:
        """The messages of a named reader's groups from position `start` to `end`, for anybody: it
        needs no turn and changes nothing. It ends after `end`, and waits for what is not delivered
        yet. Raises ConfigError; reading raises as `deliveries`."""
        return NamedClientDeliveries(self._named.read(reader, start, end), self._end_reading)

    def read_batches(
        self, start: int, end: int, *, reader: str | None = None
    ) -> NamedClientBatches | ClientBatches:
        """As `read`, by the batch; the last one may go beyond `end`. Without a `reader`: all
        messages that this client may read, and nothing is kept for it. Raises as `read`; without a
        reader reading raises Forgotten where messages are no longer kept."""
        if reader is not None:
            return NamedClientBatches(self._named.read(reader, start, end), self._end_reading)
        require_span(start, end)

        def begin() -> ClientSubscription:
            subscription = self._begin_reading(start, True, None)
            subscription.until = end
            return subscription

        return ClientBatches(begin, self._end_reading)

    async def open_reader(self, reader: str, groups: Iterable[Group] | str) -> int:
        """Make a named reader of these groups (`*`: all), unless there is one. Returns the last
        position that was confirmed under this name. Waits for the turn, and gives it up. Raises as
        reading `deliveries` of a named reader."""
        follower = self._named.follow(reader, groups, None, None)()
        try:
            return await follower.entered()
        finally:
            self._end_reading(follower)

    async def reset_reader(self, reader: str, position: int | None = None) -> int:
        """Let a named reader go on with this position (0: the first that is kept); without one,
        behind all that was delivered. Followers lose their turn. Returns the position when it is
        durable. A client that may read all of the reader's groups may move it forward while it has
        no follower; everything else is for operators. Raises ConfigError (no such reader, a
        position that is not delivered), NotGranted, Away, or Error (the client is closed)."""
        return await self._named.reset(reader, position)

    async def remove_reader(self, reader: str) -> None:
        """Forget a named reader: nothing is kept for it any more. Raises ConfigError (there is none
        of this name), Away, or Error (the client is closed)."""
        await self._named.remove(reader)

    async def confirm(
        self, position: int, attempt: int | None = None, *, reader: str | None = None
    ) -> None:
        """The application is done with everything up to this position, and will not see it again.
        Returns when the daemon has that durably. `reader`: this client's follower of the name is
        done with them; it waits for its turn if it has lost that with its connection. Raises
        ConfigError for a position that is not delivered yet, TurnLost (another follower has
        confirmed beyond it, or this client does not follow), Away, or Error (the client is
        closed)."""
        require_number(position, "position", 0)
        if attempt is not None:
            require_number(attempt, "attempt", 0)
        if reader is not None:
            await self._named.confirm(reader, position, attempt)
            return
        if attempt is None:  # as far as this client's slowest reader has come
            own = (one for one in self._subscriptions.values() if type(one) is ClientSubscription)
            attempt = min((one.attempt for one in own), default=0)
        await self._ask(Confirm, position, attempt)

    # --- asking -----------------------------------------------------------------------------------

    async def change(self, *edits: Edit, name: str = "") -> None:
        """Change the cluster: several edits (`ordercast.model.epochs`) at once, or none of them.
        Returns when the daemon's site has seen it done. Asked again under the same `name`, it is
        not done again.

        Raises ConfigError (it is impossible) or NotGranted, and nothing has happened; or
        NotInMajority, Away, or Error (the client is closed), and it may still be done."""
        name = name or new_change_name()
        require_change(name, edits)  # the daemon drops a client whose frame breaks a rule
        await self._ask(Change, name, edits)

    @property
    def sites(self) -> tuple[Site, ...]:
        """The sites of the cluster, as the daemon said last."""
        return self._targets.sites

    @property
    def groups(self) -> dict[Group, tuple[Site, ...]]:
        """The groups of the cluster and their members, as the daemon said last."""
        return dict(self._targets.groups)

    @property
    def send_limits(self) -> SendLimits:
        """How much the daemon takes of this client, as it said last."""
        return self._outgoing.limits

    async def status(self) -> dict[str, Any]:
        """The object that `ordercast status --json` prints for this site. Raises Away, or Error
        (the client is closed)."""
        return msgspec.json.decode(await self._ask(StatusRequest), type=dict[str, Any])

    async def grants(self) -> dict[str, Any]:
        """Who may do what: `table`, the grants of each subject, or None if there is no table; and
        `revoked`, the fingerprints of revoked certificates with their subjects. Raises NotGranted,
        Away, or Error (the client is closed, or the daemon's program is older)."""
        return msgspec.json.decode(await self._ask(GrantsRequest), type=dict[str, Any])

    async def logged_times(self, start: int) -> list[tuple[int, int, int]]:
        """When the daemon's site logged its deliveries, from position `start` on: as many as one
        answer takes, each with the position of its first message, its number of messages, and the
        site's clock in nanoseconds since 1970. Empty where no times are kept. Raises Forgotten,
        NotGranted, Away, or Error (the client is closed)."""
        require_number(start, "start", 1)
        self._require_open()
        if not self._outgoing.tells_times:
            return []
        body = await self._ask(TimesRequest, start)
        return msgspec.json.decode(body, type=list[tuple[int, int, int]])

    def keep_seqs(self) -> None:
        """For `Replica`, which finds results by seq: every message that is sent from now on keeps
        its seq, however often it is repeated. So it is only repeated to a daemon with the store of
        its site. Raises nothing."""
        self._outgoing.keeps_seqs = True

    async def exchange_digests(
        self, group: Group, digest: ReplicaDigest | None, alarm: str
    ) -> list[tuple[Site, ReplicaDigest]]:
        """For `Replica`: tell how far it is, and what it finds wrong. Returns what the other
        members told last. Raises Away, or Error (the client is closed)."""
        return decode_digests(await self._ask(DigestRequest, group, digest, alarm))

    def _next_id(self) -> int:
        self._last_id += 1
        return self._last_id

    async def _ask(
        self,
        kind: Callable[Concatenate[int, P], ClientFrame],
        *fields: P.args,
        **named: P.kwargs,
    ) -> bytes:
        """Ask, again on every new connection, until there is an answer."""
        self._require_open()
        number = self._next_id()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        call = self._calls[number] = DaemonCall(kind(number, *fields, **named), answer)
        self._send_call(call)
        try:
            return await answer
        finally:
            del self._calls[number]

    # --- the link ---------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed or self._link is None:
            raise Error(f"the connection to site {self.site} is not open: use 'async with'")
        if self._link.refused is not None:
            raise self._link.refused

    def _send(self, frame: ClientFrame) -> None:
        if self._link is None:
            return
        if self._welcome is not None and self._link.up:
            unknown = too_new(frame, self._welcome)
            if unknown:
                why = f"the daemon's program does not know {unknown}: upgrade site {self.site}"
                asyncio.get_running_loop().call_soon(
                    self._answered, getattr(frame, "id", 0), b"", Error(why)
                )
                return
        self._link.send(frame)

    def _send_call(self, call: DaemonCall) -> None:
        call.sent += self._link is not None and self._link.up
        self._send(call.question)

    def _may_use(self, site: Site) -> bool:
        """Do not use another site while requests at the last site have no answer and are waited
        for: only that site knows whether it has accepted them."""
        if self.site in ("", site):
            return True
        return not (self._waits and self._outgoing.unanswered)

    def _move(self, site: Site) -> None:
        """Another site answers than before. Fail the calls that only the earlier site could
        answer."""
        gone = Away(f"site {self.site} has gone away, and site {site} answers now")
        self._outgoing.moved(gone)
        self._positions_gone(gone)
        self.incarnation = self._store = 0

    def _begins_anew(self) -> None:
        """The site has lost its store, with what it has accepted and its positions."""
        gone = f"site {self.site} came back without its store"
        self._outgoing.doubtful(Error(f"{gone}: it is not known what it sent"))
        self._positions_gone(Forgotten(gone))

    def _positions_gone(self, gone: Error) -> None:
        """Positions begin anew. Fail the calls and the readers that hold one of before."""
        other = type(gone)(f"{gone}; its positions are others: open a new reader")
        for subscription in list(self._subscriptions.values()):
            if subscription.next is not None:
                del self._subscriptions[subscription.number]
                subscription.failed(other)
        for call in list(self._calls.values()):
            if isinstance(call.question, Confirm | DigestRequest | TimesRequest):
                call.fail(gone)

    def _up(self, welcome: Welcome) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if self.site not in ("", welcome.site):
            self._move(welcome.site)
        known, now = self._store, welcome.store
        if known != now if known and now else self.incarnation not in (0, welcome.incarnation):
            self._begins_anew()
        self.site = self._targets.site = welcome.site
        self.boot, self.incarnation, self._store = welcome.boot, welcome.incarnation, now
        self._welcome = welcome
        if isinstance(self.cluster, ServedCluster):
            self.cluster = welcome.served
        self._targets.update(welcome.targets)
        self._outgoing.resume(welcome)
        for subscription in list(self._subscriptions.values()):
            subscription.subscribe()
        for call in list(self._calls.values()):
            if not call.answer.done():
                self._send_call(call)
        if self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _down(self) -> None:
        assert self._link is not None
        refused = self._link.refused
        for subscription in list(self._subscriptions.values()):
            subscription.lost()
        if refused is not None:
            if self._ready is not None and not self._ready.done():
                self._ready.set_exception(refused)
            self._fail(refused, for_good=True)
        elif self._giving_up is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._giving_up = loop.call_later(self._patience_s, self._give_up)

    def _give_up(self) -> None:
        again_s = max(self._patience_s, 0.1)  # what is asked for from now on does not wait for ever
        self._giving_up = asyncio.get_running_loop().call_later(again_s, self._give_up)
        assert self._link is not None
        self._fail(
            Away(
                f"{self._link}: no daemon has answered for {self._patience_s:g} s"
                f" ({self._link.trouble})"
            ),
            for_good=False,
        )

    def _fail(self, error: Error, *, for_good: bool) -> None:
        for call in list(self._calls.values()):
            call.fail(error, is_answer=False)
        for subscription in list(self._subscriptions.values()):  # a forgotten reader may end now
            subscription.failed(error)
        self._outgoing.fail(error, for_good=for_good)

    def _frame(self, frame: DaemonFrame) -> None:
        if isinstance(frame, StagesReached):
            for reached in frame.reached:
                self._outgoing.reached(*reached)
        elif isinstance(frame, SubscribedBatches | Shed | Opened | Rolled | Withheld):
            subscription = self._subscriptions.get(frame.id)
            if subscription is not None and self._welcome is not None:
                cuts = self._welcome.cuts_requests
                subscription.take(frame if cuts else subscription.of_earlier(frame))
        elif isinstance(frame, TurnGiven | RangeEnd):
            told = self._subscriptions.get(frame.id)
            if isinstance(told, NamedSubscription):
                told.told(frame)
        elif isinstance(frame, Targets):
            self._outgoing.count_joined()  # perhaps a group is gone
            self._targets.update(frame)
        elif isinstance(frame, GroupMarks):
            self._outgoing.take_marks(frame.marks)
        elif isinstance(frame, Answer):
            self._answered(frame.id, frame.body, None)
        elif isinstance(frame, Failed):
            self._answered(frame.id, b"", error_of(frame.kind, frame.reason))
        elif isinstance(frame, Rejected):
            self._outgoing.rejected(frame.number, error_of(frame.kind, frame.reason))

    def _answered(self, number: int, body: bytes, error: Error | None) -> None:
        if number in self._subscriptions and error is not None:
            self._subscriptions[number].failed(error)
        call = self._calls.get(number)
        if call is None:
            return
        if error is not None:
            call.fail(error)
        elif not call.answer.done():
            call.answer.set_result(body)
