"""Soak campaign: streams of datagrams with up to 30 % loss, duplicates, reordering and replays."""

from support.worlds.streams import campaign
from tools.soak.campaign import Outcome


def run(seed: int) -> Outcome:
    streams = campaign(seed)
    wrong = streams.wrong()
    if not streams.complete():
        wrong.append("something never arrived")
    names = ("packets_taken", "asks_sent", "asks_spared", "repairs_sent", "repeated", "replayed")
    counters = {name.replace("_", " "): streams.count(name) for name in (*names, "skipped")}
    return Outcome(not wrong, counters, "; ".join(wrong))
