"""Digests of payloads and the hash of a whole history, the same in every process and machine."""

import hashlib

import msgspec

from ordercast.history.rows import History

_DIGEST_BYTES = 8


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
    encode = msgspec.msgpack.Encoder().encode
    total = hashlib.sha256()
    for name, rows in history.tables().items():
        total.update(encode([name, len(rows)]))
        for row in sorted(map(encode, rows)):
            total.update(row)
    return total.hexdigest()
