"""How fast the simulator runs: events per second, beside SimPy driving the same protocol objects.

    python bench/sim.py [--messages 2000] [--rates 100,1000] [--repeat 7] [--json]

An event is one frame or alarm handed to a site. The groups are those of [GS] Figure 3, on the
network `lan`, without faults, at two loads: at 100 messages a second each frame is acknowledged by
itself, at 1,000 acknowledgements ride on other frames, so there are fewer events for each message
and each does more. Both sides record and check every delivery and do the same work: as many events,
frames and deliveries, which is checked. The rival is SimPy as one would write it, a process and a
Store per site, with one favour: a frame under way is a timeout with a callback, not a process of
its own. Runs alternate, each side's best processor time counts, on one core.
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

from ordercast.core.outbox import Outbox
from ordercast.core.site import Site
from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import advise
from ordercast.sim.chance import Stream
from ordercast.sim.config import SimConfig
from ordercast.sim.networks import build_network
from ordercast.sim.recorder import Recorder
from ordercast.sim.simulate import EPOCH, simulate
from ordercast.sim.workload import Submission, submissions
from ordercast.sim.world import World
from ordercast.wire.frames import CONTROL, Data

FIGURE_3 = {
    "alpha1": "cd", "alpha2": "abc", "alpha3": "bcde", "alpha4": "def",
    "alpha5": "ef", "alpha6": "bg", "alpha7": "ch", "alpha8": "dj",
}  # fmt: skip
GOAL_EVENTS, GOAL_RATIO = 100_000, 1.5

Work = tuple[int, int, int]
"""Events, data frames and deliveries: both sides must have done the same."""


class Rival:
    """The same sites, network, workload and record, with SimPy's processes, stores and clock."""

    def __init__(self, config: SimConfig, structure: Structure, seed: int) -> None:
        sites = config.table.sites
        self.env: Any = simpy.Environment()
        self.recorder = Recorder(sites, EPOCH)
        self.arrivals = build_network(config.network, sites, Stream(seed, "network")).arrivals
        self.stores = {name: simpy.Store(self.env) for name in sites}
        self.put = {name: self._putter(store) for name, store in self.stores.items()}
        self.alarms = dict.fromkeys(sites, 0)  # when each one's alarm is wanted; 0: not at all
        self.pushed = dict.fromkeys(sites, 0)
        self.events = self.data = 0
        for name in sites:
            site = Site(name, structure, config.options, protocol=config.protocol)
            self.env.process(self.lives(name, site))
        self.env.process(self.applications(submissions(config, seed)))

    def _putter(self, store: Any) -> Callable[[Any], None]:
        return lambda event: store.put(event.value)

    def lives(self, name: str, site: Site) -> Generator[Any, Any, None]:
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

    def perform(self, name: str, box: Outbox) -> None:
        self.alarms[name] = box.alarm or 0
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
        for (peer, frame), at in zip(sends, self.arrivals(now, name, sends), strict=True):
            if type(frame) is Data and frame.lane != CONTROL:
                self.data += 1
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


def compare(config: SimConfig, structure: Structure, repeat: int) -> dict[str, Any]:
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


def measure(base: SimConfig, structure: Structure, rate: float, repeat: int) -> dict[str, Any]:
    agreed = replace(base, rate=rate, deliver="agreed", durability="memory")
    found = {"rate": rate, **compare(agreed, structure, repeat)}
    safe = replace(base, rate=rate, deliver="safe", durability="sync")
    best, (events, _, _) = min(timed(World(safe, structure, 1)) for _ in range(repeat))
    found["safe_sync_events_per_s"] = round(events / best)
    begun = time.process_time()
    whole = simulate(agreed, 1)
    found["whole_events_per_s"] = round(whole.events / (time.process_time() - begun))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--rates", default="100,1000", help="messages per second")
    parser.add_argument("--repeat", type=int, default=7, help="the best of so many runs counts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = GroupTable.of({group: list(members) for group, members in FIGURE_3.items()})
    structure = Structure(EPOCH, table, advise(table, "greedy").forest)
    base = SimConfig(table, messages=options.messages)
    rates = [float(rate) for rate in options.rates.split(",")]
    results = [measure(base, structure, rate, options.repeat) for rate in rates]
    best = max(result["events_per_s"] for result in results)
    worst_ratio = min(result["ratio"] for result in results)
    if options.json:
        told = {"groups": "figure 3", "network": "lan", "messages": options.messages}
        json.dump(
            {**told, "events_per_s": best, "ratio": worst_ratio, "rates": results}, sys.stdout
        )
        print()
        return 0
    print(
        f"Figure 3 (9 sites, 8 groups), lan, no faults, {options.messages:,} messages; events/s:\n"
    )
    print("msgs/s   events   agreed+memory    SimPy  ratio   safe+sync   with all checks and hash")
    for result in results:
        print(
            f"{result['rate']:6g} {result['events']:8,} {result['events_per_s']:15,}"
            f" {result['simpy_events_per_s']:8,} {result['ratio']:6.2f}"
            f" {result['safe_sync_events_per_s']:11,} {result['whole_events_per_s']:12,}"
        )
    print(f"\nbest {best:,} (goal {GOAL_EVENTS:,}), least ratio {worst_ratio} (goal {GOAL_RATIO})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
