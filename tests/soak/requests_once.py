"""Soak campaign: the rule by which requests are delivered once, in a small world with crashes, lost
stores, moving clients, flushes and cut tails of logs."""

from support.models.once.world import World
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    world = World(seed).run()
    return Outcome(not world.wrong, dict(world.counts), "; ".join(world.wrong[:2]))
