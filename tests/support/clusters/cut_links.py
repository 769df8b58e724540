"""Five real sites, each in a network namespace, while single links between them are cut: how long
deliveries stop, who is excluded, and what the stores and applications say in the end."""

import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.clusters.processes import Processes, write_cluster
from support.network.namespaces import Namespaces

SITES = "abcde"
FIRST = ("nice", "-n", "-10")  # or other work on the machine silences a site for a second
GROUPS = {"alpha": list(SITES), "beta": ["a", "b", "c"], "gamma": ["c", "d", "e"]}


@dataclass(frozen=True)
class Cut:
    """Site `one` does not reach site `two`; with `both`, neither reaches the other."""

    one: str
    two: str
    both: bool = True

    def __str__(self) -> str:
        return f"{self.one} {'--' if self.both else '->'} {self.two}"


@dataclass
class Found:
    wrong: list[str] = field(default_factory=list)
    stops_s: dict[str, float] = field(default_factory=dict)  # the longest at any site, by cut
    counters: Counter[str] = field(default_factory=Counter)


class Deliveries:
    """When each site last delivered something, by the notes of its application."""

    def __init__(self, running: Processes) -> None:
        self._running = running
        self._read = dict.fromkeys(running.sites, 0)
        self.last = dict.fromkeys(running.sites, time.monotonic())
        self.longest = 0.0

    def look(self) -> None:
        now = time.monotonic()
        for site in self._running.sites:
            path = self._running.notes(site)
            if not path.exists():
                continue
            with path.open("rb") as file:
                file.seek(self._read[site])
                new = file.read()
            self._read[site] += len(new)
            if b'["saw"' in new:
                self.last[site] = now
            self.longest = max(self.longest, now - self.last[site])

    def watch(self, seconds: float) -> float:
        """The longest stop at any site, of those that end or go on in this time."""
        self.longest = 0.0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(0.02)
        return self.longest


def run_cuts(
    folder: Path,
    options: dict[str, object],
    cuts: Sequence[Cut],
    *,
    seed: int,
    lasting_s: float,
    most_s: float,
) -> Found:
    found = Found()
    with Namespaces(SITES) as network:
        addresses = {site: f"{address}:7100" for site, address in network.address.items()}
        cluster = write_cluster(folder, GROUPS, options, addresses=addresses)
        with Processes(
            folder, cluster, messages=500, seed=seed, steady=True,
            place_of=lambda site: [*network.words(site), *FIRST],
        ) as running:  # fmt: skip
            running.wait_for_manager([])
            running.wait_until(lambda: all(running.told(site, "saw") for site in SITES))
            deliveries = Deliveries(running)
            deliveries.watch(0.5)
            epochs = {site: len(running.told(site, "epoch")) for site in SITES}
            before = {site: len(running.told(site, "standing")) for site in SITES}  # of founding
            for cut in cuts:
                network.cut(cut.one, cut.two, both=cut.both)
                stop = deliveries.watch(lasting_s)
                found.stops_s[str(cut)] = stop
                found.counters["stops above a second"] += stop > 1.0
                if stop > most_s:
                    found.wrong.append(f"{cut}: nothing delivered somewhere for {stop:.1f} s")
                network.mend()
                deliveries.watch(0.5)
            found.counters["cuts"] += len(cuts)
            for site in SITES:
                more = len(running.told(site, "epoch")) - epochs[site]
                found.counters["epochs"] += more
                if more:
                    found.wrong.append(f"{site}: {more} new epochs")
                absent = {"excluded", "no majority"} & set(
                    running.told(site, "standing")[before[site] :]
                )
                if absent:
                    found.wrong.append(f"{site}: {', '.join(sorted(absent))}")
                ways = [way for way in running.told(site, "links") if way]
                found.counters["links through another site"] += len(ways)
            running.settle(60)
            running.stop()
            found.wrong += running.judge().wrong
            found.counters["deliveries checked"] += running.verdict.delivered
    return found


def drawn_cuts(rng: random.Random, count: int) -> list[Cut]:
    cuts = []
    for _ in range(count):
        one, two = rng.sample(SITES, 2)
        cuts.append(Cut(one, two, both=rng.random() < 0.5))
    return cuts
