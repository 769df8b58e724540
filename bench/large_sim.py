"""What one message to very many sites costs in the simulator, by protocol.

    python bench/large_sim.py [--sites 1250,2500,5000] [--protocols two_phase,arrow] [--json]

Processor seconds of a whole run: the forest, the sites, one message to a group of all of them, its
stability, the checks. The exponent is of the last two sizes: 1 if twice the sites take twice as
long. `symmetric` is left out: each member answers each other one, which is quadratic by design.
"""

import argparse
import json
import math
import time

from ordercast.model.groups import GroupTable
from ordercast.sim.config import SimConfig
from ordercast.sim.simulate import simulate

PROTOCOLS = "propagation,centralized,two_phase,arrow,ring"


def seconds_of(protocol: str, sites: int) -> float:
    table = GroupTable.of({"all": [f"s{number:06}" for number in range(sites)]})
    begun = time.process_time()
    result = simulate(SimConfig(table, protocol, messages=1), seed=1)
    if not result.ok:
        raise SystemExit(f"{protocol}, {sites} sites: {result.violations[0]}")
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sites", default="1250,2500,5000")
    parser.add_argument("--protocols", default=PROTOCOLS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = sorted(int(size) for size in options.sites.split(","))
    rows = []
    for protocol in options.protocols.split(","):
        seconds = [seconds_of(protocol, size) for size in sizes]
        growth = math.log(seconds[-1] / seconds[-2]) if len(sizes) > 1 else math.nan
        exponent = growth / math.log(sizes[-1] / sizes[-2]) if len(sizes) > 1 else math.nan
        rows.append(
            {"protocol": protocol, "sites": sizes, "seconds": seconds, "exponent": exponent}
        )
        if not options.json:
            shown = "  ".join(
                f"{size:,}: {took:.2f} s" for size, took in zip(sizes, seconds, strict=True)
            )
            print(f"{protocol:<12} {shown}  exponent {exponent:.2f}", flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
