"""Many sites and overlapping groups as real processes: what each protocol costs, and where.

    python bench/many_sites.py [--shapes 9x8 20x40 60x200] [--protocols ring] [--rate 200]
                               [--seconds 5] [--json]

Groups are local: those of one neighbourhood overlap. All sites send to their groups at an even
rate, and every member counts what it delivers. A shape runs under `propagation`, `centralized` and
`ring`, each on what a cluster file's builder makes, for the builders that the planner recommends
for delay and for load. Above what the
cores can do, batches grow, and a message costs less than it does at that rate on machines of
their own.

Sites are forks of one process, so that nobody reads the modules again. Time runs when every site
has sent a message and has all of these: before that voters elect a manager and admit the sites,
which takes seconds at so long a timeout.

The sites share this machine's cores, so what counts is processor time: of all sites for a message,
of the busiest site, and of the median one (JSON has each site's). The busiest bounds what as many
machines as there are sites could do (`could`: messages per second if each had a core of its own).
`per_s`: messages per second on the cores that are there, until all were delivered. Beside it stands
the highest load by the planner's estimate. `named`: both have the same protocol and forest in the
first place.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

from ordercast.model.errors import Error
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Delivery
from ordercast.net.bench.member import run_member
from ordercast.net.bench.run import PATIENCE_S, free_ports
from ordercast.net.site.node import Node, site_of
from ordercast.plan.advice import Plan, advise
from ordercast.plan.protocols import advise_protocol

PROTOCOLS = ("propagation", "centralized", "ring")
LOCAL = 4  # members of a group
START_S = 120.0  # very many processes on few cores
FORKED_WITH = ["uvloop", "ordercast.net.bench.member", "ordercast.plan.protocols"]
LOOK_S = 0.5  # how often sites are asked what they have delivered
SETTLE_S = 120.0  # on a busy machine a backlog may remain when the last message is sent


def local_groups(sites: int, groups: int) -> dict[str, list[str]]:
    """Each group is of sites that are near each other on a circle."""
    draw = random.Random(1)
    names = [f"s{number:02}" for number in range(sites)]
    found = {}
    for number in range(groups):
        middle = number * sites // groups
        near = [names[(middle + step) % sites] for step in range(min(sites, LOCAL + 2))]
        found[f"g{number:03}"] = sorted(draw.sample(near, min(LOCAL, len(near))))
    return found


def write_cluster(place: Path, groups: dict[str, list[str]], protocol: str, builder: str) -> Path:
    sites = sorted({site for members in groups.values() for site in members})
    voters = json.dumps(sites[:3])
    lines = ["[cluster]", 'name = "bench"', 'deliver = "agreed"', 'durability = "memory"']
    lines += [f'protocol = "{protocol}"', f'builder = "{builder}"', f"voters = {voters}"]
    for site, port in zip(sites, free_ports(len(sites)), strict=True):
        lines += [f"[sites.{site}]", f'address = "127.0.0.1:{port}"']
    lines += ["[timeouts]", 'suspect = "60s"']  # no site is excluded because the cores are busy
    lines += [
        "[groups]",
        *(f"{group} = {json.dumps(members)}" for group, members in groups.items()),
    ]
    path = place / "cluster.toml"
    path.write_text("\n".join(lines) + "\n", encoding="ascii")
    return path


# --- one site -------------------------------------------------------------------------------------


class SiteProcess:
    """A site's process, as the process that started it sees it."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.site = spec["site"]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(FORKED_WITH)
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=run_site, args=(spec, theirs), daemon=True)
        self._process.start()
        theirs.close()  # so the line ends with the process

    def say(self, **words: Any) -> None:
        self._line.send(words)

    def hear(self, word: str, patience_s: float) -> Any:
        if not self._line.poll(patience_s):
            raise Error(f"{self.site} did not say {word!r} within {patience_s:,.0f} s")
        try:
            return self._line.recv()[word]
        except EOFError:
            raise Error(f"the process of {self.site} has ended; see above") from None

    def wait(self) -> None:
        self._process.join(PATIENCE_S)

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._line.close()


