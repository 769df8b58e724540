"""What a change, and a return after a kill, cost where there are very many groups or streams.

    python bench/changes.py [--groups 1000 10000] [--sites 10] [--lists 0] [--profile] [--json]

Real members with the options of a cluster file, in one process. Every site has a processor of its
own: the processor time of its calls, the encoding of frames and records included, lets its
time pass; a frame is under way for 0.1 ms. So the figures are those of as many machines as there
are sites, with disks that take no time. They depend on the machine, and get better by repetition.
Python's collector is off: it would look at the objects of all sites in one of their bursts. What a
full collection of one site's objects takes is shown beside it.

asked: from a join until its site has the outcome. pause: the slowest message that is sent around
it. return: from the start of a site that was killed until it takes part again. collect: a full
collection, divided by the number of sites.
"""

import argparse
import cProfile
import gc
import heapq
import itertools
import json
import pstats
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox, MemberRecord
from ordercast.model.epochs import JoinGroup
from ordercast.model.errors import Error, WindowFull
from ordercast.model.messages import DeliveredBatch
from ordercast.model.options import MILLISECOND, NEVER, SECOND
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.wire.codec import FrameEncoder, decode_frame

UNDER_WAY = 100_000  # ns
EVERY = 10 * MILLISECOND  # a message, of each site

_encode = msgspec.msgpack.Encoder().encode
_records = msgspec.msgpack.Decoder(list[MemberRecord])


@dataclass
class Machine:
    member: Member | None = None
    free_at: int = 0
    inbox: list[tuple[str, bytes]] = field(default_factory=list)
    calls: list[Callable[[Member, int], None]] = field(default_factory=list)
    disk: list[bytes] = field(default_factory=list)
    encoder: FrameEncoder = field(default_factory=FrameEncoder)
    boot: int = 0
    alarm: int = NEVER
    longest: tuple[int, int] = (0, 0)  # of its bursts, and when


