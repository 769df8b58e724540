"""How fast the forest builders are, how that grows, and how good the forests are.

    python bench/forest.py [--quick] [--json]

- greedy beside [GS]'s pseudo-code executed literally (tests/forest/literal_generator.py), on the
  same random table, in one run;
- growth: seconds and figures of every builder over doubling tables, with local groups (drawn
  around a random centre with standard deviation 10 on a ring) and random ones; the exponent is the
  slope of log seconds over log sites;
- the ring of 10,000 sites and 10,000 groups of 5, with both partitioners and several seeds;
- scale: 100,000 sites and groups from a groups file, each partitioner in a process of its own, so
  that its peak memory is its own.

Seconds are processor time, but for `scale`, where they are what a user waits; the processor time
beside it tells whether the machine had other things to do.
"""

import argparse
import importlib.util
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ordercast.forest.balanced import build_balanced
from ordercast.forest.forest import Forest
from ordercast.forest.greedy import build_greedy
from ordercast.forest.metrics import measure
from ordercast.forest.star import build_star
from ordercast.model.groups import GroupTable, parse_groups

ORACLE = Path(__file__).resolve().parent.parent / "tests" / "forest" / "literal_generator.py"
SIZE, SPREAD = 5, 10.0
GOAL_RATIO = 20
GOALS = {"depth": 1.65, "extra": 1.9, "load": 320}
GOAL_SECONDS = {"metis": 15, "builtin": 60}
GOAL_BYTES = 2 * 2**30

BUILDERS: dict[str, Callable[[GroupTable], Forest]] = {
    "star": build_star,
    "greedy": build_greedy,
    "balanced/metis": lambda table: build_balanced(table, partitioner="metis"),
    "balanced/builtin": lambda table: build_balanced(table, partitioner="builtin"),
}

Row = dict[str, Any]


def draw(sites: int, groups: int, seed: int, *, local: bool) -> dict[str, list[str]]:
    """Sites are named in an order that has nothing to do with their places on the ring."""
    rng = random.Random(seed)
    names = [f"s{i:06}" for i in range(sites)]
    rng.shuffle(names)
    drawn = {}
    for number in range(groups):
        centre = rng.randrange(sites)
        members: set[int] = set()
        while len(members) < SIZE:
            place = round(rng.gauss(centre, SPREAD)) if local else rng.randrange(sites)
            members.add(place % sites)
        drawn[f"g{number:06}"] = [names[member] for member in sorted(members)]
    return drawn


def figures(forest: Forest, table: GroupTable) -> Row:
    measured = measure(forest, table)
    return {
        "depth": round(measured.depth_mean, 3),
        "extra": round(measured.extra_mean, 3),
        "load": measured.load_max,
    }


def timed(build: Callable[[GroupTable], Forest], table: GroupTable) -> tuple[Forest, float]:
    begun = time.process_time()
    forest = build(table)
    return forest, time.process_time() - begun