def run_site(spec: dict[str, Any], line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started us ends us
    logging.getLogger("ordercast").setLevel(logging.ERROR)  # peers come up one after the other
    run_member(lambda: take_part(spec, line))


async def take_part(spec: dict[str, Any], line: Connection) -> None:
    loop = asyncio.get_running_loop()
    words: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                loop.call_soon_threadsafe(words.put_nowait, line.recv())
        os._exit(1)  # the process that started us has gone, whatever this site waits for

    threading.Thread(target=listen, daemon=True).start()

    async def heard(word: str) -> Any:
        return (await words.get())[word]

    def say(**said: Any) -> None:
        line.send(said)

    opening = Node.open(spec["cluster"], spec["site"], dir=spec["dir"])
    node = await opening.__aenter__()
    delays: list[int] = []

    warm = asyncio.Semaphore(0)

    async def read() -> None:
        async for item in node.deliveries():
            assert isinstance(item, Delivery)
            if item.payload:
                delays.append(time.monotonic_ns() - int.from_bytes(item.payload[:8]))
            else:
                warm.release()

    reading = loop.create_task(read())
    groups, period = spec["groups"], 1.0 / spec["rate"]
    await node.multicast(groups[0], b"")  # waits until the site is admitted
    for _ in range(spec["warm"]):
        await warm.acquire()
    say(warmed=True)
    seconds = await heard("go")
    sent, begun, cpu = 0, loop.time(), time.process_time()
    while loop.time() < begun + seconds:
        due = begun + sent * period
        if loop.time() < due:
            await asyncio.sleep(due - loop.time())
        payload = time.monotonic_ns().to_bytes(8) + bytes(92)
        await node.multicast(groups[sent % len(groups)], payload)
        sent += 1
    say(sent=sent)
    while not await heard("settled"):
        say(delivered=len(delays))
    delays.sort()
    half = delays[len(delays) // 2] / 1e6 if delays else 0.0
    cpu = time.process_time() - cpu
    say(result={"cpu_s": cpu, "sent": sent, "delivered": len(delays), "p50_ms": half})
    await heard("end")
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    await site_of(node).abandon()


# --- a run ----------------------------------------------------------------------------------------


def run(
    groups: dict[str, list[str]], protocol: str, builder: str, rate: float, seconds: float
) -> dict[str, Any]:
    sites = sorted({site for members in groups.values() for site in members})
    with (
        tempfile.TemporaryDirectory(prefix="ordercast-bench-") as made,
        contextlib.ExitStack() as stack,
    ):
        place = Path(made)
        cluster = write_cluster(place, groups, protocol, builder)
        members: dict[str, SiteProcess] = {}
        own = {s: [group for group, listed in groups.items() if s in listed] for s in sites}
        for site in sites:
            spec: dict[str, Any] = {"cluster": str(cluster), "site": site, "dir": made}
            spec |= {"groups": own[site], "rate": rate / len(sites)}
            spec["warm"] = sum(site in groups[listed[0]] for listed in own.values())
            members[site] = SiteProcess(spec)
            stack.callback(members[site].end)
        for member in members.values():
            member.hear("warmed", START_S)
        begun = time.monotonic()
        for member in members.values():
            member.say(go=seconds)
        sent = sum(member.hear("sent", PATIENCE_S + seconds) for member in members.values())
        until = time.monotonic() + SETTLE_S
        while delivered_by(members) < LOCAL * sent and time.monotonic() < until:
            time.sleep(LOOK_S)
        took = time.monotonic() - begun
        for member in members.values():
            member.say(settled=True)
        results = {site: member.hear("result", PATIENCE_S) for site, member in members.items()}
        for member in members.values():
            member.say(end=True)
        for member in members.values():
            member.wait()
    expected = LOCAL * sent
    delivered = sum(result["delivered"] for result in results.values())
    assert delivered == expected, f"{delivered} deliveries of {expected}"
    busiest = max(results, key=lambda site: float(results[site]["cpu_s"]))
    cpu_s = results[busiest]["cpu_s"]
    return {
        "protocol": protocol, "builder": builder, "sent": sent, "per_s": round(sent / took),
        "cpu_us": round(sum(r["cpu_s"] for r in results.values()) / sent * 1e6, 1),
        "busiest": busiest, "busiest_us": round(cpu_s / sent * 1e6, 1),
        "median_us": round(median(r["cpu_s"] for r in results.values()) / sent * 1e6, 1),
        "by_site": {s: round(r["cpu_s"] / sent * 1e6, 1) for s, r in results.items()},
        "could": round(sent / cpu_s),
        "p50_ms": round(max(r["p50_ms"] for r in results.values()), 2),
    }  # fmt: skip


def delivered_by(members: dict[str, SiteProcess]) -> int:
    """What all sites have delivered so far."""
    for member in members.values():
        member.say(settled=False)
    return sum(member.hear("delivered", PATIENCE_S) for member in members.values())


def measure(
    sites: int, number: int, protocols: Sequence[str], rate: float, seconds: float
) -> list[dict[str, Any]]:
    groups = local_groups(sites, number)
    table = GroupTable.of(groups)
    builders = {
        option.builder
        for objective in ("delay", "load")
        for option in advise_protocol(advise(table, objective=objective), table).options
        if option.protocol in protocols
    }
    # Builders of a cluster file build for delay. Of those that then build the same, one is run.
    plans: list[Plan] = []
    for builder in sorted(builders, reverse=True):
        plan = advise(table, builder, partitioner="builtin")
        if all(plan.forest.parent != other.forest.parent for other in plans):
            plans.append(plan)
    chosen = {  # the highest load that the planner expects
        (option.protocol, option.builder): option.values.load
        for plan in plans
        for option in advise_protocol(plan, table, plan.chosen.builder).options
        if option.protocol in protocols
    }
    rows = []
    for (protocol, builder), load in sorted(chosen.items(), reverse=True):
        row = run(groups, protocol, builder, rate, seconds)
        rows.append({"sites": sites, "groups": number, **row, "estimated_load": round(load, 1)})
        print(".", end="", file=sys.stderr, flush=True)
    best = min(rows, key=lambda row: float(row["busiest_us"]))
    estimated = min(rows, key=lambda row: float(row["estimated_load"]))
    return [{**row, "named": best is estimated} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--shapes", nargs="*", default=["9x8", "20x40", "60x200"])
    parser.add_argument("--protocols", nargs="*", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument("--rate", type=float, default=200.0, help="messages per second of all")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = []
    for shape in args.shapes:
        sites, groups = map(int, shape.split("x"))
        rows += measure(sites, groups, args.protocols, args.rate, args.seconds)
    print(file=sys.stderr)
    if args.json:
        print(json.dumps(rows, indent=2))
        return
    names = [name for name in rows[0] if name != "by_site"]  # JSON has it
    print("  ".join(names))
    for row in rows:
        print("  ".join(str(row[name]) for name in names))


if __name__ == "__main__":
    main()
