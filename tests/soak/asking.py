"""Soak campaign: ids, and producers that begin anew in later generations, through sites that are no
members and ask, in random schedules of members with crashes, lost stores, partitions and changes of
groups. Each message once, in its order. All but one of forty schedules are small ones, of a second
and three sites; in every other of these no group has all sites."""

from collections.abc import Callable, Sequence

from support.worlds.asking import FarChooser, far_choosing, succeeding
from support.worlds.epochs import World
from support.worlds.producing import APART, SMALL, counted, judged
from tools.soak.campaign import Outcome

Make = Callable[[int, str], tuple[World, Sequence[FarChooser]]]


def run(seed: int) -> Outcome:
    make: Make = far_choosing if seed % 3 else succeeding
    kind = (SMALL if seed % 2 else APART) if seed % 40 else ""
    world, senders = make(seed // 2 if kind else seed // 40, kind)
    wrong = judged(world, senders)
    counters = {"expired or fenced": sum(len(one.expired) for one in senders)}
    counters |= counted(world, senders, "outside")
    return Outcome(not wrong, counters, str(wrong[:2])[:1000])
