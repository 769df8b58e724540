"""Soak campaign: producers that move and repeat, in random schedules of members with crashes, lost
stores, partitions and changes of groups. Each message once, in each producer's order. All but one
of forty schedules are small ones, of a second and three sites."""

from support.worlds.producing import SMALL, judged, producing
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world, producers = producing(seed, SMALL) if seed % 40 else producing(seed // 40)
    wrong = judged(world, producers)
    counters = {
        "copies": sum(one.copies for one in producers),
        "stable": sum(len(one.stable) for one in producers),
        "moves": sum(one.moves for one in producers),
        "crashes": world.crashes,
        "lost stores": sum(world.lost.values()),
        "epochs": max(world.epochs),
        "rollbacks": len(world.rollbacks),
    }
    return Outcome(not wrong, counters, str(wrong[:2])[:1000])
