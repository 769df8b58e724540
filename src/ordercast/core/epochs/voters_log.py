"""What a voter keeps: its ballot, and the log behind a snapshot. All of it is durable."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from ordercast.model.epochs import Entry, Voters
from ordercast.model.groups import Site


class Ballot(msgspec.Struct, frozen=True, array_like=True, tag="b"):
    """Durable: the term, the vote in it, and whether this voter's word counts."""

    term: int
    vote: Site | None
    entitled: bool


class Appendix(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    """Durable: entries from index `first` on; whatever was there before is gone."""

    first: int
    entries: tuple[Entry, ...]


class LogSnapshot(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """Durable: what the entries up to `upto` fold to, and the voters by then."""

    upto: int
    term: int
    voters: tuple[Site, ...]
    data: bytes


VoterRecord: TypeAlias = Ballot | Appendix | LogSnapshot


class VotersLog:
    """Entries are numbered from 1; those up to the snapshot's are folded into it."""

    def __init__(self, voters: Sequence[Site]) -> None:
        self.snapshot = LogSnapshot(0, 0, tuple(sorted(voters)), b"")
        self.entries: list[Entry] = []

    @property
    def last(self) -> int:
        return self.snapshot.upto + len(self.entries)

    def term_of(self, index: int) -> int:
        if index == self.snapshot.upto:
            return self.snapshot.term
        return self.entry(index).term

    def entry(self, index: int) -> Entry:
        return self.entries[index - self.snapshot.upto - 1]

    def after(self, index: int) -> list[Entry]:
        return self.entries[index - self.snapshot.upto :]

    @property
    def voters(self) -> tuple[Site, ...]:
        """By the last entry that names them, committed or not."""
        for entry in reversed(self.entries):
            if isinstance(entry.record, Voters):
                return tuple(sorted(entry.record.sites))
        return self.snapshot.voters

    def write(self, first: int, entries: Sequence[Entry]) -> Appendix:
        """Put the entries in place of everything from `first` on."""
        del self.entries[first - self.snapshot.upto - 1 :]
        self.entries.extend(entries)
        return Appendix(first, tuple(entries))

    def fold(self, upto: int, data: bytes) -> LogSnapshot:
        voters = self.snapshot.voters
        for entry in self.entries[: upto - self.snapshot.upto]:
            if isinstance(entry.record, Voters):
                voters = tuple(sorted(entry.record.sites))
        snapshot = LogSnapshot(upto, self.term_of(upto), voters, data)
        self.replace(snapshot)
        return snapshot

    def replace(self, snapshot: LogSnapshot) -> None:
        """Entries behind the snapshot stay if they follow from it."""
        kept = self.last - snapshot.upto
        fits = kept > 0 and snapshot.upto >= self.snapshot.upto
        same = fits and self.term_of(snapshot.upto) == snapshot.term
        self.entries = self.entries[-kept:] if same else []
        self.snapshot = snapshot
