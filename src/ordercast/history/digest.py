"""Digests of payloads and the hash of a whole history, the same in every process and machine."""

import hashlib

import msgspec
from msgspec.structs import astuple

from ordercast.history.rows import Delivered, History, Row, Sent

_DIGEST_BYTES = 8
_NOBODYS = (None, None, None)  # client, request and part: the last fields of a row
_encode = msgspec.msgpack.Encoder().encode


def digest(payload: bytes) -> int:
    """A payload's digest as the tables hold it: 8 bytes of BLAKE2b as a signed integer."""
    raw = hashlib.blake2b(payload, digest_size=_DIGEST_BYTES).digest()
    return int.from_bytes(raw, "big", signed=True)


def history_hash(history: History) -> str:
    """SHA-256 over every row of the five tables; `meta` does not count.

    Rows are encoded as MessagePack arrays of their fields and taken in the bytewise order of the
    encodings, table by table. So the hash depends on which rows there are, not on the order in
    which they were written; and MessagePack rows end by themselves, so no two histories share an
    input.
    """
    total = hashlib.sha256()
    for name, rows in history.tables().items():
        total.update(_encode([name, len(rows)]))
        for row in sorted(map(_encoded, rows)):
            total.update(row)
    return total.hexdigest()


def _encoded(row: Row) -> bytes:
    """Without client, request and part where it has none of them: older rows keep their hash."""
    if isinstance(row, Sent | Delivered) and (row.client, row.request, row.part) == _NOBODYS:
        return _encode(astuple(row)[: -len(_NOBODYS)])
    return _encode(row)
