"""What voters say to each other: Raft's requests and answers (DESIGN §7)."""

from typing import TypeAlias

import msgspec

from ordercast.model.epochs import Entry, Stores


class Vote(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="v"):
    """Asks for a vote; `trial`: would you, without anybody's term changing (pre-vote)."""

    term: int
    last: int  # index of the candidate's last entry, and its term
    last_term: int
    trial: bool


class Voted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="w"):
    """`store`: the number of the voter's store; the word of a new store counts for nothing."""

    term: int
    trial: bool
    granted: bool
    store: int


class Append(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="e"):
    """Entries after `before`; with none, a sign of life. `beat` numbers the rounds."""

    term: int
    before: int
    before_term: int
    entries: tuple[Entry, ...]
    committed: int
    beat: int


class Appended(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="f"):
    """`match`: the log is as the leader's up to here; if not `fits`, try again from there."""

    term: int
    fits: bool
    match: int
    store: int
    beat: int


class Install(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="i"):
    """A snapshot in place of the entries up to `upto`."""

    term: int
    upto: int
    upto_term: int
    voters: Stores
    snapshot: bytes
    beat: int


Voting: TypeAlias = Vote | Voted | Append | Appended | Install
