"""Broken variants of the voters' log that random runs must catch, and the seed that does."""

from collections.abc import Mapping

from ordercast.core.epochs.raft import Raft
from ordercast.core.epochs.voters_log import Ballot
from ordercast.model.epochs import Admit, Voters
from ordercast.model.groups import Site
from ordercast.wire.voting import Append, Vote


class VoteNotPersisted(Raft):
    """A restart forgets what was promised."""

    def _ballot(self, term: int, vote: Site | None) -> None:
        super()._ballot(term, vote)
        self.persist = [record for record in self.persist if not isinstance(record, Ballot)]


class HalfIsEnough(Raft):
    def _enough(self, having: Mapping[Site, int]) -> bool:
        stores = {voter: store for voter, store in self.log.stores().items() if store}
        return 2 * sum(1 for v, s in stores.items() if having.get(v) == s) >= len(stores)


class AnyLogWillDo(Raft):
    """Votes go to whoever asks first, however short its log."""

    def _asked(self, now: int, peer: Site, frame: Vote) -> None:
        last = self.log.last
        super()._asked(now, peer, Vote(frame.term, last, self.log.term_of(last), frame.trial))


class VotersChangeAtWill(Raft):
    def _may_change_voters(self, record: Admit | Voters) -> bool:
        return bool(record)


class TakesEntriesThatDoNotFit(Raft):
    def _append(self, peer: Site, frame: Append) -> None:
        before = min(frame.before, self.log.last)
        fitting = Append(
            frame.term, before, self.log.term_of(before), frame.entries, frame.committed, frame.beat
        )
        super()._append(peer, fitting)


VOTER_MUTANTS: dict[str, tuple[type[Raft], int]] = {
    kind.__name__: (kind, first)
    for kind, first in (
        (VoteNotPersisted, 16),
        (HalfIsEnough, 1),
        (AnyLogWillDo, 29),
        (VotersChangeAtWill, 63),
        (TakesEntriesThatDoNotFit, 0),
    )
}
