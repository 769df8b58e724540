"""Sending a staged batch, as a named producer, exactly once: docs/streams.md has the argument."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from ordercast.core.batches import PER_MESSAGE, batch_bytes, extras_of, without_extras
from ordercast.model.envelope import PER_RUN
from ordercast.model.errors import ConfigError, Error, NotGranted, TooLarge, UnknownGroup
from ordercast.model.groups import Group, Site
from ordercast.model.headers import PER_HEADER, Headers
from ordercast.model.limits import ENVELOPE_BYTES, HEADERS_BYTES, MESSAGE_HEADERS, TICKETS
from ordercast.model.names import nearest
from ordercast.net.client.outgoing import SendLimits
from ordercast.pipeline.streams.staging import (
    FixedBatch,
    RowsGone,
    StagedFile,
    StagedRow,
    Staging,
    chunks,
)

CHUNKS = 2**20  # numbers of one batch; the first is 1
CHUNK_BYTES = 256 * 1024
_AHEAD = 64  # chunks that are sent and not known to be stable
_PART = 4  # a chunk is at most this part of what the client may have under way
_HEADER_BYTES = PER_RUN + PER_HEADER * MESSAGE_HEADERS + HEADERS_BYTES  # of a chunk, at most

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
    def site(self) -> Site: ...

    @property
    def groups(self) -> Mapping[Group, Any]: ...

    @property
    def send_limits(self) -> SendLimits: ...


def number_of(batch: int, chunk: int) -> int:
    """Chunks count from 1."""
    if not 0 < chunk < CHUNKS:
        raise Error(
            f"batch {batch} has more than {CHUNKS - 1:,} chunks, which end where the group or the"
            " headers change: let neighbouring rows have the same, or make smaller batches"
        )
    return batch * CHUNKS + chunk


async def commit_batch(
    staging: Staging,
    producer: str,
    batch: int,
    files: Sequence[StagedFile],
    connect: Callable[[], AbstractAsyncContextManager[ProducingNode]],
    *,
    chosen: bool = True,
    query: str = "",
) -> None:
    """Send a batch once, however often this is called. The files of the first call count.
    `producer` and `query`, its id: "" if no task has told them; `chosen`: another query may have
    sent as this one."""
    if not (producer or staging.producer()):  # nothing was ever staged here
        if not batch:
            staging.begin()
        return
    if not staging.producer() and (chosen or (batch and not staging.has_begun())):
        await _require_first(staging, producer, batch, files, connect)
    name = staging.claim(producer, query)
    staging.require_newest(batch)
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
            await _require_unsent(node, staging, name, batch, files)
            _require_sendable(node, files)
            fixed = await _fix(node.send_limits, staging, cut(node.send_limits, name, batch, files))
        await _send(node, staging, fixed)
    staging.finish(batch)


async def _require_first(
    staging: Staging,
    producer: str,
    batch: int,
    files: Sequence[StagedFile],
    connect: Callable[[], AbstractAsyncContextManager[ProducingNode]],
) -> None:
    """A folder that remembers nothing is the first one of this producer, or another one was lost.
    Raise an Error unless a member of the groups knows that nothing was sent."""
    async with connect() as node:
        _require_sendable(node, files)
        unknown = await _require_unsent(node, staging, producer, batch, files)
    if unknown:
        raise ConfigError(
            f"stagingLocation: {staging.folder} is new, and whether producer {producer!r} has sent"
            f" batch {batch} or later ones before cannot be asked: {unknown}; if there was another"
            " folder, restore it"
        )


async def _require_unsent(
    node: ProducingNode, staging: Staging, producer: str, batch: int, files: Sequence[StagedFile]
) -> str:
    """A batch that is not fixed was never sent, unless its folder was lost: raise an Error then.
    Returns why the site cannot know that; "": it knows."""
    try:
        told = (await node.status())["producers"]
    except NotGranted as error:
        return f"{error} (observe or read of any group is enough)"
    first = number_of(batch, 1)
    marks = _marks(told, producer)
    for group, mark in marks:
        if mark >= first and staging.fixed(batch) is None:  # not by another driver, just now
            raise Error(
                f"batch {batch}: some of it, or of a later batch, was sent to group {group} before"
                f" (producer {producer} is at {mark}), and what it was is not in stagingLocation:"
                " restore that folder, or begin a query with a new checkpoint"
            )
    groups = {group for file in files for group in file.groups} | {group for group, _ in marks}
    for group in sorted(groups):
        if node.site not in node.groups.get(group, (node.site,)):
            return f"site {node.site} is no member of group {group!r}; name one that is in nodes"
    return ""


def _require_sendable(node: ProducingNode, files: Sequence[StagedFile]) -> None:
    """Find what can never be sent before the batch is fixed: a fixed batch must be sent."""
    groups = {group for file in files for group in file.groups}
    for group in sorted(groups):
        if group not in node.groups:
            raise UnknownGroup(f"group: there is no group {group!r}{nearest(group, node.groups)}")
    if len(groups) > TICKETS:
        raise TooLarge(
            f"group: the batch has rows for {len(groups):,} groups; a producer has {TICKETS:,}"
        )
    most = node.send_limits.message_bytes
    for file in files:
        if file.largest > most:
            raise TooLarge(
                f"payload: a row of partition {file.partition} has {file.largest:,} bytes;"
                f" the limit is {most:,}"
            )


def cut(limits: SendLimits, name: str, batch: int, files: Sequence[StagedFile]) -> FixedBatch:
    """How the batch is cut. A chunk is a part of what the client may have under way: several are on
    their way at once, and it still fits if that is less later. One row always goes."""
    rows = max(1, min(chunk_rows, limits.messages // _PART))
    overhead = ENVELOPE_BYTES + _HEADER_BYTES + PER_MESSAGE * (rows + 1)
    size = min(CHUNK_BYTES, limits.bytes // _PART - overhead)
    ordered = sorted(files, key=lambda file: file.partition)
    return FixedBatch(name, batch, rows if size > 0 else 1, max(size, 1), ordered)


async def _fix(limits: SendLimits, staging: Staging, wanted: FixedBatch) -> FixedBatch:
    """Fix the batch, if all of it can be read here and sent. Another driver may be faster."""
    try:
        await asyncio.to_thread(_walk, limits, staging, wanted)
    except RowsGone as error:
        fixed = staging.fixed(wanted.batch)
        if fixed is not None:
            return fixed
        raise ConfigError(
            f"stagingLocation: {error}; a task has staged this file: name a folder that the driver"
            " and all executors share"
        ) from None
    return staging.fix(wanted)


def _walk(limits: SendLimits, staging: Staging, wanted: FixedBatch) -> None:
    """Read all rows as they are sent, and raise what sending them would raise."""
    parts = chunks(staging.rows(wanted), wanted.chunk_rows, wanted.chunk_bytes)
    for n, part in enumerate(parts, start=1):
        number_of(wanted.batch, n)
        require_fitting(part, limits)


def require_fitting(part: Sequence[StagedRow], limits: SendLimits) -> None:
    """Raise what the client or the daemon would raise for a chunk."""
    extras = extras_of(dict(part[0].headers), len(part))
    if not limits.headers:
        extras = without_extras(extras)
    payloads = [row.payload for row in part]
    size = batch_bytes(payloads, limits.message_bytes, extras) + ENVELOPE_BYTES
    if len(part) > 1 and (len(part) > limits.messages or size > limits.bytes):
        raise TooLarge(
            f"a chunk of {len(part):,} rows ({size:,} bytes); this client may have"
            f" {limits.messages:,} ({limits.bytes:,} bytes) under way"
        )


def _marks(told: Any, producer: str) -> list[tuple[Group, int]]:
    return [(each["group"], each["number"]) for each in told if each["producer"] == producer]


async def _send(node: ProducingNode, staging: Staging, fixed: FixedBatch) -> None:
    """Send a batch. What was found to be right before it was fixed may have changed since: the
    error says that it must be put right again."""
    try:
        await _send_chunks(node, staging, fixed)
    except RowsGone as error:
        raise Error(f"{error}, and the batch is not sent yet: restore it") from None
    except (TooLarge, UnknownGroup) as error:
        raise type(error)(
            f"batch {fixed.batch}: it was fixed when that could be sent, and must be sent as it is:"
            f" put this right again: {error}"
        ) from None


async def _send_chunks(node: ProducingNode, staging: Staging, fixed: FixedBatch) -> None:
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
