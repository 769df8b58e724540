"""Daemons as a feed.

The driver asks each site how far it is, and moves the source's named reader. Tasks read ranges,
each over a connection of its own. The name belongs to the source: the site's application and other
readers stay where they are. A batch query reads without a name, so nothing is kept for it.
"""

import asyncio
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack
from typing import Any, NamedTuple, TypeVar

from ordercast.core.epochs.log_tail import Rollback
from ordercast.model.errors import ConfigError, Forgotten
from ordercast.model.groups import Site
from ordercast.model.messages import DeliveredBatch
from ordercast.model.names import nearest
from ordercast.net.client.calls import Away
from ordercast.net.client.client import Client, connect
from ordercast.net.client.endpoints import is_address
from ordercast.net.client.loop_thread import LoopThread
from ordercast.net.site.gaps import GapBatch
from ordercast.net.site.stream import StreamBatch
from ordercast.pipeline.streams.columns import RowsOfBatches
from ordercast.pipeline.streams.feed import lost
from ordercast.pipeline.streams.offsets import Offset, Offsets, PositionRange
from ordercast.pipeline.streams.options import NodeOptions, SourceOptions
from ordercast.pipeline.streams.rollbacks import Rollbacks

_log = logging.getLogger("ordercast.pipeline")
_ASK_S = 5.0  # for a daemon to answer a question of the driver; then the site counts as away

_FORGOTTEN = "they are no longer kept"

T = TypeVar("T")


class Door(NamedTuple):
    """Where a site is reached: an address, or "" for its socket on this machine."""

    site: Site
    address: str


def client_of(nodes: NodeOptions, door: Door | None, site: Site | None = None) -> Client:
    """A client of a site; without a door, of the `nodes` that are given."""
    times = {"start_s": nodes.timeout_s, "patience_s": nodes.timeout_s}
    address = nodes.nodes if door is None else door.address
    wanted = site if door is None else door.site or None
    if not is_address(address):
        return connect(nodes.nodes, wanted, nodes.dir, **times)  # type: ignore[arg-type]
    files = {"cert": nodes.cert, "key": nodes.key, "ca": nodes.ca, "secret": nodes.secret}
    return connect(address, wanted, **files, **times)  # type: ignore[arg-type]


