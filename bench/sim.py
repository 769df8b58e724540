"""How fast the simulator runs: events per second, beside SimPy driving the same protocol objects.

    python bench/sim.py [--messages 1000] [--repeat 7] [--json]

An event is one frame or alarm handed to a site. Two tables, [GS] Figure 3 and a random one as in
[GS] §4.1 (20 sites, 10 groups of 5), each at two loads, on the network `lan`, without faults. What
an event costs depends on both: where little is sent on a link each frame is acknowledged by itself,
so there are many cheap events; where much is, acknowledgements ride on other frames, and there are
fewer events for a message, each doing more. So every row is shown, and none stands for the others.

Both sides record and check every delivery and do the same work: as many events, frames and
deliveries, which is checked. The rival has no voters. It is SimPy as one would write it, a process
and a Store per site, with one favour: a frame under way is a timeout with a callback, not a process
of its own.
Runs alternate, each side's best processor time counts, on one core.
"""

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import simpy

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox
from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.model.options import NEVER
from ordercast.plan.advice import advise
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.driver import is_data
from ordercast.sim.members import Epochs
from ordercast.sim.networks import build_network
from ordercast.sim.recorder import Recorder
from ordercast.sim.simulate import EPOCH, simulate
from ordercast.sim.workload import Submission, submissions
from ordercast.sim.world import World
from ordercast.wire.epochs import InEpoch

FIGURE_3 = {
    "alpha1": "cd", "alpha2": "abc", "alpha3": "bcde", "alpha4": "def",
    "alpha5": "ef", "alpha6": "bg", "alpha7": "ch", "alpha8": "dj",
}  # fmt: skip
GOAL_EVENTS, GOAL_RATIO = 100_000, 1.5

Row = dict[str, Any]
Work = tuple[int, int, int]
"""Events, data frames and deliveries: both sides must have done the same."""


class Rival:
    """The same sites, network, workload and record, with SimPy's processes, stores and clock."""

    def __init__(self, config: SimConfig, structure: Structure, seed: int) -> None:
        sites = config.table.sites
        self.env: Any = simpy.Environment()
        self.recorder = Recorder(sites, EPOCH)
        self.arrivals = build_network(config.network, sites, Chance(seed, "network")).arrivals
        self.stores = {name: simpy.Store(self.env) for name in sites}
        self.put = {name: self._putter(store) for name, store in self.stores.items()}
        self.alarms = dict.fromkeys(sites, 0)  # when each one's alarm is wanted; 0: not at all
        self.pushed = dict.fromkeys(sites, 0)
        self.events = self.data = 0
        epochs = Epochs(config, structure, seed)
        for name in sites:
            self.env.process(self.lives(name, epochs.make(name, 1, [])))
        self.env.process(self.applications(submissions(config, seed)))

    def _putter(self, store: Any) -> Callable[[Any], None]:
        return lambda event: store.put(event.value)

    def lives(self, name: str, site: Member) -> Generator[Any, Any, None]:
        """A site: takes what is in its store, does the driver's duties."""
        store, env = self.stores[name], self.env
        site.start(env.now)
        self.perform(name, site.drain())
        while True:
            kind, peer, content = yield store.get()
            now = env.now
            if kind == "frame":
                self.events += 1
                site.receive(now, peer, content)
            elif kind == "alarm":
                if self.pushed[name] == now:
                    self.pushed[name] = 0
                if not self.alarms[name] or self.alarms[name] > now:
                    self.ring(name)
                    continue
                self.alarms[name] = 0
                self.events += 1
                site.alarm(now)
            else:
                seq = site.submit(now, content.group, content.payloads())
                self.recorder.offered(now, name, content.group, seq, content)
            self.perform(name, site.drain())

    def perform(self, name: str, box: MemberBox) -> None:
        self.alarms[name] = 0 if box.epochs_alarm >= NEVER else box.epochs_alarm
        self.ring(name)
        for sends in (box.send, box.then_send):
            if sends:
                self.transmit(name, sends)
        if box.deliver:
            self.recorder.delivered(self.env.now, name, box.deliver)
        for receipt in box.receipts:
            if receipt.stage == "accepted":
                self.recorder.accepted(name, receipt.group, receipt.seq)

    def ring(self, name: str) -> None:
        """One timeout under way is enough, if it is not too late."""
        wanted, pushed = self.alarms[name], self.pushed[name]
        if wanted and (not pushed or wanted < pushed):
            self.pushed[name] = wanted
            self.after(wanted - self.env.now, name, ("alarm", None, None))

    def transmit(self, name: str, sends: Any) -> None:
        now = self.env.now
        sends = [send for send in sends if type(send[1]) is InEpoch]  # nobody votes here
        for (peer, frame), at in zip(sends, self.arrivals(now, name, sends), strict=True):
            self.data += is_data(frame)
            self.after(at - now, peer, ("frame", name, frame))

    def after(self, delay: int, name: str, content: Any) -> None:
        self.env.timeout(max(delay, 0), content).callbacks.append(self.put[name])

    def applications(self, planned: Any) -> Generator[Any, Any, None]:
        for submission in planned:
            assert isinstance(submission, Submission)
            yield self.env.timeout(submission.at - self.env.now)
            self.stores[submission.origin].put(("submit", None, submission))

    def run(self) -> None:
        collecting = gc.isenabled()
        gc.disable()
        try:
            self.env.run()
        finally:
            if collecting:
                gc.enable()


