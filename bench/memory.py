"""How much memory an idle site takes, by the number of sites and groups that it knows.

    python bench/memory.py [--sizes 10,1000,10000] [--builders star,greedy] [--json]

As many groups of five as there are sites, on a ring; one site of them, embedded, with the layout
that a simulation makes; it has started and nothing is sent. Each size is a process of its own, and
says what the system counts for it (resident memory) beside a process that has imported the same
modules and knows nobody. `roster`: with the groups and their forest. `site`: what one site more on
the same layout takes. Linear is: bytes for each site and group of the roster stay the same.
"""

import argparse
import gc
import json
import resource
import subprocess
import sys
from pathlib import Path

from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.members import Epochs

PER_GROUP = 5
MORE = 10  # sites, to see what one takes

Row = dict[str, object]


def resident() -> int:
    """Bytes of memory that this process has now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def table_of(size: int) -> GroupTable:
    names = [f"s{number:06}" for number in range(size)]
    groups = {
        f"g{number:06}": tuple(names[(number + k) % size] for k in range(PER_GROUP))
        for number in range(size)
    }
    return GroupTable(tuple(names), groups)


def measure(size: int, builder: str) -> Row:
    begun = resident()
    table = table_of(size)
    structure = Structure(1, table, advise(table, builder).forest)
    config = SimConfig(table, builder=builder, messages=1)
    epochs = Epochs(config, structure, 1)
    sites = [epochs.make(table.sites[0], 1, [])]
    sites[0].start(0)
    sites[0].drain()
    first = resident()
    for name in table.sites[1 : 1 + min(MORE, size - 1)]:
        sites.append(epochs.make(name, 1, []))
        sites[-1].start(0)
        sites[-1].drain()
    others = len(sites) - 1
    return {
        "builder": builder,
        "sites": size,
        "roster_mb": round((first - begun) / 1e6, 2),
        "bytes_a_group": round((first - begun) / size),
        "site_kb": round((resident() - first) / others / 1e3, 1),
        "process_mb": round(first / 1e6, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="10,1000,10000")
    parser.add_argument("--builders", default="star,greedy")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("SIZE", "BUILDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(int(options.one[0]), options.one[1])))
        return
    rows: list[Row] = []
    for builder in options.builders.split(","):
        for size in options.sizes.split(","):
            command = [sys.executable, __file__, "--one", size, builder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            rows.append(json.loads(done.stdout))
            if not options.json:
                print("  ".join(f"{key} {value}" for key, value in rows[-1].items()), flush=True)
    if options.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
