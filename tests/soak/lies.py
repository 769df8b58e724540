"""Soak campaign: frames that keep the wire's rules, drawn against live sites in a liar's name.

All protocols, trackers, levels and policies, the voters' log, changes and flushes; the liar is a
site of no group, or a member. Nothing stops, and nobody delivers what an honest site has not sent.
"""

from support.worlds.lying_peers import run_case
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    result = run_case(seed)
    return Outcome(not result.wrong, dict(result.counts), "; ".join(result.wrong))
