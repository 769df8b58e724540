"""Soak campaign: the rule by which requests to lists of sites are delivered once, in a small world
with crashes, lost stores, moving clients, flushes and cut tails of logs."""

from support.models.once.lists import ListWorld
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = ListWorld(seed).run()
    return Outcome(not world.wrong, dict(world.counts), "; ".join(world.wrong[:2]))
