"""Evidence: what the judge of a share counted, its smallest witnesses, and tables for the driver.

Evidence travels from a worker to the driver as one MessagePack object; arrays in it are bytes.
Counts are added; of the witnesses, the one with the smallest key stays. The evidence of a part
about its borders does not go to the driver as it is: it is too large, so workers fold it first.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from ordercast.pipeline.audits.numbers import Ints

Key = list[Any]  # integers, and names


class Witnessed(msgspec.Struct):
    """A count, and the smallest witness: a key that orders witnesses, and its numbers."""

    count: int = 0
    key: Key | None = None
    shown: list[Any] = []

    def see(self, count: int, key: Key | None, shown: list[Any]) -> None:
        self.count += count
        if key is not None and (self.key is None or key < self.key):
            self.key, self.shown = key, shown

    def add(self, other: "Witnessed") -> None:
        self.see(other.count, other.key, other.shown)


class Evidence(msgspec.Struct):
    """By check; `tables` are columns of integers that the driver puts together. In `borders` the
    first column is a key: what has the same key is folded together."""

    counts: dict[str, int] = {}
    checks: dict[str, Witnessed] = {}
    tables: dict[str, list[bytes]] = {}
    borders: dict[str, list[bytes]] = {}
    names: list[str] = []  # of clients, which have numbers nowhere else

    def count(self, name: str, number: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + int(number)

    def check(self, name: str) -> Witnessed:
        return self.checks.setdefault(name, Witnessed())

    def number(self, names: Iterable[str]) -> Ints:
        """Where these names are among `names`."""
        before = len(self.names)
        self.names.extend(names)
        return np.arange(before, len(self.names))

    def table(self, name: str, *columns: Ints) -> None:
        if len(columns[0]):
            self.tables[name] = [np.ascontiguousarray(c, np.int64).tobytes() for c in columns]

    def border(self, name: str, keys: Ints, *columns: Ints) -> None:
        if len(keys):
            self.borders[name] = [
                np.ascontiguousarray(c, np.int64).tobytes() for c in (keys, *columns)
            ]


def encode(evidence: Evidence) -> bytes:
    return msgspec.msgpack.encode(evidence)


def decode(data: bytes) -> Evidence:
    return msgspec.msgpack.decode(data, type=Evidence)


class Total:
    """The evidence of all shares in a step."""

    def __init__(self, pieces: Iterable[Evidence]) -> None:
        self.counts: dict[str, int] = {}
        self.checks: dict[str, Witnessed] = {}
        self._tables: dict[str, list[list[bytes]]] = {}
        for evidence in pieces:
            for name, number in evidence.counts.items():
                self.counts[name] = self.counts.get(name, 0) + number
            for name, witnessed in evidence.checks.items():
                self.checks.setdefault(name, Witnessed()).add(witnessed)
            for name, columns in evidence.tables.items():
                self._tables.setdefault(name, []).append(columns)

    def table(self, name: str, width: int) -> list[Ints]:
        """A table's columns, its pieces one after the other."""
        pieces = self._tables.get(name, [])
        return [
            np.concatenate([np.frombuffer(piece[i], np.int64) for piece in pieces])
            if pieces
            else np.empty(0, np.int64)
            for i in range(width)
        ]
