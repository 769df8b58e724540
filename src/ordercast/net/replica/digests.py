"""The digests of a replica's results: they show whether two replicas got the same.

The messages of a group have numbers within an epoch, the same at every member. Digests begin anew
at boundaries: where an epoch opens, and after every `INTERVAL` messages of it. So a replica that
begins somewhere compares from the next boundary on, and a snapshot holds no digests. Only the
results of equal messages are compared: if two sites were cut off from each other, one may have to
roll back (docs/runtime.md, "Replicas that diverge").
"""

import dataclasses
import hashlib
from collections import deque
from collections.abc import Callable
from typing import Any
from zlib import crc32

import msgspec

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site
from ordercast.model.messages import DeliveredBatch
from ordercast.wire.replica_digest import DigestPoint, ReplicaDigest

INTERVAL = 1_000  # messages between boundaries
_RECENT = 2 * INTERVAL  # how many points are remembered, one for each message
_BOUNDARIES = 1_024  # how many points at boundaries are remembered
_DEPTH = 8  # of nested results: deeper values count only by their type

_Place = tuple[int, int]
"""An epoch, and the number of a message of the group in it."""


class ResultDigests:
    """`epoch` and `number`: those of the last message that was applied. `whole`: all messages since
    the last boundary are in the digests."""

    def __init__(self, group: Group, digest: Callable[[], object] | None) -> None:
        self.group = group
        self.epoch = self.number = 0
        self._digest = digest
        self._whole = False
        self._ids = self._results = self._errors = 0
        self._recent: dict[_Place, DigestPoint] = {}
        self._places: deque[_Place] = deque()
        self._boundaries: dict[_Place, DigestPoint] = {}
        self._last_boundary: DigestPoint | None = None
        # By peer, the last number at which both replicas were equal.
        self._equal: dict[Site, int] = {}

    # --- what is applied --------------------------------------------------------------------------

    def opened(self, epoch: int) -> None:
        """An epoch of the group opens. All messages before it are applied."""
        self.epoch, self.number = epoch, 0
        self._equal.clear()
        self._bound(DigestPoint(epoch, 0, 0, 0, 0, self._state()))

    def rolled_back(self) -> None:
        """The replica went back to an earlier state."""
        self.epoch = self.number = 0
        self._whole = False
        self._recent.clear()
        self._places.clear()
        self._boundaries.clear()
        self._last_boundary = None

    def begin(self, batch: DeliveredBatch) -> None:
        """The messages of this batch are applied next."""
        placed = batch.placed
        if (batch.epoch, placed.number) != (self.epoch, self.number + 1):
            self.epoch, self.number = batch.epoch, placed.number - 1
            self._whole = self.number % INTERVAL == 0
            self._ids = self._results = self._errors = 0
        message = placed.batch
        name = f"{message.origin} {message.incarnation} {message.seq}"
        self._ids = crc32(name.encode(), self._ids)

    def applied(self, value: object, error: Exception | None) -> None:
        """Take the result of the next message."""
        self.number += 1
        if error is None:
            self._results = crc32(encoded(value), self._results)
        else:
            self._errors += 1
            self._results = crc32(encoded_error(error), self._results)
        if self._whole:
            self._note()
        if self.number % INTERVAL == 0:
            state = self._state()
            self._bound(self._point(state) if self._whole or state else None)

    def _note(self) -> None:
        place = (self.epoch, self.number)
        self._recent[place] = self._point()
        self._places.append(place)
        if len(self._places) > _RECENT:
            self._recent.pop(self._places.popleft(), None)

    def _point(self, state: int = 0) -> DigestPoint:
        return DigestPoint(self.epoch, self.number, self._ids, self._results, self._errors, state)

    def _bound(self, point: DigestPoint | None) -> None:
        self._whole = True
        self._ids = self._results = self._errors = 0
        if point is not None:
            self._last_boundary = self._boundaries[point.epoch, point.number] = point
            if len(self._boundaries) > _BOUNDARIES:
                del self._boundaries[next(iter(self._boundaries))]

    def _state(self) -> int:
        if self._digest is None:
            return 0
        found = hashlib.blake2b(encoded(self._digest()), digest_size=8).digest()
        return int.from_bytes(found) >> 1 or 1

    # --- comparing --------------------------------------------------------------------------------

    def told(self) -> ReplicaDigest | None:
        """The digest to tell the others. None: there is nothing to tell yet."""
        points = [] if self._last_boundary is None else [self._last_boundary]
        last = self._recent.get((self.epoch, self.number))
        if last is not None:
            points.append(last)
        return ReplicaDigest(self.group, tuple(points)) if points else None

    def compare(self, here: Site, peer: Site, theirs: ReplicaDigest) -> str:
        """One line that names the difference, or "". Messages that this replica has not applied
        yet, or does not remember, are not compared."""
        for point in theirs.points:
            place = (point.epoch, point.number)
            mine = self._boundaries.get(place) or self._recent.get(place)
            if mine is None or mine.ids != point.ids:
                continue
            if mine.results != point.results:
                first = self._equal.get(peer, 0)
                first = max(first, (point.number - 1) // INTERVAL * INTERVAL) + 1
                return (
                    f"the results of message{_range(first, point.number)} of epoch {point.epoch}"
                    f" differ: {here} has other results ({mine.errors} raised) than {peer}"
                    f" ({point.errors} raised)"
                )
            if point.epoch == self.epoch:
                self._equal[peer] = point.number
            if mine.state and point.state and mine.state != point.state:
                return (
                    f"the states after message {point.number} of epoch {point.epoch} differ:"
                    f" {here} has another than {peer}, although their results were equal"
                )
        return ""


def _range(first: int, last: int) -> str:
    return f" {last}" if first >= last else f"s {first} to {last}"


def encoded(value: object, depth: int = _DEPTH) -> bytes:
    """The value as bytes, the same in every process. Of an object that is no plain data only the
    type counts, because its address differs between processes."""
    if value is None or value is True or value is False:
        return b"%a" % value
    if isinstance(value, bytes | bytearray):
        return b"b%d:%b" % (len(value), bytes(value))
    if isinstance(value, str):
        return b"s" + value.encode("utf-8", "surrogatepass")
    if isinstance(value, int | float):
        return b"%a" % value
    if depth and isinstance(value, tuple | list):
        return _joined(encoded(item, depth - 1) for item in value)
    if depth and isinstance(value, dict):
        pairs = ((encoded(k, depth - 1), encoded(v, depth - 1)) for k, v in value.items())
        return b"d" + _joined(part for pair in sorted(pairs) for part in pair)
    if depth and isinstance(value, set | frozenset):
        return b"{" + _joined(sorted(encoded(item, depth - 1) for item in value))
    if depth and dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        parts: Any = [getattr(value, field.name) for field in fields]
        return _type_name(value) + encoded(parts, depth - 1)
    if depth and isinstance(value, msgspec.Struct):
        return _type_name(value) + encoded(msgspec.structs.astuple(value), depth - 1)
    return _type_name(value)


def encoded_error(error: Exception) -> bytes:
    return b"!" + _type_name(error) + encoded(error.args)


def _joined(parts: Any) -> bytes:
    return b"(" + b"".join(b"%d:%b" % (len(part), part) for part in parts) + b")"


def _type_name(value: object) -> bytes:
    kind = type(value)
    return f"<{kind.__module__}.{kind.__qualname__}>".encode()


def require_divergence(choice: str) -> None:
    if choice not in ("alarm", "stop"):
        raise ConfigError(f"on_divergence: {choice!r} is neither 'alarm' nor 'stop'")
