"""Soak campaign: senders with ids that move and repeat, in random schedules of members, with
crashes, lost stores, partitions and changes of groups. Each message once, in its order. All but one
of forty schedules are small ones, of a second and three sites."""

from support.worlds.choosing import choosing
from support.worlds.producing import SMALL, counted, judged
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world, senders = choosing(seed, SMALL) if seed % 40 else choosing(seed // 40)
    wrong = judged(world, senders)
    counters = {"expired": sum(len(one.expired) for one in senders)}
    counters |= counted(world, senders)
    return Outcome(not wrong, counters, str(wrong[:2])[:1000])
