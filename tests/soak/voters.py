"""Soak campaign: the voters' log by itself (Raft) through loss, doubling, partitions, crashes
between persisting and sending, lost stores, changes of voters; its invariants after every step."""

from support.worlds.voters import drawn_run
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    drawn = drawn_run(seed)
    wrong = [] if drawn.live else ["no decision in calm"]
    wrong += [str(violation) for violation in drawn.violations[:1]]
    counters = {
        "decisions": drawn.decided,
        "leaders": drawn.terms,
        "crashes": drawn.crashes,
        "lost stores": drawn.lost_stores,
    }
    return Outcome(not wrong, counters, "; ".join(wrong))
