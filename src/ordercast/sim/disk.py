"""One site's store: its contents, and their state after a crash.

`sync`: records are durable when the sync that covers them has ended. Of the records after the last
complete sync a crash keeps the first few, or none (a torn tail): never a record without all those
before it. `os`: written records survive the crash of a process. `memory`: nothing survives.

Records are numbered by the outbox that asked for them. A checkpoint of outbox n is written after
n's other duties, maybe after records of later outboxes: it replaces the records up to n.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ordercast.core.epochs.records import Anew, MemberRecord
from ordercast.model.options import MILLISECOND
from ordercast.sim.chance import Chance

_encode = msgspec.msgpack.Encoder().encode


_decode_anew = msgspec.msgpack.Decoder(Anew).decode
_decode_records = msgspec.msgpack.Decoder(list[MemberRecord]).decode


class _Written(NamedTuple):
    outbox: int
    content: Any
    is_checkpoint: bool


class Disk:
    """The site asks for `write` and `checkpoint`; the world begins and ends a sync."""

    def __init__(self, durability: str, stream: Chance, longest_sync: int = MILLISECOND) -> None:
        self.syncs = durability == "sync"
        self.keeps = durability != "memory"
        self._stream = stream
        self._sync = (longest_sync // 10, longest_sync)  # the least and the most that a sync takes
        self._unsynced: deque[_Written] = deque()
        self._covered = 0  # how many of `_unsynced` the sync under way will make durable
        self._checkpoint: Anew | None = None
        self._records: deque[tuple[int, MemberRecord]] = deque()
        self._voters: deque[tuple[int, MemberRecord]] = deque()  # written at once

    def write(self, outbox: int, records: Sequence[MemberRecord]) -> None:
        if self.syncs:
            self._unsynced.extend(_Written(outbox, record, False) for record in records)
        elif self.keeps:
            self._records.extend((outbox, record) for record in records)

    def write_at_once(self, outbox: int, records: Sequence[MemberRecord]) -> None:
        """Write the voters' records of a steady run. No epoch depends on them: they delay nothing,
        and no chance is drawn for them."""
        if self.keeps:
            self._voters.extend((outbox, record) for record in records)

    def checkpoint(self, outbox: int, checkpoint: Anew) -> None:
        if self.syncs:
            self._unsynced.append(_Written(outbox, checkpoint, True))
        elif self.keeps:
            self._replace(outbox, checkpoint)

    def begin_sync(self, slow: int) -> int:
        """Begin a sync of all that is written. Returns how long it takes."""
        self._covered = len(self._unsynced)
        return self._stream.between(*self._sync) + slow

    def end_sync(self) -> None:
        self._harden(self._covered)
        self._covered = 0

    def crash(self) -> None:
        """The first few unsynced records survive, or none. The others are gone."""
        if not self.keeps:
            self._checkpoint = None
            self._records.clear()
        self._harden(self._stream.between(0, len(self._unsynced)))
        self._unsynced.clear()
        self._covered = 0

    def wipe(self) -> None:
        """Replace the disk by an empty one."""
        self._checkpoint = None
        self._records.clear()
        self._voters.clear()

    def restore(self) -> tuple[Anew | None, list[MemberRecord]]:
        """The checkpoint and the records that a restarted site reads, decoded from bytes."""
        kept = self._checkpoint
        records = [record for _, record in (*self._voters, *self._records)]
        checkpoint = None if kept is None else _decode_anew(_encode(kept))
        return checkpoint, _decode_records(_encode(records))

    def _harden(self, count: int) -> None:
        for _ in range(count):
            outbox, content, is_checkpoint = self._unsynced.popleft()
            if is_checkpoint:
                self._replace(outbox, content)
            else:
                self._records.append((outbox, content))

    def _replace(self, outbox: int, checkpoint: Anew) -> None:
        self._checkpoint = checkpoint
        for kept in (self._records, self._voters):
            while kept and kept[0][0] <= outbox:
                kept.popleft()
