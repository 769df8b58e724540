"""Soak campaign: clients that move, repeat and lose their memory, in random schedules of members,
with crashes, lost stores, partitions and changes of groups. Each request once, in its order.
All but one of forty schedules are small ones, of a second and three sites; in every other of these
no group has all sites. Every third has clients that send to lists of sites."""

from support.worlds.producing import APART, SMALL, counted, judged
from support.worlds.repeating import ListRepeater, Repeater, repeating
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    kind = SMALL if seed % 2 else APART
    make = ListRepeater if seed % 3 == 0 else Repeater
    world, clients = (
        repeating(seed // 2, kind, make=make) if seed % 40 else repeating(seed // 40, make=make)
    )
    wrong = judged(world, clients)
    counters = {"expired": sum(len(one.expired) for one in clients)}
    counters |= counted(world, clients, "outside", "lives")
    return Outcome(not wrong, counters, str(wrong[:2])[:1000])
