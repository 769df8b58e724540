"""Which sites a site believes about the records (the argument is in docs/epochs.md).

Records are heard from the voters that this site knows. A newcomer knows none, and believes the
sites of its cluster file. New records must continue the folded ones: by the hash of the prefix, and
by the terms. A voter that has a leader also asks its own log.
"""

from collections.abc import Sequence
from typing import Protocol

from ordercast.core.epochs.chain import differ, linked
from ordercast.core.epochs.folds import Folds
from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.raft import Raft
from ordercast.model.epochs import AddVoter, Begin, Entry
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Site
from ordercast.wire.epochs import Feed
from ordercast.wire.voting import Install


class _Member(Protocol):
    """The member that hears the records."""

    now: int
    layout: Layout
    folds: Folds

    @property
    def raft(self) -> Raft: ...


class Sources:
    """`gone`: sites that this one must not believe, whatever else it knows."""

    def __init__(self, member: _Member, gone: Sequence[Site]) -> None:
        self._member = member
        self._gone = tuple(gone)

    def believes(self, peer: Site) -> bool:
        """Whether the peer may say what is committed: it is a voter, as far as this site knows."""
        return peer in self._member.layout.voters and peer not in self._gone

    def may_vote(self, peer: Site) -> bool:
        """Whether the peer has a part in the voters' log: it is a voter or becomes one, as far as
        this site knows, or it has this site's vote."""
        raft, layout = self._member.raft, self._member.layout
        if peer in self._gone or layout.count < 0:
            return False
        if peer in layout.voters or peer in raft.log.voters or peer == raft.vote:
            return True
        begun = [entry.record for entry in raft.log.entries if isinstance(entry.record, Begin)]
        asked = [closing.edits for closing in layout.closing.values()]
        return any(AddVoter(peer) in edits for edits in (*asked, *(one.edits for one in begun)))

    def unpacked(self, folded: bytes, count: int) -> Layout:
        """The layout that a peer has sent. It must be of this cluster, have `count` records, and,
        if it is ahead of this site's layout, have no earlier term."""
        before = self._member.layout
        layout = self._member.folds.unpack(folded)
        if layout.count != count:
            raise PeerMistake(f"a layout of {layout.count:,} records, not {count:,}")
        if before.founding and layout.founding != before.founding:
            raise PeerMistake("a layout of another cluster")
        if count > before.count and layout.chain and layout.term < before.term:
            raise PeerMistake(f"a layout of term {layout.term}, after one of term {before.term}")
        return layout

    def check_install(self, frame: Install) -> None:
        """Raise PeerMistake unless the snapshot of the log is what it says."""
        layout = self.unpacked(frame.snapshot, frame.upto)
        other_term = layout.chain and layout.term != frame.upto_term
        if other_term or differ(layout.chain, frame.chain):
            raise PeerMistake("a snapshot with the hash of another")

    def bars(self, frame: Feed, store: tuple[Site, int]) -> bool:
        """Whether a layout says that the store was declared lost. The layout may be older than
        ours, and so of an earlier term: it came late, or from another history."""
        return bool(frame.folded) and store in self._member.folds.unpack(frame.folded).lost

    def caught(self, peer: Site, frame: Feed) -> Layout | None:
        """The layout that a peer sends in place of records, if this site lacks it and may take
        it."""
        member = self._member
        if not frame.folded or frame.count <= member.layout.count:
            return None
        layout = self.unpacked(frame.folded, frame.count)
        return layout if member.raft.confirms(member.now, peer, frame.count, None) else None

    def entries(self, peer: Site, frame: Feed) -> tuple[Entry, ...]:
        """The records that this site lacks and may take. Raises PeerMistake if the frame
        contradicts what was folded here."""
        member, layout = self._member, self._member.layout
        known = layout.count - frame.count
        if frame.folded or not 0 <= known <= len(frame.records):
            return ()
        chain, term = frame.chain, layout.term
        for entry in frame.records[:known]:
            chain = linked(chain, entry)
        if differ(chain, layout.chain):
            raise PeerMistake(f"its first {layout.count:,} records are others than this site's")
        for place, entry in enumerate(frame.records[known:]):
            if entry.term < term:
                raise PeerMistake(f"a record of term {entry.term}, after one of term {term}")
            if not member.raft.confirms(member.now, peer, layout.count + place + 1, entry):
                return frame.records[known : known + place]
            term = entry.term
        return frame.records[known:]