class NodesFeed:
    """`named`: read under the name of the options. A streaming query needs a name."""

    def __init__(self, options: SourceOptions, *, named: bool) -> None:
        assert options.nodes is not None
        self._nodes = options.nodes
        self._options = options
        self._named = named
        self._thread: LoopThread | None = None
        self._stack = AsyncExitStack()
        self._clients: dict[Site, Client] = {}
        self._doors: dict[Site, Door] = {}
        self._away: set[Site] = set()
        self._rolled: dict[Site, Rollbacks] = {}
        self._made: dict[Site, int] = {}  # when the readers were made that this program has seen

    # --- on the driver ----------------------------------------------------------------------------

    def first(self) -> Offsets:
        return self._call(self._first())

    def unread(self) -> Offsets | None:
        """A query has read nothing before its reader is made. Makes none."""
        return self._call(self._unread())

    def latest(self, start: Offsets) -> Offsets:
        return self._call(self._latest(start))

    def rollbacks(self) -> Mapping[Site, Rollbacks]:
        """The rollbacks that the sites told when they were last asked."""
        self._call(self._ask_rollbacks())
        return self._rolled

    def confirm(self, offsets: Mapping[Site, Offset]) -> None:
        self._call(self._confirm(offsets))

    def doors(self) -> dict[Site, Door]:
        """Where the sites of the query are reached, for its tasks."""
        self._call(self._enter())
        return dict(self._doors)

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.call(self._stack.aclose())
            thread.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        if self._thread is None:
            self._thread = LoopThread()
        return self._thread.call(work)

    async def _enter(self) -> None:
        """Connect to all sites, once."""
        if self._clients:
            return
        for door in await self._found():
            client = client_of(self._nodes, door)
            found = await self._stack.enter_async_context(client)
            self._doors[found.site] = Door(found.site, door.address)
            self._clients[found.site] = found
        for site, client in self._clients.items():
            self._require_groups(site, client)

    async def _found(self) -> Sequence[Door]:
        """The sites that are named; without names those that the addresses lead to."""
        sites, nodes = self._options.sites, self._nodes
        if not is_address(nodes.nodes):
            if not sites:
                raise ConfigError(f"sites: is missing; which sites of {nodes.nodes} are read?")
            return [Door(site, "") for site in sites]
        addresses = [each.strip() for each in nodes.nodes.split(",")]
        if not sites:
            return [Door("", address) for address in addresses]
        async with client_of(nodes, None) as client:
            told = (await client.status())["doors"]
            known = client.sites
        scheme = addresses[0].partition("://")[0]
        for site in sites:
            if site not in told:
                why = "has no address for clients" if site in known else "is not of this cluster"
                raise ConfigError(f"sites: {site!r} {why}{nearest(site, told)}")
        return [Door(site, f"{scheme}://{told[site]}") for site in sites]

    def _require_groups(self, site: Site, client: Client) -> None:
        for group in self._options.groups or ():
            if group not in client.groups:
                hint = nearest(group, client.groups)
                raise ConfigError(f"subscribe: there is no group {group!r}{hint}")
            if site not in client.groups[group]:
                raise ConfigError(
                    f"subscribe: site {site} is no member of group {group!r}; leave one of them out"
                )

    async def _first(self) -> Offsets:
        await self._enter()
        read = self._reader_at if self._named else self._kept_before
        return {site: await _placed(client, read) for site, client in self._clients.items()}

    async def _unread(self) -> Offsets | None:
        await self._enter()
        for client in self._clients.values():
            if self._options.reader in (await client.status())["readers"]:
                return None
        kept = self._kept_before
        return {site: await _placed(client, kept) for site, client in self._clients.items()}

    async def _ask_rollbacks(self) -> None:
        await self._enter()
        for site in self._clients.keys() - self._rolled.keys():
            self._rolled[site] = _rollbacks_of(await self._clients[site].status())

    async def _reader_at(self, client: Client) -> int:
        options = self._options
        groups = "*" if options.groups is None else list(options.groups)
        return await client.open_reader(options.reader, groups)

    async def _kept_before(self, client: Client) -> int:
        """The position before the first that is kept."""
        settled = int((await client.status())["settled"])
        return await _first_kept(client, 1, settled) - 1

    async def _latest(self, start: Offsets) -> Offsets:
        await self._enter()
        asked = [self._site_at(site, start.get(site), bool(start)) for site in self._clients]
        found = await asyncio.gather(*asked)
        ends = dict(zip(self._clients, found, strict=True))
        return {**start, **{site: end for site, end in ends.items() if end is not None}}

    async def _site_at(self, site: Site, start: Offset | None, in_query: bool) -> Offset | None:
        """How far a site can be read. None: it does not answer, and stays where it is. Not
        `in_query`: somebody only asks, and no reader is made, which would hide that one is gone."""
        client, options = self._clients[site], self._options
        try:
            async with asyncio.timeout(_ASK_S):
                status = await client.status()
        except (TimeoutError, Away):
            if start is None:
                raise Away(f"site {site}: no daemon answers") from None
            if site not in self._away:
                _log.warning("site %s does not answer; the query waits for its deliveries", site)
            self._away.add(site)
            return None
        self._away.discard(site)
        rolled = self._rolled[site] = _rollbacks_of(status)
        last = status["position" if options.rollbacks else "settled"]
        end = Offset(int(status["attempt"]), int(last))
        if not self._named:
            return end
        if start is None:
            if in_query:  # a site that is new to the query
                await self._reader_at(client)
            return end
        self._require_groups_of_reader(site, status)
        why = self._lost(site, start, status)
        if why is None:
            taken_back = rolled.annul(start)
            return end if taken_back or end.position > start.position else start
        if options.fail_on_data_loss:
            raise lost(site, start.position + 1, 0, why)
        await self._reader_at(client)
        self._made.pop(site, None)
        # An end below the start says that positions began anew.
        return Offset(end.attempt, min(end.position, max(0, start.position - 1)))

    def _require_groups_of_reader(self, site: Site, status: Mapping[str, Any]) -> None:
        """A reader gives no other groups than those that it was made for."""
        options = self._options
        told = status["readers"].get(options.reader, {"groups": "*"})["groups"]
        if told == "*" or set(options.groups or ("*",)) <= set(told):
            return
        raise ConfigError(
            f"subscribe: reader {options.reader!r} of site {site} was made for {', '.join(told)}"
            " alone: subscribe to no others, or begin a query with a new readerName and checkpoint"
        )

    def _lost(self, site: Site, start: Offset, status: Mapping[str, Any]) -> str | None:
        """Why the site cannot go on behind `start`. None: it can, perhaps later."""
        name = self._options.reader
        if self._rolled[site].annul(start):
            if name in status["readers"] and self._options.rollbacks:
                return None
            return "they were taken back"
        if name not in status["readers"]:
            return f"its reader {name!r} is gone, as with a lost store"
        made = status["readers"][name]["created_ns"]
        if self._made.setdefault(site, made) != made:
            return f"its reader {name!r} was removed and made again, perhaps in another store"
        # A site that is in an epoch has all that was settled, from its start on. While a rollback
        # is being stored, the log is shorter than what was delivered.
        last = max(int(status["logged"]), int(status["position"]))
        if status["epoch"] and last < start.position:
            return f"its log ends at {last}, as with an older copy of the store"
        return None

    async def _confirm(self, offsets: Mapping[Site, Offset]) -> None:
        await self._enter()
        for site, offset in offsets.items():
            client = self._clients.get(site)
            if client is None or not offset.position or site in self._away:
                continue
            try:
                async with asyncio.timeout(_ASK_S):
                    status = await client.status()
                    told = status["readers"].get(self._options.reader)
                    position = min(offset.position, int(status["settled"]))
                    if told is not None and told["confirmed"] < position:
                        await client.reset_reader(self._options.reader, position + 1)
            except (TimeoutError, Away):
                continue  # the next batch confirms more
            except ConfigError as error:  # it has restarted, and has not delivered as far again
                _log.warning("site %s: %s", site, error)


