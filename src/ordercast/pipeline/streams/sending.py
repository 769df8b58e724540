"""Sending a staged batch, as a named producer, exactly once: docs/streams.md has the argument."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from ordercast.model.errors import Error, NotGranted, TooLarge, UnknownGroup
from ordercast.model.groups import Group
from ordercast.model.headers import Headers
from ordercast.model.names import nearest
from ordercast.pipeline.streams.staging import FixedBatch, StagedFile, Staging, chunks

CHUNKS = 2**20  # numbers of one batch; the first is 1
CHUNK_BYTES = 256 * 1024
_AHEAD = 64  # chunks that are sent and not known to be stable

chunk_rows = 1_000
"""Rows of a chunk, in batches that are fixed from now on."""


class ProducingNode(Protocol):
    """What the sink needs of a node or client."""

    async def produce(
        self,
        producer: str,
        number: int,
        group: Group,
        payloads: Sequence[bytes],
        headers: Headers = None,
    ) -> Any: ...

    async def status(self) -> dict[str, Any]: ...

    @property
    def groups(self) -> Mapping[Group, Any]: ...

    @property
    def cluster(self) -> Any: ...


def number_of(batch: int, chunk: int) -> int:
    """Chunks count from 1."""
    if not 0 < chunk < CHUNKS:
        raise Error(f"batch {batch} has more than {CHUNKS - 1:,} chunks: make smaller batches")
    return batch * CHUNKS + chunk


async def commit_batch(
    staging: Staging,
    producer: str,
    batch: int,
    files: Sequence[StagedFile],
    connect: Callable[[], AbstractAsyncContextManager[ProducingNode]],
) -> None:
    """Send a batch once, however often this is called. The files of the first call count.
    `producer`: "" if no task has named it."""
    name = staging.claim(producer)
    if not name:
        return  # nothing was ever staged here
    if staging.is_done(batch):
        staging.finish(batch)  # removes what was staged anew
        return
    fixed = staging.fixed(batch)
    if fixed is None and not any(file.rows for file in files):
        fixed = staging.fix(FixedBatch(name, batch, chunk_rows, CHUNK_BYTES, []))
    if fixed is not None and not fixed.files:
        staging.finish(batch)
        return
    async with connect() as node:
        if fixed is None:
            await _require_unsent(node, name, batch)
            _require_sendable(node, files)
            ordered = sorted(files, key=lambda file: file.partition)
            fixed = staging.fix(FixedBatch(name, batch, chunk_rows, CHUNK_BYTES, ordered))
        await _send(node, staging, fixed)
    staging.finish(batch)


async def _require_unsent(node: ProducingNode, producer: str, batch: int) -> None:
    """A batch that is not fixed was never sent, unless its folder was lost: raise an Error then."""
    try:
        told = (await node.status())["producers"]
    except NotGranted:
        return
    first = number_of(batch, 1)
    for group, mark in _marks(told, producer):
        if mark >= first:
            raise Error(
                f"batch {batch}: some of it, or of a later batch, was sent to group {group} before"
                f" (producer {producer} is at {mark}), and what it was is not in stagingLocation:"
                " restore that folder, or begin a query with a new checkpoint"
            )


def _require_sendable(node: ProducingNode, files: Sequence[StagedFile]) -> None:
    """Find rows that can never be sent before the batch is fixed: a fixed batch must be sent."""
    for file in files:
        for group in file.groups:
            if group not in node.groups:
                raise UnknownGroup(
                    f"group: there is no group {group!r}{nearest(group, node.groups)}"
                )
        most = _message_bytes(node.cluster)
        if file.largest > most:
            raise TooLarge(
                f"payload: a row of partition {file.partition} has {file.largest:,} bytes;"
                f" the limit is {most:,}"
            )


def _message_bytes(cluster: Any) -> int:
    """The limit of the cluster file, or the one that a daemon on another machine tells."""
    limits = getattr(cluster, "limits", None)
    return int(cluster.message_bytes if limits is None else limits.message_bytes)


def _marks(told: Any, producer: str) -> list[tuple[Group, int]]:
    return [(each["group"], each["number"]) for each in told if each["producer"] == producer]


async def _send(node: ProducingNode, staging: Staging, fixed: FixedBatch) -> None:
    """Send all chunks from the first on, in order. A chunk that was sent before becomes a copy."""
    waiting: list[Any] = []
    parts = chunks(staging.rows(fixed), fixed.chunk_rows, fixed.chunk_bytes)
    for n, part in enumerate(parts, start=1):
        first = part[0]
        payloads = [row.payload for row in part]
        number = number_of(fixed.batch, n)
        headers = dict(first.headers)
        receipt = await node.produce(fixed.producer, number, first.group, payloads, headers)
        waiting.append(receipt)
        if len(waiting) >= _AHEAD:
            await waiting.pop(0).stable()
    for receipt in waiting:
        await receipt.stable()