def timed(world: World | Rival) -> tuple[float, Work]:
    """Seconds of processor time for the run alone, and what was done."""
    if isinstance(world, World):
        world.start()
    begun = time.process_time()
    world.run()
    seconds = time.process_time() - begun
    delivered = sum(len(log) for log in world.recorder.seen.values())
    return seconds, (world.events, world.data, delivered)


def compare(config: SimConfig, structure: Structure, repeat: int) -> Row:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(repeat):
        seconds, work = timed(World(config, structure, 1))
        ours.append(seconds)
        seconds, rival_work = timed(Rival(config, structure, 1))
        theirs.append(seconds)
        # Ours ends when all is quiet; a few alarms that nobody needs may still be due then.
        if work[1:] != rival_work[1:] or abs(work[0] - rival_work[0]) > work[0] // 200:
            raise SystemExit(f"the two sides did not do the same: {work} and {rival_work}")
    events, data, delivered = work
    return {
        "events": events,
        "data_frames": data,
        "deliveries": delivered,
        "events_per_s": round(events / min(ours)),
        "simpy_events_per_s": round(rival_work[0] / min(theirs)),
        "ratio": round(min(theirs) / rival_work[0] / (min(ours) / events), 2),
    }


def random_groups(sites: int, groups: int, size: int) -> GroupTable:
    stream = Chance(1, "bench table")
    names = [f"s{number:02}" for number in range(sites)]
    return GroupTable.of({f"g{n}": stream.sample(names, size) for n in range(groups)}, sites=names)


def measure(name: str, table: GroupTable, rate: float, messages: int, repeat: int) -> Row:
    structure = Structure(EPOCH, table, advise(table, "greedy").forest)
    agreed = SimConfig(
        table,
        messages=messages,
        rate=rate,
        deliver="agreed",
        durability="memory",
        stability="plain",
    )
    found: Row = {"table": name, "rate": rate, **compare(agreed, structure, repeat)}
    safe = replace(agreed, deliver="safe", durability="sync")
    best, (events, _, _) = min(timed(World(safe, structure, 1)) for _ in range(repeat))
    found["safe_sync_events_per_s"] = round(events / best)
    begun = time.process_time()
    whole = simulate(agreed, 1)
    found["whole_events_per_s"] = round(whole.events / (time.process_time() - begun))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=7, help="the best of so many runs counts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figure_3 = GroupTable.of({group: list(members) for group, members in FIGURE_3.items()})
    random = random_groups(20, 10, 5)
    rows = [
        measure(name, table, rate, options.messages, options.repeat)
        for name, table in (("figure 3", figure_3), ("20 sites", random))
        for rate in (200.0, 1000.0)
    ]
    if options.json:
        goals = {"events_per_s": GOAL_EVENTS, "ratio": GOAL_RATIO}
        json.dump({"messages": options.messages, "goals": goals, "rows": rows}, sys.stdout)
        print()
        return 0
    print(f"events/s; lan, no faults, {options.messages:,} messages, best of {options.repeat}\n")
    print(
        "table     msgs/s   events  agreed+memory    SimPy  ratio  safe+sync  checks and hash too"
    )
    for row in rows:
        print(
            f"{row['table']:9} {row['rate']:6g} {row['events']:8,} {row['events_per_s']:14,}"
            f" {row['simpy_events_per_s']:8,} {row['ratio']:6.2f}"
            f" {row['safe_sync_events_per_s']:10,} {row['whole_events_per_s']:10,}"
        )
    fast = sum(row["events_per_s"] >= GOAL_EVENTS for row in rows)
    ahead = sum(row["ratio"] >= GOAL_RATIO for row in rows)
    print(
        f"\n{fast} of {len(rows)} rows reach {GOAL_EVENTS:,} events/s (agreed+memory),"
        f" {ahead} of {len(rows)} a ratio of {GOAL_RATIO}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
