"""The hash of a prefix of the voters' log. Sites that have folded the same records have the same
hash.

Each record is hashed with its term and with the hash of the records before it.
"""

import hashlib
from typing import Final

import msgspec

from ordercast.model.epochs import Entry

HASH_BYTES: Final = 16
START: Final = bytes(HASH_BYTES)  # the hash of no records
UNKNOWN: Final = b""  # a store that is older than these hashes has folded the records

_encode = msgspec.msgpack.Encoder().encode


def linked(chain: bytes, entry: Entry) -> bytes:
    """The hash with one more record."""
    if chain == UNKNOWN or not entry.term:
        return UNKNOWN
    return hashlib.blake2b(chain + _encode(entry), digest_size=HASH_BYTES).digest()


def differ(one: bytes, other: bytes) -> bool:
    """Whether two prefixes of one length are certainly not the same."""
    return one != other and UNKNOWN not in (one, other)
