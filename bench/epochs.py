"""The pause that a join costs its domain, and what another domain notices; also of one that dies.

    python bench/epochs.py [--sites 9 50 200] [--json]

Simulated LAN, safe, no faults; members that send all the time. The pause is how much longer the
slowest message takes, sent around the change, than the slowest of the same run without it. Times
are virtual, so a run gives the same figures on every machine.
"""

import argparse
import json
from dataclasses import dataclass

from ordercast.core.structure import Structure
from ordercast.model.epochs import JoinGroup
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.world import World

SIZES = (9, 50, 200)
RATE = 400.0  # messages per second, over both domains
SECONDS = 3
AT = 3 * SECOND // 2  # of the join: the voters have a manager by then
AROUND = 400 * MILLISECOND


@dataclass(frozen=True, slots=True)
class Seen:
    """The slowest delivery of messages sent around the time of the change, in milliseconds."""

    changed: float
    other: float


def table_of(sites: int) -> GroupTable:
    """A ring of overlapping groups of five, and apart from it a domain of nine sites."""
    names = [f"s{n:03}" for n in range(sites)]
    groups = {
        f"g{n:03}": [names[(3 * n + k) % sites] for k in range(min(5, sites))]
        for n in range((sites + 2) // 3)
    }
    apart = [f"z{n}" for n in range(9)]
    groups |= {f"other{n}": [apart[(3 * n + k) % 9] for k in range(5)] for n in range(3)}
    return GroupTable.of(groups, sites=[*names, *apart, "new"])


def run(sites: int, *, join: bool = False, dead: bool = False) -> tuple[Seen, int]:
    """What was seen, and how many epochs there were. `dead`: all of the domain apart crashes."""
    table = table_of(sites)
    apart = tuple(site for site in table.sites if site.startswith("z"))
    faults = [Fault("join", count=1, start=AT, stop=AT + 1, sites=("z0",))]
    if dead:
        faults.append(Fault("crash", count=len(apart), start=AT, stop=AT + 1, sites=apart))
    config = SimConfig(
        table,
        builder="balanced",
        messages=int(RATE * SECONDS),
        rate=RATE,
        faults=tuple(faults),
        on_failure="wait",
        stability="plain",
    )
    structure = Structure(1, table, advise(table, "balanced").forest)
    world = World(config, structure, seed=1)
    assert world.epochs is not None
    edit = JoinGroup("g000", "new") if join else None
    world.epochs.draw = lambda kind, layout: edit  # type: ignore[method-assign]  # noqa: ARG005
    world.start()
    world.run()
    sent = {row.id: row.sent_ns for row in world.recorder.sent()}
    slowest = {"g": 0, "o": 0}
    for rows in world.recorder.seen.values():
        for at, delivery in rows:
            begun = sent[delivery.id]
            if AT - AROUND <= begun <= AT + AROUND:
                kind = delivery.group[0]
                slowest[kind] = max(slowest[kind], at - begun)
    assert not world.recorder.violations, world.recorder.violations[:1]
    found = Seen(slowest["g"] / MILLISECOND, slowest["o"] / MILLISECOND)
    return found, len(world.epochs.domains)


def measure(sites: int) -> dict[str, float]:
    quiet, before = run(sites, join=False)
    changed, after = run(sites, join=True)
    assert after == before + 1, (before, after)
    beside, _ = run(sites, dead=True)
    return {
        "sites": sites,
        "pause_ms": round(changed.changed - quiet.changed, 3),
        "slowest_ms": round(changed.changed, 3),
        "slowest_without_ms": round(quiet.changed, 3),
        "other_domain_ms": round(changed.other, 3),
        "other_domain_without_ms": round(quiet.other, 3),
        "beside_a_dead_domain_ms": round(beside.changed, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sites", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [measure(sites) for sites in args.sites]
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    print(
        "sites   pause   slowest  without   other domain  without   beside a dead one (virtual ms)"
    )
    for row in rows:
        print(
            f"{row['sites']:5.0f} {row['pause_ms']:7.2f} {row['slowest_ms']:9.2f}"
            f" {row['slowest_without_ms']:8.2f} {row['other_domain_ms']:14.2f}"
            f" {row['other_domain_without_ms']:8.2f} {row['beside_a_dead_domain_ms']:19.2f}"
        )


if __name__ == "__main__":
    main()