def literal_oracle() -> Callable[..., tuple[dict[str, str | None], dict[str, str]]]:
    spec = importlib.util.spec_from_file_location("literal_generator", ORACLE)
    if spec is None or spec.loader is None or not ORACLE.exists():
        raise SystemExit(f"the literal generator is missing: {ORACLE}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    oracle: Callable[..., tuple[dict[str, str | None], dict[str, str]]] = module.literal_forest
    return oracle


def compare_with_literal(count: int) -> Row:
    groups = draw(count, count, 1, local=False)
    table = GroupTable.of(groups)
    ours = min(timed(build_greedy, table)[1] for _ in range(3))
    literal_forest = literal_oracle()
    begun = time.process_time()
    parent, primary = literal_forest(groups)
    theirs = time.process_time() - begun
    forest = build_greedy(table)
    if (forest.parent, forest.primary) != (parent, primary):
        raise SystemExit("greedy and the literal pseudo-code built different forests")
    return {
        "sites": count,
        "groups": count,
        "greedy_s": round(ours, 4),
        "literal_s": round(theirs, 2),
        "ratio": round(theirs / ours, 1),
        "goal": GOAL_RATIO,
    }


def growth(counts: list[int]) -> Iterator[Row]:
    for local in (True, False):
        tables = [GroupTable.of(draw(count, count, 1, local=local)) for count in counts]
        for name, build in BUILDERS.items():
            runs = []
            for table in tables:
                forest, seconds = timed(build, table)
                runs.append({"seconds": round(seconds, 4), **figures(forest, table)})
            yield {
                "builder": name,
                "groups": "local" if local else "random",
                "sites": counts,
                "exponent": round(slope(counts, [run["seconds"] for run in runs]), 2),
                "runs": runs,
            }


def slope(counts: list[int], seconds: list[float]) -> float:
    x = [math.log(count) for count in counts]
    y = [math.log(max(second, 1e-6)) for second in seconds]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / sum((a - mean_x) ** 2 for a in x)


def ring(count: int, seeds: int) -> Iterator[Row]:
    for seed in range(1, seeds + 1):
        table = GroupTable.of(draw(count, count, seed, local=True))
        for partitioner in ("metis", "builtin"):
            forest, seconds = timed(BUILDERS[f"balanced/{partitioner}"], table)
            found = figures(forest, table)
            yield {
                "partitioner": partitioner,
                "seed": seed,
                **found,
                "seconds": round(seconds, 2),
                "detail": forest.detail,
                "reached": all(found[figure] <= goal for figure, goal in GOALS.items()),
            }


def scale(count: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "groups.toml"
        with path.open("w", encoding="utf-8") as file:
            file.write("[groups]\n")
            for group, members in draw(count, count, 1, local=True).items():
                file.write(f"{group} = {json.dumps(members)}\n")
        for partitioner in ("metis", "builtin"):
            command = [sys.executable, __file__, "--file", str(path), "--partitioner", partitioner]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            yield json.loads(done.stdout)


def scale_of_one(path: Path, partitioner: str) -> Row:
    """What the child does: read, build and measure one file."""
    begun = time.perf_counter()
    table = parse_groups(path.read_text(encoding="utf-8"), source=str(path))
    parsed = time.perf_counter()
    forest = build_balanced(table, partitioner=partitioner)
    built = time.perf_counter()
    processor = time.process_time()
    found = figures(forest, table)
    measured = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_bytes = peak if sys.platform == "darwin" else peak * 1024
    together = built - begun
    return {
        "partitioner": partitioner,
        "sites": len(table.sites),
        "groups": len(table.groups),
        "parse_s": round(parsed - begun, 2),
        "build_s": round(built - parsed, 2),
        "measure_s": round(measured - built, 2),
        "together_s": round(together, 2),
        "processor_s": round(processor, 2),
        "goal_s": GOAL_SECONDS[partitioner],
        "peak_bytes": peak_bytes,
        **found,
        "detail": forest.detail,
        "reached": together <= GOAL_SECONDS[partitioner] and peak_bytes <= GOAL_BYTES,
    }


def verdict(reached: bool) -> str:
    return "reached" if reached else "MISSED"


def print_growth(row: Row) -> None:
    print(f"{row['builder']}, {row['groups']} groups: seconds ~ sites^{row['exponent']}")
    for sites, run in zip(row["sites"], row["runs"], strict=True):
        print(
            f"  {sites:>7,} sites {run['seconds']:>9.3f} s   depth {run['depth']:>8.3f}"
            f"   extra {run['extra']:>8.3f}   load {run['load']:>8,}"
        )


def print_ring(row: Row) -> None:
    print(
        f"  {row['partitioner']:<8} seed {row['seed']}   depth {row['depth']:.3f}"
        f"   extra {row['extra']:.3f}   load {row['load']}   {row['seconds']:.2f} s"
        f"   {verdict(row['reached'])}   ({row['detail']})"
    )


def print_scale(row: Row) -> None:
    print(
        f"  {row['partitioner']:<8} {row['sites']:,} sites: parse {row['parse_s']:.2f} s"
        f" + build {row['build_s']:.2f} s = {row['together_s']:.2f} s (goal {row['goal_s']} s,"
        f" processor {row['processor_s']:.2f} s), measure {row['measure_s']:.2f} s,"
        f" peak {row['peak_bytes'] / 2**20:.0f} MiB"
        f" (goal {GOAL_BYTES / 2**20:.0f})   {verdict(row['reached'])}"
    )
    print(
        f"           depth {row['depth']:.3f}   extra {row['extra']:.3f}   load {row['load']}"
        f"   ({row['detail']})"
    )


def collect(rows: Iterator[Row], show: Callable[[Row], None] | None) -> list[Row]:
    """All rows, each shown as soon as it is there."""
    found = []
    for row in rows:
        found.append(row)
        if show is not None:
            show(row)
            sys.stdout.flush()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables: about a minute")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--partitioner", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file is not None:
        print(json.dumps(scale_of_one(options.file, options.partitioner)))
        return 0
    quick, quiet = options.quick, options.json

    def heading(text: str) -> None:
        if not quiet:
            print(text, flush=True)

    literal = compare_with_literal(300 if quick else 1000)
    heading(
        f"greedy {literal['greedy_s']:.4f} s, the pseudo-code literally {literal['literal_s']} s,"
        f" {literal['sites']} sites and random groups of {SIZE}:"
        f" {literal['ratio']} times as fast (goal {GOAL_RATIO} at 1000)\n"
    )
    counts = [500, 1000, 2000] if quick else [1000, 2000, 4000, 8000]
    grown = collect(growth(counts), None if quiet else print_growth)
    sites = 4000 if quick else 10_000
    heading(f"\nring of {sites:,}: goal depth <= 1.65, extra <= 1.9, load <= 320 together")
    rings = collect(ring(sites, 2 if quick else 5), None if quiet else print_ring)
    large = 20_000 if quick else 100_000
    heading(f"\nscale, {large:,} sites and groups on a ring")
    scales = collect(scale(large), None if quiet else print_scale)
    if quiet:
        result = {"literal": literal, "growth": grown, "ring": rings, "scale": scales}
        print(json.dumps({"quick": quick, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
