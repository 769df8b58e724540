"""Soak campaign: the five stability protocols while messages are lost, doubled and overtaken, data
arrives and rounds begin before others end; then on the tree network, with data and lost copies."""

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.sim.rounds.tracking import LINKS, PLACEMENTS, Setting, track
from ordercast.sim.rounds.tree import parse_random_tree
from ordercast.studies.stab.traffic import DataLoad, measure_load
from support.worlds.stability_rounds import Chaos
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    wrong: list[str] = []
    counters = {"rounds ended": 0, "members": 0}
    for protocol in PROTOCOLS:
        chaos = Chaos(protocol, seed)
        wrong += [f"{protocol}: {what}" for what in chaos.run()[:1]]
        counters["rounds ended"] += max(part.told for part in chaos.group.parts.values())
        counters["members"] += chaos.group.layout.count
    if seed % 20 == 0:  # these raise when anything is called stable that is not
        protocol = list(PROTOCOLS)[seed // 20 % len(PROTOCOLS)]
        shape = parse_random_tree(f"n={20 + seed % 60},b=2,p=3")
        placement, links = PLACEMENTS[seed // 100 % 2], LINKS[seed // 200 % 2]
        setting = Setting(protocol, shape, placement, links)
        counters["messages on hops"] = track(setting, seed).messages_on_hops
        data = DataLoad(rate=20, loss=0.3, repair=200_000_000)
        counters["rounds under load"] = len(measure_load(setting, data, seed, rounds=5).rtts_ns)
    return Outcome(not wrong, counters, "; ".join(wrong))