class Cluster:
    def __init__(self, groups: dict[str, list[str]], sites: Sequence[str], profile: Any) -> None:
        self.cluster = cluster_of_groups(groups)
        self.first = self.cluster.first_layout()
        self.sites = sites
        self.machines = {site: Machine() for site in sites}
        self.now = 0
        self.profile = profile
        self.sent: dict[tuple[str, str, int], int] = {}
        self.missing: dict[tuple[str, str, int], int] = {}
        self.took: list[tuple[int, int]] = []  # (sent at, until all members had it)
        self.outcomes: dict[str, tuple[int, str]] = {}
        self.refused: list[tuple[str, list[str]]] = []  # lists that are to be sent again
        self._heap: list[tuple[int, int, str]] = []
        self._tick = itertools.count()
        for site in sites:
            self.start(site)

    def start(self, site: str) -> None:
        machine = self.machines[site]
        machine.boot += 1
        machine.free_at = max(machine.free_at, self.now)
        machine.inbox, machine.alarm = [], 0

        def begin(_: Member | None, now: int) -> None:
            records: list[MemberRecord] = []
            for data in machine.disk:
                records += _records.decode(data)
            machine.member = Member(
                site, self.first, self.cluster.options(), self.cluster.build, boot=machine.boot,
                store=1 + self.sites.index(site), times=self.cluster.voting_times(),
                records=records,
            )  # fmt: skip
            machine.member.start(now)

        machine.calls = [begin]
        self.wake(site, self.now)

    def kill(self, site: str) -> None:
        self.machines[site].member = None
        self.machines[site].inbox, self.machines[site].calls = [], []

    def call(self, site: str, call: Callable[[Member, int], None]) -> None:
        self.machines[site].calls.append(call)
        self.wake(site, self.now)

    def wake(self, site: str, at: int) -> None:
        heapq.heappush(self._heap, (at, next(self._tick), site))

    def run(self, until: int, done: Callable[[], bool] = lambda: False) -> None:
        while self._heap and self._heap[0][0] <= until and not done():
            self.now, _, site = heapq.heappop(self._heap)
            machine = self.machines[site]
            if machine.free_at > self.now:
                self.wake(site, machine.free_at)
            elif machine.calls or (
                machine.member is not None and (machine.inbox or machine.alarm <= self.now)
            ):
                self._burst(site, machine)
        self.now = max(self.now, until) if not done() else self.now

    def _burst(self, site: str, machine: Machine) -> None:
        inbox, calls = machine.inbox, machine.calls
        machine.inbox, machine.calls = [], []
        begun = time.process_time_ns()
        if self.profile is not None:
            self.profile.enable()
        for call in calls:
            call(machine.member, self.now)  # type: ignore[arg-type]
        member = machine.member
        assert member is not None
        for peer, data in inbox:
            member.receive(self.now, peer, decode_frame(data))  # type: ignore[arg-type]
        if machine.alarm <= self.now:
            member.alarm(self.now)
        box = member.drain()
        encode = machine.encoder.encode
        frames = [(peer, encode([frame])[0]) for peer, frame in (*box.send, *box.then_send)]
        if box.persist:
            machine.disk.append(_encode(list(box.persist)))
        if box.forget is not None:
            machine.disk = [_encode([box.forget])]
        member.stored(box.counted)
        if self.profile is not None:
            self.profile.disable()
        took = time.process_time_ns() - begun
        machine.longest = max(machine.longest, (took, self.now))
        machine.free_at = at = self.now + took
        for peer, data in frames:
            self.machines[peer].inbox.append((site, data))
            self.wake(peer, at + UNDER_WAY)
        machine.alarm = min(box.epochs_alarm, box.voters_alarm)
        if machine.alarm < NEVER:
            self.wake(site, max(at, machine.alarm))
        self._deliver(box, at)
        for change, why in box.outcomes:
            self.outcomes.setdefault(change, (at, why))

    def _deliver(self, box: MemberBox, at: int) -> None:
        for item in box.deliver:
            if isinstance(item, DeliveredBatch):
                for delivery in item.deliveries():
                    name = (delivery.origin, delivery.group, delivery.seq)
                    if name in self.missing:
                        self.missing[name] -= 1
                        if not self.missing[name]:
                            del self.missing[name]
                            self.took.append((self.sent[name], at - self.sent[name]))

    def send(self, site: str, group: str, members: int) -> None:
        now = self.now

        def submit(member: Member, at: int) -> None:
            try:
                seq = member.submit(at, group, [b"x" * 100])
            except Error:
                return
            self.sent[site, group, seq] = now
            self.missing[site, group, seq] = members

        if self.machines[site].member is not None:
            self.call(site, submit)

    def send_to(self, site: str, members: list[str]) -> None:
        def submit(member: Member, at: int) -> None:
            try:
                member.submit_to(at, members, [b"x"])
            except WindowFull:
                self.refused.append((site, members))

        self.call(site, submit)

    def load(self, groups: dict[str, list[str]], until: int, draw: random.Random) -> None:
        """All sites send, one after the other."""
        names = sorted(groups)
        while self.now < until:
            for site in self.sites:
                group = draw.choice(names)
                self.send(site, group, len(groups[group]))
                self.run(self.now + EVERY // len(self.sites))

    def slowest(self, after: int, before: int) -> float:
        took = [took for sent, took in self.took if after <= sent <= before]
        return max(took, default=0) / MILLISECOND


def table(groups: int, sites: Sequence[str]) -> dict[str, list[str]]:
    draw = random.Random(5)
    found = {f"g{n:05}": sorted(draw.sample(sites, 3)) for n in range(groups)}
    found["g00000"] = list(sites[:3])
    return found


def measure(groups: int, count: int, lists: int, profile: Any) -> dict[str, float]:
    sites = [f"s{n:02}" for n in range(count)]
    draw = random.Random(7)
    named = table(groups, sites)
    cluster = Cluster(named, sites, None)
    cluster.load(named, 3 * SECOND, draw)
    for number in range(lists):  # each a stream of its own
        members = [sites[i] for i in range(count) if (number + 1) >> i & 1]
        sender = sites[number % count]  # each has its share
        cluster.send_to(sender, members)
        if number % 50 == 49:
            cluster.run(cluster.now + MILLISECOND)
    while cluster.refused:  # there was no room
        again, cluster.refused = cluster.refused, []
        for sender, members in again:
            cluster.send_to(sender, members)
        cluster.run(cluster.now + 10 * MILLISECOND)
    for machine in cluster.machines.values():
        machine.longest = (0, 0)
    gc.disable()
    cluster.load(named, cluster.now + SECOND, draw)
    quiet = cluster.slowest(cluster.now - SECOND, cluster.now - SECOND // 10)
    asked, cluster.profile = cluster.now, profile
    joiner = sites[3]
    edit = JoinGroup("g00000", joiner)
    cluster.call(joiner, lambda m, at: m.ask(at, "join", (edit,)))
    while "join" not in cluster.outcomes and cluster.now < asked + 120 * SECOND:
        cluster.load(named, cluster.now + 20 * MILLISECOND, draw)
    done, why = cluster.outcomes["join"]
    assert not why, why
    named["g00000"] = sorted([*named["g00000"], joiner])
    cluster.profile = None
    cluster.load(named, cluster.now + SECOND, draw)
    pause = cluster.slowest(asked - SECOND // 10, done + SECOND // 2)
    longest = max(machine.longest[0] for machine in cluster.machines.values())
    layout = cluster.machines[joiner].member.layout  # type: ignore[union-attr]
    found = {
        "groups": groups,
        "sites": count,
        "lists": lists,
        "asked_ms": round((done - asked) / MILLISECOND, 1),
        "pause_ms": round(pause, 1),
        "without_ms": round(quiet, 1),
        "longest_burst_ms": round(longest / MILLISECOND, 1),
        "lasts": len(layout.lasts),
    }
    found["return_ms"] = round(_returned(cluster, named, sites[-1], draw), 1)
    gc.enable()
    begun = time.process_time_ns()
    gc.collect()
    found["collect_ms"] = round((time.process_time_ns() - begun) / count / MILLISECOND, 1)
    return found


def _returned(
    cluster: Cluster, named: dict[str, list[str]], site: str, draw: random.Random
) -> float:
    cluster.kill(site)
    cluster.load(named, cluster.now + 3 * SECOND, draw)
    cluster.start(site)
    begun = cluster.now

    def back() -> bool:
        member = cluster.machines[site].member
        return member is not None and member.flush.quiet()

    while not back() and cluster.now < begun + 120 * SECOND:
        cluster.load(named, cluster.now + 50 * MILLISECOND, draw)
    return (cluster.now - begun) / MILLISECOND


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--groups", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--lists", type=int, default=0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.lists >= 1 << args.sites:
        parser.error(f"--lists: {args.sites} sites have {(1 << args.sites) - 1:,} lists")
    profile = cProfile.Profile() if args.profile else None
    rows = [measure(groups, args.sites, args.lists, profile) for groups in args.groups]
    if args.json:
        print(json.dumps(rows, indent=2))
    else:
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))
    if profile is not None:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(60)


if __name__ == "__main__":
    main()
