"""What voters say to each other: Raft's requests and answers (DESIGN §7)."""

from typing import TypeAlias

import msgspec

from ordercast.model.epochs import Entry
from ordercast.model.groups import Site


class Vote(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="v"):
    """Asks for a vote; `trial`: would you, without anybody's term changing (pre-vote)."""

    term: int
    last: int  # index of the candidate's last entry, and its term
    last_term: int
    trial: bool


class Voted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="w"):
    """`counts`: the voter is entitled; a voter that lost its store is not."""

    term: int
    trial: bool
    granted: bool
    counts: bool


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
    counts: bool
    beat: int


class Install(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag="i"):
    """A snapshot in place of the entries up to `upto`."""

    term: int
    upto: int
    upto_term: int
    voters: tuple[Site, ...]
    snapshot: bytes
    beat: int


Voting: TypeAlias = Vote | Voted | Append | Appended | Install
