"""How fast the checkers judge a history in memory: seconds per check, for a given number of rows.

    python bench/check.py --rows 1000000 --sites 20 --groups 10 --size 5

The history is a random total order of messages, delivered by the members of their groups, in
order or (with --late N) with N deliveries that come late. Prints one JSON object.
"""

import argparse
import json
import random
import resource
import sys
import time

from ordercast.check.report import CHECKS, ON_REQUEST
from ordercast.check.view import View
from ordercast.history.rows import END, Delivered, EpochRow, Event, GroupRow, History, Sent


def build(rows: int, sites: int, groups: int, size: int, late: int, seed: int) -> History:
    rng = random.Random(seed)
    names = [f"s{i:03}" for i in range(sites)]
    members = {f"g{i}": sorted(rng.sample(names, size)) for i in range(groups)}
    orders: dict[str, list[tuple[str, str, int]]] = {name: [] for name in names}
    history = History(epochs=[EpochRow(1, "d", "safe", "exclude", "none", "start", 0)])
    history.groups = [GroupRow(1, g, site) for g, own in members.items() for site in own]
    seqs: dict[tuple[str, str], int] = {}
    for time_ns in range(rows // size):
        origin, group = rng.choice(names), rng.choice(list(members))
        seq = seqs[origin, group] = seqs.get((origin, group), 0) + 1
        seen = len(orders[origin])
        history.sent.append(Sent(origin, 1, group, seq, seen, min(seen, 1), time_ns, 100, seq))
        for site in members[group]:
            orders[site].append((origin, group, seq))
    for _ in range(late):
        order = rng.choice([order for order in orders.values() if order])
        at = rng.randrange(len(order))
        order.insert(min(len(order), at + rng.randint(1, 100)), order.pop(at))
    for site, order in orders.items():
        history.deliveries += [
            Delivered(site, position, 1, 1, group, origin, 1, seq, position, seq)
            for position, (origin, group, seq) in enumerate(order, 1)
        ]
        history.events.append(Event(site, 1, END, len(order), 1, 1, 0))
    return history


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sites", type=int, default=20)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--size", type=int, default=5)
    parser.add_argument("--late", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    history = build(**vars(options))
    seconds = {}
    counts = {}
    start = time.perf_counter()
    view = View(history)
    seconds["view"] = time.perf_counter() - start
    for name, check in {**CHECKS, **ON_REQUEST}.items():
        start = time.perf_counter()
        counts[name] = check(view).count
        seconds[name] = time.perf_counter() - start
    result = {
        **vars(options),
        "rows": view.live_rows,
        "messages": len(view.messages),
        "seconds": {name: round(value, 2) for name, value in seconds.items()},
        "counts": counts,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    json.dump(result, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