def read_span(
    options: SourceOptions, door: Door, span: PositionRange, *, named: bool
) -> Iterator[Any]:
    """The Arrow batches of a range. Runs in a task, over a connection of its own."""
    assert options.nodes is not None
    rows = RowsOfBatches(span.site, options.headers)
    with asyncio.Runner() as runner:
        client = client_of(options.nodes, door)
        runner.run(client.__aenter__())
        try:
            reading = _Range(client, options, span, rows, named=named)
            while runner.run(reading.fill()):
                yield from rows.full()
            yield from rows.rest()
        finally:
            runner.run(client.__aexit__(None, None, None))


class _Range:
    """Fills `rows` with the batches of a range."""

    def __init__(
        self,
        client: Client,
        options: SourceOptions,
        span: PositionRange,
        rows: RowsOfBatches,
        *,
        named: bool,
    ) -> None:
        self._client = client
        self._options = options
        self._span = span
        self._rows = rows
        self._named = named
        self._at = span.after
        self._last = span.last
        self._groups = None if options.groups is None else set(options.groups)
        self._batches: Any = None

    async def fill(self) -> bool:
        """Read until there is an Arrow batch. False: all is read."""
        span = self._span
        if self._batches is None:
            self._rows.add_rollbacks(span)
            if span.anew:
                self._gap(span.after + 1, 0, "positions began anew")
            if await self._until() <= span.after:
                return False
            self._open()
        while True:
            try:
                batch = await anext(self._batches)
            except StopAsyncIteration:
                return False
            except Forgotten as error:
                await self._forgotten(error)
                continue
            if self._is_later(batch):
                return False
            if isinstance(batch, GapBatch):
                await self._missing(batch)
            elif isinstance(batch, DeliveredBatch) and self._wants(batch):
                self._rows.add(batch, self._at, self._last)
                self._at = min(batch.last, self._last)
                if self._rows.is_full:
                    return True

    async def _until(self) -> int:
        """How far the range can be read. A rollback since the range was planned has removed the
        rest; the next batch tells of it."""
        if self._options.rollbacks and self._last > self._span.after:
            limit = _rollbacks_of(await self._client.status()).limit(self._span.attempt)
            self._last = self._last if limit is None else min(self._last, limit)
        return self._last

    def _is_later(self, batch: StreamBatch) -> bool:
        """Whether it is of a later attempt than the range: from here on all is."""
        if not self._options.rollbacks or not isinstance(batch, Rollback | DeliveredBatch):
            return False
        return batch.attempt > self._span.attempt

    def _open(self) -> None:
        reader = self._options.reader if self._named else None
        self._batches = self._client.read_batches(self._at + 1, self._last, reader=reader)

    def _wants(self, batch: DeliveredBatch | GapBatch) -> bool:
        return self._groups is None or not self._groups.isdisjoint(batch.audience)

    async def _forgotten(self, error: Forgotten) -> None:
        """Without a name: go on with the first position that is kept."""
        if self._named:
            raise error
        first, last = self._at + 1, self._last
        self._at = await _first_kept(self._client, first, last) - 1
        self._gap(first, self._at, _FORGOTTEN)
        if self._at < last:
            self._open()
        else:
            self._batches = _nothing()

    async def _missing(self, gap: GapBatch) -> None:
        """A reader that is new was made behind what was gone before."""
        first, last = max(gap.position, self._span.after + 1), min(gap.last, self._last)
        if gap.group and not self._wants(gap):
            return
        if self._named and (self._span.joins or self._span.anew):
            readers = (await self._client.status())["readers"]
            first = max(first, int(readers[self._options.reader]["confirmed"]) + 1)
        if first <= last:
            why = "they were shed for the site's application" if gap.group else _FORGOTTEN
            self._gap(first, last, why)

    def _gap(self, first: int, last: int, why: str) -> None:
        if self._options.fail_on_data_loss:
            raise lost(self._span.site, first, last, why)
        self._rows.add_gap(first, last)


async def _placed(client: Client, position_of: Callable[[Client], Awaitable[int]]) -> Offset:
    position = await position_of(client)
    return Offset(_rollbacks_of(await client.status()).attempt_at(position), position)


def _rollbacks_of(status: Mapping[str, Any]) -> Rollbacks:
    return Rollbacks(tuple(Offset(*each) for each in status["rolled_back"]))


async def _nothing() -> AsyncIterator[StreamBatch]:
    none: tuple[StreamBatch, ...] = ()
    for batch in none:
        yield batch


async def _first_kept(client: Client, first: int, last: int) -> int:
    """The first position from `first` to `last` that is kept; `last` + 1 if none is."""
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        if await _is_kept(client, middle):
            high = middle
        else:
            low = middle + 1
    return low


async def _is_kept(client: Client, position: int) -> bool:
    items = client.read_batches(position, position)
    try:
        await anext(items, None)
    except Forgotten:
        return False
    finally:
        await items.aclose()
    return True
