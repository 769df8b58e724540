"""Soak campaign: producers that move and repeat, in random schedules of members with crashes, lost
stores, partitions and changes of groups. Each message once, in each producer's order. All but one
of forty schedules are small ones, of a second and three sites."""

from support.worlds.producing import SMALL, counted, judged, producing
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world, producers = producing(seed, SMALL) if seed % 40 else producing(seed // 40)
    wrong = judged(world, producers)
    counters = counted(world, producers)
    return Outcome(not wrong, counters, str(wrong[:2])[:1000])
