"""The hashes of many drawn histories, to compare two versions of the code.

    python bench/histories.py [--seeds 500] > one.txt
    PYTHONPATH=/some/other/src python bench/histories.py > other.txt; diff one.txt other.txt

Each seed runs one drawn configuration, over all protocols, levels, policies, stability trackers and
ways to many. A line has the seed, the protocol, the kind of run, whether its epochs may move, and
the hash. A run is `moving` if a site may be excluded or groups, protocol or builder change; in a
`steady` run neither can happen. Two versions that only differ in how epochs change agree on every
steady line. The last line is the hash of all steady lines, and counts the violations.
"""

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256

from ordercast.core.dissemination.registry import WAYS
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.registry import TRACKERS
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import changes_groups
from ordercast.sim.schedules import changing, excluding, schedule
from ordercast.sim.simulate import simulate

DRAWINGS: tuple[tuple[str, Callable[[str, int], SimConfig]], ...] = (
    *(("schedule", schedule),) * 6,
    ("changing", changing),
    ("excluding", excluding),
)


def _chosen(source: random.Random, items: Sequence[str]) -> str:
    return items[(source.getrandbits(32) * len(items)) >> 32]


def drawn(seed: int) -> tuple[str, SimConfig]:
    protocol = tuple(PROTOCOLS)[seed % len(PROTOCOLS)]
    kind, draw = DRAWINGS[seed // len(PROTOCOLS) % len(DRAWINGS)]
    source = random.Random(int.from_bytes(sha256(f"{seed}/histories".encode()).digest(), "big"))
    config = draw(protocol, seed)
    tracker = _chosen(source, ("plain", *TRACKERS))
    way = _chosen(source, ("unicast", "unicast", *WAYS))
    return kind, replace(config, stability=tracker, dissemination=way)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    total, steady, wrong = sha256(), 0, 0
    for seed in range(options.first, options.first + options.seeds):
        kind, config = drawn(seed)
        moving = config.excludes or changes_groups(config.faults)
        result = simulate(config, seed)
        line = f"{seed} {config.protocol} {kind} {'moving' if moving else 'steady'}"
        print(line, result.history_hash if result.ok else f"FAILED {result.violations[0].check}")
        wrong += not result.ok
        if not moving:
            steady += 1
            total.update(result.history_hash.encode())
    print(f"{steady} steady runs: {total.hexdigest()}; {wrong} runs with violations")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
