"""The durable state of a voter: its ballot, and the log after a snapshot."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from ordercast.core.epochs.chain import START, UNKNOWN, linked
from ordercast.model.epochs import Admit, Entry, Founded, Recovered, Stores, Voters
from ordercast.model.groups import Site


class Ballot(msgspec.Struct, frozen=True, array_like=True, tag="b"):
    """The term, and the vote in it."""

    term: int
    vote: Site | None


class Appendix(msgspec.Struct, frozen=True, array_like=True, tag="x"):
    """Entries from index `first` on. They replace all entries from there on."""

    first: int
    entries: tuple[Entry, ...]


class LogSnapshot(msgspec.Struct, frozen=True, array_like=True, tag="s"):
    """The layout that the entries up to `upto` fold to, the voters at that entry, and the hash of
    the entries."""

    upto: int
    term: int
    voters: Stores
    data: bytes
    chain: bytes = UNKNOWN


VoterRecord: TypeAlias = Ballot | Appendix | LogSnapshot


class VotersLog:
    """Entries are numbered from 1. The snapshot replaces the entries up to its number."""

    def __init__(self, voters: Sequence[Site]) -> None:
        none_yet = tuple((voter, 0) for voter in sorted(voters))
        self.snapshot = LogSnapshot(0, 0, none_yet, b"", START)
        self.entries: list[Entry] = []
        # The hash at the snapshot, and after each entry that was asked for so far; the same of the
        # voters' stores.
        self._chains = [START]
        self._stores: list[Mapping[Site, int]] = [dict(none_yet)]

    @property
    def last(self) -> int:
        return self.snapshot.upto + len(self.entries)

    def term_of(self, index: int) -> int:
        if index == self.snapshot.upto:
            return self.snapshot.term
        return self.entry(index).term

    def entry(self, index: int) -> Entry:
        return self.entries[index - self.snapshot.upto - 1]

    def chain_at(self, index: int) -> bytes:
        """The hash of the entries up to this one, which is not before the snapshot."""
        place = index - self.snapshot.upto
        while len(self._chains) <= place:
            self._chains.append(linked(self._chains[-1], self.entries[len(self._chains) - 1]))
        return self._chains[place]

    def after(self, index: int) -> list[Entry]:
        return self.entries[index - self.snapshot.upto :]

    @property
    def voters(self) -> tuple[Site, ...]:
        return tuple(self.stores())

    def stores(self, upto: int | None = None) -> Mapping[Site, int]:
        """The voters, by the last entry that names them, committed or not. Each has the number of
        the store that counts as this voter; 0: none does."""
        place = len(self.entries) if upto is None else upto - self.snapshot.upto
        known = self._stores
        while len(known) <= place:
            known.append(_next_stores(known[-1], self.entries[len(known) - 1]))
        return known[place]

    def stores_of(self, site: Site, since: int) -> list[int | None]:
        """The store of the site that the log names at `since`, and after each later entry."""
        return [self.stores(upto).get(site) for upto in range(since, self.last + 1)]

    def write(self, first: int, entries: Sequence[Entry]) -> Appendix:
        """Put the entries in place of everything from `first` on."""
        del self.entries[first - self.snapshot.upto - 1 :]
        del self._chains[first - self.snapshot.upto :]
        del self._stores[first - self.snapshot.upto :]
        self.entries.extend(entries)
        return Appendix(first, tuple(entries))

    def fold(self, upto: int, data: bytes) -> LogSnapshot:
        voters = tuple(self.stores(upto).items())
        snapshot = LogSnapshot(upto, self.term_of(upto), voters, data, self.chain_at(upto))
        self.replace(snapshot)
        return snapshot

    def replace(self, snapshot: LogSnapshot) -> None:
        """Put the snapshot in place of the entries up to it. Later entries stay if they continue
        it."""
        kept = self.last - snapshot.upto
        fits = kept > 0 and snapshot.upto >= self.snapshot.upto
        same = fits and self.term_of(snapshot.upto) == snapshot.term
        self.entries = self.entries[-kept:] if same else []
        self.snapshot = snapshot
        self._chains = [snapshot.chain]
        self._stores = [dict(snapshot.voters)]


def _next_stores(stores: Mapping[Site, int], entry: Entry) -> Mapping[Site, int]:
    """The stores after this entry. An entry that leaves no voter with a store has no effect:
    nothing could be decided after it. A second founding has no effect either."""
    record, after = entry.record, stores
    begins = not any(stores.values())
    if isinstance(record, (Voters, Recovered)) or (isinstance(record, Founded) and begins):
        after = dict(sorted(record.voters))
    elif isinstance(record, Admit) and record.site in stores:
        after = {**stores, record.site: record.store}
    return after if any(after.values()) else stores
