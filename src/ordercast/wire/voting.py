"""What voters say to each other: Raft's requests and answers; how many records go into a frame."""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from ordercast.model.epochs import Entry, EpochRecord, Stores, check_stores
from ordercast.model.fields import Natural, Ordinal, Packed, StoreNumber, check_each
from ordercast.model.limits import FOLDED_BYTES, RECORDS

Term: TypeAlias = Natural  # 0 before the first

ChainHash: TypeAlias = Annotated[bytes, Meta(max_length=16)]
"""The hash of all records up to one; empty if it is not known (`core.epochs.chain`)."""

FEW_BYTES: Final = 1024 * 1024  # of records in a frame: beside data, a frame should not be long

_encode = msgspec.msgpack.Encoder().encode


class Vote(Packed, frozen=True, tag="v"):
    """Asks for a vote; `trial`: would you, without anybody's term changing (pre-vote)."""

    term: Term
    last: Natural  # index of the candidate's last entry, and its term
    last_term: Term
    trial: bool


class Voted(Packed, frozen=True, tag="w"):
    """`store`: the number of the voter's store; the word of a new store counts for nothing."""

    term: Term
    trial: bool
    granted: bool
    store: StoreNumber


class Append(Packed, frozen=True, tag="e"):
    """Entries after `before`; with none, a sign of life. `beat` numbers the rounds."""

    term: Term
    before: Natural
    before_term: Term
    entries: Annotated[tuple[Entry, ...], Meta(max_length=RECORDS)]
    committed: Natural
    beat: Natural

    def check(self) -> None:
        check_each(self.entries, "entries")


class Appended(Packed, frozen=True, tag="f"):
    """`match`: the log is as the leader's up to here; if not `fits`, try again from there."""

    term: Term
    fits: bool
    match: Natural
    store: StoreNumber
    beat: Natural


class Install(Packed, frozen=True, tag="i"):
    """A snapshot in place of the entries up to `upto`, whose hash is `chain`."""

    term: Term
    upto: Ordinal
    upto_term: Ordinal
    voters: Stores
    snapshot: Annotated[bytes, Meta(max_length=FOLDED_BYTES)]
    beat: Natural
    chain: ChainHash = b""

    def check(self) -> None:
        check_stores(self.voters, "voters")


Voting: TypeAlias = Vote | Voted | Append | Appended | Install


def fitting(records: Sequence[EpochRecord | Entry]) -> int:
    """How many of them, from the first, go into one frame: at least one, if there is one."""
    total = 0
    for place, record in enumerate(records[:RECORDS]):
        total += len(_encode(record))
        if total > FEW_BYTES and place:
            return place
    return min(len(records), RECORDS)
