"""Digests of payloads and the hash of a whole history, the same in every process and machine."""

import hashlib

import msgspec
from msgspec.structs import astuple

from ordercast.history.rows import Delivered, History, Row, Sent
from ordercast.model.headers import HeaderItems

_DIGEST_BYTES = 8
_WITH_HEADERS = b"headers"  # so that no payload has the digest of another one with headers
_LATER = {Sent: (3, 2), Delivered: (3, 3)}
"""How many fields at the end of a row came later, first those of requests, then of headers."""
_encode = msgspec.msgpack.Encoder().encode


def digest(payload: bytes, headers: HeaderItems = ()) -> int:
    """A message's digest as the tables hold it: 8 bytes of BLAKE2b as a signed integer. It is the
    payload's where there are no headers."""
    if headers:
        data, person = _encode([payload, headers]), _WITH_HEADERS
    else:
        data, person = payload, b""
    raw = hashlib.blake2b(data, digest_size=_DIGEST_BYTES, person=person).digest()
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
    """Fields that came later are left out of rows that have no value in them: older rows keep their
    hash."""
    later = _LATER.get(type(row))
    if later is None:
        return _encode(row)
    fields = astuple(row)
    for count in reversed(later):
        if any(field is not None for field in fields[-count:]):
            break
        fields = fields[:-count]
    return _encode(fields)
