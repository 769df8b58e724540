"""A node for scripts without asyncio: an event loop in a thread behind ordinary calls.

with ordercast.blocking.connect("cluster.toml", site="a") as node:
    node.multicast("alpha", b"payload").ordered()
    for item in node.deliveries(): ...
"""

from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from ordercast.model.epochs import Edit
from ordercast.model.groups import Group, Site
from ordercast.model.headers import BatchHeaders, Headers
from ordercast.net.client import client
from ordercast.net.client.loop_thread import LoopThread
from ordercast.net.cluster.config import Cluster
from ordercast.net.site.changes import ClusterChanges
from ordercast.net.site.node import Node
from ordercast.net.site.receipts import Receipt
from ordercast.net.site.stream import Deliveries, EpochOpened, Rollback, StreamBatch, StreamItem

T = TypeVar("T")


class _AsyncNode(Protocol):
    """The methods that a node in this process and a daemon's client share."""

    async def change(self, *edits: Edit, name: str = "") -> None: ...
    async def multicast(
        self, group: Any, payload: bytes, headers: Headers, **named: Any
    ) -> Any: ...
    async def multicast_many(
        self, group: Any, payloads: Sequence[bytes], headers: BatchHeaders, **named: Any
    ) -> Any: ...
    async def id_mark(self, group: Group) -> int: ...
    async def produce(
        self,
        producer: str,
        number: int,
        group: Any,
        payloads: Sequence[bytes],
        headers: BatchHeaders,
        generation: int,
    ) -> Any: ...
    async def multicast_to(self, sites: Any, payload: Any, headers: Headers) -> Any: ...
    def multicast_nowait(self, group: Any, payload: bytes, headers: Headers) -> Any: ...
    def deliveries(
        self, start: int | None = None, *, reader: Any = None, groups: Any = None
    ) -> Any: ...
    def batches(
        self, start: int | None = None, *, reader: Any = None, groups: Any = None
    ) -> Any: ...
    def read(self, reader: str, start: int, end: int) -> Any: ...
    async def confirm(self, position: int, *, reader: str | None = None) -> None: ...
    async def reset_reader(self, reader: str, position: int | None = None) -> int: ...
    async def remove_reader(self, reader: str) -> None: ...
    async def flush(self, until: str = "ordered") -> None: ...
    async def status(self) -> dict[str, Any]: ...


class BlockingReceipt:
    """As `Receipt`: how far one message has come."""

    def __init__(self, thread: LoopThread, receipt: Receipt) -> None:
        self._thread = thread
        self._receipt = receipt
        self.group = receipt.group
        self.seq = receipt.seq

    def accepted(self) -> None:
        """Wait as `Receipt.accepted`; raises the same."""
        self._thread.call(self._receipt.accepted())

    def ordered(self) -> None:
        """Wait as `Receipt.ordered`; raises the same."""
        self._thread.call(self._receipt.ordered())

    def stable(self) -> None:
        """Wait as `Receipt.stable`; raises the same."""
        self._thread.call(self._receipt.stable())


