"""Soak campaign: every stability tracker in running sites, watched by a judge that knows what is
durable where; half of the schedules change their groups or lose sites for a while or for good."""

from support.cases.schedules import leave_picture
from support.judges.stability_truth import judged, tracked
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    config = tracked(seed, epochs_every=2)
    wrong, result, truth = judged(config, seed)
    counters = {
        "claims held against the truth": truth.claims,
        "events": result.events,
        "messages": result.sent,
        "epochs": result.epochs,
        f"schedules of {config.stability}": 1,
        **{f"faults: {kind}": times for kind, times in result.faults.items()},
    }
    if wrong:
        leave_picture(config, seed)
    return Outcome(not wrong, counters, "; ".join(wrong), result.replay)
