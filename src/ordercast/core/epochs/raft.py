"""The voters' log: Raft as a pure object, with pre-vote, snapshots and one voter changed at a time.

Its leader is [GS]'s manager. Time, disk and network belong to the driver: `persist` must be
durable before `sends` may leave.

Beyond the usual: a voter without its store must not vote, or a majority could forget what it has
promised. The log names each voter's store by number, and the word of another store counts for
nothing until it is admitted. That takes two steps, as if one voter left and another came: `Admit`
of no store (0) takes the lost one out of the count; when that is committed, `Admit` of the new one
brings it in. (In one step two leaders could count the same voter, one its old store and one its
new.) The first entry, `Founded`, is written by a candidate for whom *all* voters have voted, with
empty logs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ordercast.core.claims import check_ahead
from ordercast.core.epochs.voters_log import (
    Appendix,
    Ballot,
    LogSnapshot,
    VoterRecord,
    VotersLog,
)
from ordercast.model.epochs import Admit, Entry, EpochRecord, Founded, Nothing, Recovered, Voters
from ordercast.model.errors import PeerMistake
from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND, NEVER
from ordercast.wire.voting import Append, Appended, Install, Vote, Voted, Voting, fitting

_ENTRIES = 64  # at most, in one frame

FOLLOWER, CANDIDATE, LEADER = "follower", "candidate", "leader"
_BEATS = 10  # of the manager, in the time after which it is suspected
_STALL = 150 * MILLISECOND  # a disk, a collector or other programs may hold a site up this long


@dataclass(frozen=True, slots=True)
class VotingTimes:
    beat: int = 50 * MILLISECOND
    election: int = 400 * MILLISECOND  # the least timeout; up to twice that, by rank and term
    lonely: int = (
        1_000 * MILLISECOND
    )  # before a site that nobody feeds tells the voters where it is

    @classmethod
    def within(cls, suspect: int) -> "VotingTimes":
        """So that no timeout follows another: voters stand before a silent manager is suspected,
        and sites knock at it so early that they can report its silence by then. But they stand for
        no stall that is usual: one election would follow the other, and nobody would lead."""
        standing = max(suspect // 2, _STALL)
        return cls(suspect // _BEATS, standing, min(suspect // 3, cls().lonely))


class Raft:
    """State: ballot, log behind a snapshot, role. `committed` only grows."""

    def __init__(
        self,
        name: Site,
        voters: Sequence[Site],
        times: VotingTimes,
        store: int,
        records: Sequence[VoterRecord] = (),
        features: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self._features = features  # that a cluster founded by this voter begins with
        self.store = store
        self.times = times
        self.term = 0
        self.vote: Site | None = None
        self.log = VotersLog(voters)
        self.committed = 0
        self.role = FOLLOWER
        self.leader: Site | None = None
        self.persist: list[VoterRecord] = []
        self.sends: list[tuple[Site, Voting]] = []
        self.alarm_at = NEVER
        self._trial = False
        self._votes: dict[Site, int] = {}  # votes granted, and by which store
        self._next: dict[Site, int] = {}
        self._match: dict[Site, int] = {}
        self._stores: dict[Site, int] = {}  # the stores that answered this leader
        self._heard: dict[Site, int] = {}  # when each last answered this leader
        self._beat = 0
        self._led_at = 0  # when a leader was last heard
        self.led_by: Site | None = None  # that leader
        for record in records:
            self._replay(record)
        self.committed = self.log.snapshot.upto

    def _replay(self, record: VoterRecord) -> None:
        if isinstance(record, Ballot):
            self.term, self.vote = record.term, record.vote
        elif isinstance(record, Appendix):
            self.log.write(record.first, record.entries)
        else:
            self.log.replace(record)

    # --- the log ----------------------------------------------------------------------------------

    def compact(self, upto: int, data: bytes) -> None:
        """The caller has folded everything up to `upto`, which is committed, into `data`."""
        if self.log.snapshot.upto < upto <= self.committed:
            self.persist.append(self.log.fold(upto, data))

    def _write(self, first: int, entries: Sequence[Entry]) -> None:
        self.persist.append(self.log.write(first, entries))

    def _ballot(self, term: int, vote: Site | None) -> None:
        self.term, self.vote = term, vote
        self.persist.append(Ballot(term, vote))

    # --- time -------------------------------------------------------------------------------------

    def start(self, now: int) -> None:
        self._led_at = now - self.times.election
        self._wait(now)

    def hurry(self, now: int) -> None:
        """If the log is empty, stand soon: voters that start together need not wait for a silent
        leader."""
        if self.log.last == 0 and self._may_stand():
            rank = sorted(self.log.voters).index(self.name)
            self.alarm_at = now + self.times.beat * (1 + rank) // 2

    def _wait(self, now: int) -> None:
        """Voters wait for different times before they stand, and not always in the same order."""
        if not self._may_stand():
            self.alarm_at = NEVER
            return
        voters = sorted({*self.log.voters, self.name})
        turn = (voters.index(self.name) + self.term) % len(voters)
        self.alarm_at = now + self.times.election * (len(voters) + turn) // len(voters)

    def _may_stand(self) -> bool:
        """Whether the log names this store: a new store has no vote until it is admitted. A store
        that only an uncommitted entry replaces may stand too: others may need that entry from here.
        (A voter that is removed does not count itself.)"""
        if self.log.last == 0:
            return self.name in self.log.voters
        return self.store in self.log.stores_of(self.name, self.committed)

    def alarm(self, now: int) -> None:
        if now < self.alarm_at:
            return
        if self.role == LEADER:
            since = now - 2 * self.times.election
            # A voter that has not answered counts with its store in the log.
            stores = {**self.log.stores(), **self._stores}
            heard = {s: stores.get(s, 0) for s, at in self._heard.items() if at > since}
            if not self._enough({**heard, self.name: self.store}):
                # This leader is cut off: others may have a leader by now.
                self._follow(now, self.term, None)
                return
            self._beats(now)
        else:
            self._campaign(now, trial=True)

    # --- elections --------------------------------------------------------------------------------

    def _campaign(self, now: int, *, trial: bool) -> None:
        self.leader = None
        self._wait(now)
        if not self._may_stand():
            return
        self.role, self._trial = CANDIDATE, trial
        if not trial:
            self._ballot(self.term + 1, self.name)
            self._wait(now)
        self._votes = {self.name: self.store}
        term = self.term + 1 if trial else self.term
        for peer in self.log.voters:
            if peer != self.name:
                last_term = self.log.term_of(self.log.last)
                self.sends.append((peer, Vote(term, self.log.last, last_term, trial)))
        self._count(now)

    def _count(self, now: int) -> None:
        if self.log.last == 0:  # nothing is founded yet: all voters must be there, with empty logs
            if not all(voter in self._votes for voter in self.log.voters):
                return
        elif not self._enough(self._votes):
            return
        if self._trial:
            self._campaign(now, trial=False)
        else:
            self._lead(now)

    def _enough(self, having: Mapping[Site, int]) -> bool:
        """Whether these stores are a majority of the stores that the log names."""
        stores = {voter: store for voter, store in self.log.stores().items() if store}
        return 2 * sum(1 for v, s in stores.items() if having.get(v) == s) > len(stores)

    def _asked(self, now: int, peer: Site, frame: Vote) -> None:
        newer = (frame.last_term, frame.last) >= (self.log.term_of(self.log.last), self.log.last)
        if frame.trial:
            granted = newer and not self.is_led(now) and frame.term > self.term
            # A peer with an earlier term must hear the later one.
            term = frame.term if granted else self.term
            self.sends.append((peer, Voted(term, True, granted, self.store)))
            return
        free = self.vote is None or self.vote == peer
        granted = newer and free and frame.term == self.term
        if granted:
            if self.vote is None:
                self._ballot(self.term, peer)
            self._wait(now)
        self.sends.append((peer, Voted(self.term, False, granted, self.store)))

    def is_led(self, now: int) -> bool:
        """Whether this voter leads, or has heard a leader lately."""
        if self.role == LEADER:
            return True
        return self.leader is not None and now < self._led_at + self.times.election

    def silence(self, now: int) -> int:
        """How long the last leader has not been heard."""
        return now - self._led_at

    def confirms(self, now: int, peer: Site, index: int, entry: Entry | None) -> bool:
        """Whether this voter's log does not contradict an entry that the peer says is committed. A
        voter that has a leader believes only the leader, and only entries that it has in its own
        log."""
        if self.name not in self.log.voters or not self.is_led(now):
            return True
        inside = self.log.snapshot.upto < index <= self.log.last
        return peer == self.leader and inside and self.log.entry(index) == entry

    def _answered(self, now: int, peer: Site, frame: Voted) -> None:
        expected = self.term + 1 if self._trial else self.term
        if self.role != CANDIDATE or frame.trial != self._trial or frame.term != expected:
            return
        if frame.granted:
            self._votes[peer] = frame.store
            self._count(now)

    def _lead(self, now: int) -> None:
        self.role, self.leader = LEADER, self.name
        self._next = dict.fromkeys(self.log.voters, self.log.last + 1)
        self._match = dict.fromkeys(self.log.voters, 0)
        self._stores = {}
        self._heard = dict.fromkeys(self.log.voters, now)
        begun: EpochRecord = Nothing()
        if self.log.last == 0:
            stores = tuple((voter, self._votes[voter]) for voter in self.log.voters)
            begun = Founded(stores, self._features)
        self._write(self.log.last + 1, [Entry(self.term, begun)])
        self._beats(now)
        self._advance()

    def _follow(self, now: int, term: int, leader: Site | None) -> None:
        if term > self.term:
            self._ballot(term, None)
        self.role, self.leader = FOLLOWER, leader
        if leader is not None:
            self._led_at, self.led_by = now, leader
        self._wait(now)

    # --- replication ------------------------------------------------------------------------------

    def propose(self, now: int, record: EpochRecord) -> int | None:
        """Add a record, if this voter leads. Returns its index; it counts when committed."""
        if self.role != LEADER:
            return None
        if isinstance(record, (Admit, Voters)) and not self._may_change_voters(record):
            return None
        self._write(self.log.last + 1, [Entry(self.term, record)])
        for voter in self.log.voters:
            self._next.setdefault(voter, self.log.last)
            self._match.setdefault(voter, 0)
            self._heard.setdefault(voter, now)
        self._beats(now)
        self._advance()
        return self.log.last

    def _may_change_voters(self, record: Admit | Voters) -> bool:
        """One change at a time, of one voter, and only after an entry of this term is committed."""
        if self.log.term_of(self.committed) != self.term or not self._voters_committed():
            return False
        before = self.log.stores()
        if isinstance(record, Admit):  # a store is admitted only if none counts
            known = before.get(record.site)
            return known is None or not (known and record.store)
        after = dict(record.voters)
        return any(after.values()) and len(before.items() ^ after.items()) == 1

    def _beats(self, now: int) -> None:
        self._beat += 1
        self.alarm_at = now + self.times.beat
        for peer in self.log.voters:
            if peer != self.name:
                self._send_entries(peer)

    def _send_entries(self, peer: Site) -> None:
        first = self._next.get(peer, self.log.last + 1)
        snapshot = self.log.snapshot
        if first <= snapshot.upto:
            frame: Voting = Install(
                self.term, snapshot.upto, snapshot.term, snapshot.voters, snapshot.data,
                self._beat, snapshot.chain,
            )  # fmt: skip
        else:
            start = first - snapshot.upto - 1
            entries = self.log.entries[start : start + _ENTRIES]
            entries = entries[: fitting(entries)]
            frame = Append(
                self.term,
                first - 1,
                self.log.term_of(first - 1),
                tuple(entries),
                self.committed,
                self._beat,
            )
        self.sends.append((peer, frame))

    def _append(self, peer: Site, frame: Append) -> None:
        before = frame.before
        if before < self.log.snapshot.upto:
            skipped = self.log.snapshot.upto - before
            entries = frame.entries[skipped:]
            before = self.log.snapshot.upto
            fits = len(frame.entries) >= skipped or frame.before + len(frame.entries) <= before
        else:
            entries = frame.entries
            fits = before <= self.log.last and self.log.term_of(before) == frame.before_term
        if not fits:
            hint = min(before - 1, self.log.last)
            self.sends.append(
                (
                    peer,
                    Appended(self.term, False, max(hint, self.committed), self.store, frame.beat),
                )
            )
            return
        for place, entry in enumerate(entries):
            index = before + place + 1
            if index > self.log.last or self.log.term_of(index) != entry.term:
                self._write(index, entries[place:])
                break
        match = max(before + len(entries), min(self.log.snapshot.upto, self.log.last))
        if frame.committed > self.committed:
            self.committed = max(self.committed, min(frame.committed, match))
        self.sends.append((peer, Appended(self.term, True, match, self.store, frame.beat)))

    def _install(self, frame: Install, peer: Site) -> None:
        if frame.upto > self.committed:
            snapshot = LogSnapshot(
                frame.upto, frame.upto_term, frame.voters, frame.snapshot, frame.chain
            )
            self.log.replace(snapshot)
            self.persist.append(snapshot)
            self.committed = snapshot.upto
        self.sends.append(
            (
                peer,
                Appended(self.term, True, max(frame.upto, self.committed), self.store, frame.beat),
            )
        )

    def _appended(self, now: int, peer: Site, frame: Appended) -> None:
        if self.role != LEADER or frame.term != self.term:
            return
        self._heard[peer] = now
        if self._stores.get(peer) != frame.store:
            self._stores[peer], self._match[peer] = (
                frame.store,
                0,
            )  # another store has other entries
        if not frame.fits:
            self._next[peer] = max(1, min(frame.match + 1, self._next.get(peer, 1) - 1))
            self._send_entries(peer)
            return
        if frame.match > self._match.get(peer, 0):
            self._match[peer] = frame.match
            self._advance()
        following = max(self._next.get(peer, 1), frame.match + 1)
        more = following > self._next.get(peer, 1) and following <= self.log.last
        self._next[peer] = following
        if more:
            self._send_entries(peer)

    def _advance(self) -> None:
        """Commit what a majority of the voters has, in this term ([Raft] §5.4.2)."""
        self._match[self.name] = self.log.last
        self._stores[self.name] = self.store
        for index in range(self.log.last, self.committed, -1):
            if self.log.term_of(index) != self.term:
                break
            having = {s: n for s, n in self._stores.items() if self._match.get(s, 0) >= index}
            if self._enough(having):
                self.committed = index
                break
        if self.name not in self.log.voters and self._voters_committed():
            self.role, self.leader = FOLLOWER, None
            self.alarm_at = NEVER

    def _voters_committed(self) -> bool:
        later = self.log.after(self.committed)
        return not any(isinstance(entry.record, (Admit, Voters, Recovered)) for entry in later)

    def waiting_for_admission(self) -> list[tuple[Site, int]]:
        """Voters that have all of the log, with another store than the log names. Each comes with
        the store to admit now: first none (0), then the new one."""
        return [
            (voter, 0 if store else self._stores[voter])
            for voter, store in self.log.stores().items()
            if self._stores.get(voter, store) != store
            and self._match.get(voter, 0) >= self.committed
        ]

    # --- frames -----------------------------------------------------------------------------------

    def _check(self, frame: Voting) -> None:
        """Raise PeerMistake for a frame that no voter sends. Nothing changes."""
        check_ahead(frame.term, self.term, "term")
        if isinstance(frame, Appended):
            leads = self.role == LEADER and frame.term == self.term
            if leads and frame.match > self.log.last:
                raise PeerMistake(f"it has {frame.match:,} entries of {self.log.last:,}")
        elif isinstance(frame, Append) and frame.term >= self.term:
            before = frame.before_term
            for index, entry in enumerate(frame.entries, start=frame.before + 1):
                if not before <= entry.term <= frame.term:
                    raise PeerMistake(f"entry {index} of term {entry.term} in term {frame.term}")
                before = entry.term
                kept = self.log.snapshot.upto < index <= self.committed
                if kept and self.log.term_of(index) != entry.term:
                    raise PeerMistake(f"entry {index} is committed, and another one here")
        elif isinstance(frame, Install) and frame.upto_term > frame.term:
            raise PeerMistake(f"a snapshot of term {frame.upto_term} in term {frame.term}")

    def receive(self, now: int, peer: Site, frame: Voting) -> None:
        self._check(frame)
        if isinstance(frame, Vote) and frame.trial:
            self._asked(now, peer, frame)
            return
        if isinstance(frame, Voted) and frame.trial and frame.granted:
            self._answered(now, peer, frame)
            return
        if frame.term > self.term:
            leading = isinstance(frame, (Append, Install))
            self._follow(now, frame.term, peer if leading else None)
        if isinstance(frame, Vote):
            self._asked(now, peer, frame)
        elif isinstance(frame, Voted):
            self._answered(now, peer, frame)
        elif isinstance(frame, Appended):
            self._appended(now, peer, frame)
        elif frame.term < self.term:
            self.sends.append((peer, Appended(self.term, False, 0, self.store, frame.beat)))
        else:
            self._follow(now, frame.term, peer)
            if isinstance(frame, Append):
                self._append(peer, frame)
            else:
                self._install(frame, peer)