class BlockingNode(ClusterChanges[None]):
    """Every call returns when it is done; `deliveries` blocks until there is one."""

    def __init__(self, thread: LoopThread, node: Any) -> None:
        self.site = node.site
        self._thread = thread
        self._node: _AsyncNode = node

    def change(self, *edits: Edit, name: str = "") -> None:
        """As `Node.change`: several edits at once, or none of them; raises the same."""
        self._thread.call(self._node.change(*edits, name=name))

    def multicast(
        self,
        group: Group | Sequence[Group],
        payload: bytes,
        headers: Headers = None,
        *,
        id: str | None = None,  # noqa: A002 - the word that callers know
        since: int | None = None,
    ) -> BlockingReceipt:
        """As `Node.multicast`; raises the same."""
        return self._receipt(self._node.multicast(group, payload, headers, id=id, since=since))

    def multicast_many(
        self,
        group: Group | Sequence[Group],
        payloads: Sequence[bytes],
        headers: BatchHeaders = None,
        *,
        id: str | None = None,  # noqa: A002 - the word that callers know
        since: int | None = None,
    ) -> BlockingReceipt:
        """As `Node.multicast_many`; raises the same."""
        sent = self._node.multicast_many(group, payloads, headers, id=id, since=since)
        return self._receipt(sent)

    def id_mark(self, group: Group) -> int:
        """As `Node.id_mark`; raises the same."""
        return self._thread.call(self._node.id_mark(group))

    def produce(
        self,
        producer: str,
        number: int,
        group: Group,
        payloads: Sequence[bytes],
        headers: BatchHeaders = None,
        generation: int = 0,
    ) -> BlockingReceipt:
        """As `Node.produce`; raises the same."""
        return self._receipt(
            self._node.produce(producer, number, group, payloads, headers, generation)
        )

    def multicast_to(
        self, sites: Sequence[Site], payload: bytes, headers: Headers = None
    ) -> BlockingReceipt:
        """As `Node.multicast_to`; raises the same."""
        return self._receipt(self._node.multicast_to(sites, payload, headers))

    def multicast_nowait(
        self, group: Group | Sequence[Group], payload: bytes, headers: Headers = None
    ) -> BlockingReceipt:
        """As `Node.multicast_nowait`; raises the same."""

        async def send() -> Any:
            return self._node.multicast_nowait(group, payload, headers)

        return self._receipt(send())

    def deliveries(
        self,
        start: int | None = None,
        *,
        reader: str | None = None,
        groups: Iterable[Group] | str | None = None,
    ) -> Iterator[StreamItem]:
        """As `Node.deliveries`; waits for the next one, and raises the same."""
        if reader is not None:
            yield from self._each(self._node.deliveries(start, reader=reader, groups=groups))
            return
        items = self._node.deliveries(start, groups=groups)
        if not isinstance(items, Deliveries):  # a daemon's come by the batch
            for batch in self.batches(start):
                if isinstance(batch, EpochOpened | Rollback):
                    yield batch
                else:
                    yield from batch.deliveries()
            return
        try:
            while True:
                yield self._thread.call(anext(items))
                yield from items.ready()
        finally:
            self._end(items)

    def batches(
        self,
        start: int | None = None,
        *,
        reader: str | None = None,
        groups: Iterable[Group] | str | None = None,
    ) -> Iterator[StreamBatch]:
        """As `Node.batches`; waits for the next one, and raises the same."""
        yield from self._each(self._node.batches(start, reader=reader, groups=groups))

    def read(self, reader: str, start: int, end: int) -> Iterator[StreamItem]:
        """As `Node.read`; waits for the next one, and raises the same."""
        yield from self._each(self._node.read(reader, start, end))

    def _each(self, items: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._thread.call(anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._end(items)

    def _end(self, items: Any) -> None:
        """A loop over items may outlive the block."""
        if not self._thread.closed:
            self._thread.call(items.aclose())

    def confirm(self, position: int, *, reader: str | None = None) -> None:
        """As `Node.confirm`; raises the same."""
        self._thread.call(self._node.confirm(position, reader=reader))

    def reset_reader(self, reader: str, position: int | None = None) -> int:
        """As `Node.reset_reader`; raises the same."""
        return self._thread.call(self._node.reset_reader(reader, position))

    def remove_reader(self, reader: str) -> None:
        """As `Node.remove_reader`; raises the same."""
        self._thread.call(self._node.remove_reader(reader))

    def flush(self, until: str = "ordered") -> None:
        """As `Node.flush`; raises the same."""
        self._thread.call(self._node.flush(until))

    def status(self) -> dict[str, Any]:
        """As `Node.status`; with a daemon it raises as `Client.status`."""
        return self._thread.call(self._node.status())

    def _receipt(self, work: Coroutine[Any, Any, Any]) -> BlockingReceipt:
        return BlockingReceipt(self._thread, self._thread.call(work))


@contextmanager
def _running(opening: "AbstractAsyncContextManager[Any]") -> Iterator[BlockingNode]:
    thread = LoopThread()
    try:
        node = thread.call(_enter(opening))
        try:
            yield BlockingNode(thread, node)
        except BaseException as error:
            thread.call(_leave(opening, error))
            raise
        else:
            thread.call(_leave(opening, None))
    finally:
        thread.close()


async def _enter(opening: "AbstractAsyncContextManager[T]") -> T:
    return await opening.__aenter__()


async def _leave(opening: "AbstractAsyncContextManager[Any]", error: BaseException | None) -> None:
    await opening.__aexit__(type(error) if error else None, error, None)


@contextmanager
def open(  # noqa: A001 - as `Node.open`
    cluster: "str | Path | Cluster",
    site: Site,
    *,
    dir: str | Path | None = None,  # noqa: A002 - the name of the command's option
) -> Iterator[BlockingNode]:
    """A site inside this process, to be used with `with`. Raises as `Node.open`."""
    with _running(Node.open(cluster, site, dir=dir)) as node:
        yield node


@contextmanager
def connect(
    cluster: "str | Path | Cluster | Sequence[str]",
    site: Site | None = None,
    *,
    dir: str | Path | None = None,  # noqa: A002 - the name of the command's option
    cert: str | Path | None = None,
    key: str | Path | None = None,
    ca: str | Path | None = None,
    secret: str | Path | None = None,
    unanswered: str = client.WAIT,
) -> Iterator[BlockingNode]:
    """A site inside a daemon, here or elsewhere, to be used with `with`. Raises as `connect`, and
    as a `Client` on entering and leaving."""
    opening = client.connect(
        cluster, site, dir, cert=cert, key=key, ca=ca, secret=secret, unanswered=unanswered
    )
    with _running(opening) as node:
        yield node
