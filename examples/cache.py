"""Caches kept coherent by pushing updates, the use that Herlihy, Tirthapura and Wattenhofer (2000)
name first for ordered multicast.

Every cache holds the keys of the topics it subscribes to, and topics overlap: no two caches hold
the same set. Any cache may write any key it holds: the write is pushed to all subscribers of the
topic, and done when it has come back in its place. A conditional write takes effect only if the
key still has the value that its writer saw. Every cache decides that for itself, and must decide
alike. A read may ask to be fresh: it then sees every write that was done before it began, anywhere.

Checked at the end: no two caches saw two writes in different orders, all orders together have no
cycle, no condition was decided differently, equal values, and no read was stale. Then the same
writes are pushed over plain connections, to show what the order is for.

    python examples/cache.py
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from bisect import bisect, insort
from collections.abc import AsyncIterator, Callable, Coroutine
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import ordercast
from workers import Workers, ending, orders, say, workers, write_cluster

TOPICS = {
    "prices": ("cache1", "cache2", "cache3"),
    "stock": ("cache2", "cache3", "cache4"),
    "users": ("cache1", "cache3", "cache4"),
    "offers": ("cache1", "cache2", "cache4"),
}
CACHES = ("cache1", "cache2", "cache3", "cache4")
KEYS = 5  # of each topic
CONDITIONAL = 0.4  # of the writes
TOLD = 10  # one write in so many is told to another cache, which reads the key afresh
AT_ONCE = 4  # writes under way at a cache

Update: TypeAlias = dict[str, Any]
Push: TypeAlias = Callable[[str, Update], Coroutine[Any, Any, None]]


class Cache:
    """The copies at one site, and everything that happened to them, in order."""

    def __init__(self, site: str, push: Push) -> None:
        self.site = site
        self.topics = [topic for topic, subscribers in TOPICS.items() if site in subscribers]
        self.values: dict[str, str] = {}  # key: the id of the write that its value comes from
        self.log: list[str] = []  # ids of writes as they came
        self.refused: list[str] = []  # of those, whose condition did not hold
        self.written = dict.fromkeys(TOPICS, 0)
        self.reads = 0  # fresh ones
        self.stale = 0  # of those
        self._push = push
        self._place: dict[str, int] = {}
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def take(self, update: Update) -> None:
        """An update has come, from this cache or another."""
        name, key = update["id"], update["key"]
        if key is not None:
            self._place[name] = len(self.log)
            self.log.append(name)
            if update["if"] not in ("any", self.values.get(key)):
                self.refused.append(name)
            else:
                self.values[key] = name
        waiting = self._waiting.pop(name, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def write(self, topic: str, key: str, name: str, *, conditional: bool) -> None:
        """Push a write, and return when it is in its place here."""
        self.written[topic] += 1
        condition = self.values.get(key) if conditional else "any"
        await self._come_back(topic, {"id": name, "key": key, "if": condition})

    async def read_fresh(self, topic: str, name: str, key: str, done: str) -> None:
        """Read after an empty update has come back: all that was done before it is here then."""
        await self._come_back(topic, {"id": name, "key": None})
        self.reads += 1
        read = self.values.get(key)
        if read is None or done not in self._place or self._place[read] < self._place[done]:
            self.stale += 1

    async def _come_back(self, topic: str, update: Update) -> None:
        back: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[update["id"]] = back
        await self._push(topic, update)
        await back

    def as_json(self) -> dict[str, Any]:
        names = ("values", "log", "refused", "reads", "stale")
        return {name: getattr(self, name) for name in names}


# --- a cache's work, whichever way updates travel -------------------------------------------------


async def work(cache: Cache, told: AsyncIterator[dict[str, Any]], writes: int, seed: int) -> None:
    """Write and read until the example says how much must have come, and report."""
    await anext(told)
    expected = 0
    async with asyncio.TaskGroup() as group:
        group.create_task(_write_all(cache, writes, seed))
        async for order in told:
            if "expect" in order:
                expected = order["expect"]
                break
            topic, key, done = order["written"]  # by another cache, where it is done
            group.create_task(cache.read_fresh(topic, f"{cache.site}-reads-{done}", key, done))
    while len(cache.log) < expected:
        await asyncio.sleep(0.01)
    say(cache=cache.as_json())
    async for _ in told:  # until the example closes our input: others still need this site
        pass


async def _write_all(cache: Cache, writes: int, seed: int) -> None:
    chance = random.Random(f"{seed}/{cache.site}")
    under_way = asyncio.Semaphore(AT_ONCE)

    async def one(number: int, topic: str, key: str, conditional: bool) -> None:
        name = f"{cache.site}-{number}"
        try:
            await cache.write(topic, key, name, conditional=conditional)
        finally:
            under_way.release()
        if number % TOLD == 0 and name not in cache.refused:
            say(written=[topic, key, name])

    async with asyncio.TaskGroup() as group:
        for number in range(1, writes + 1):
            await under_way.acquire()
            topic = chance.choice(cache.topics)
            key = f"{topic}{chance.randrange(KEYS)}"
            group.create_task(one(number, topic, key, chance.random() < CONDITIONAL))
    say(written=None)
    say(counts=cache.written)


# --- with ordercast -------------------------------------------------------------------------------


async def ordered_cache(site: str, folder: Path, writes: int, seed: int) -> None:
    async with ordercast.Node.open(folder / "cache.toml", site=site, dir=folder) as node:

        async def push(topic: str, update: Update) -> None:
            await node.multicast(topic, json.dumps(update).encode())

        async def take() -> None:
            async for item in node.deliveries(start=1):
                assert isinstance(item, ordercast.Delivery)  # no gaps: slow members are waited for
                cache.take(json.loads(item.payload))

        cache = Cache(site, push)
        taking = asyncio.create_task(take())
        told = orders()
        say(ready=True)
        await work(cache, told, writes, seed)
        taking.cancel()


# --- without --------------------------------------------------------------------------------------


async def unordered_cache(site: str, writes: int, seed: int) -> None:
    """A connection to every other cache; an update counts as come when it comes, here at once."""
    others: dict[str, asyncio.StreamWriter] = {}

    async def push(topic: str, update: Update) -> None:
        line = json.dumps(update).encode() + b"\n"
        for other in TOPICS[topic]:
            if other != site:
                others[other].write(line)
        cache.take(update)
        await asyncio.gather(*(others[other].drain() for other in TOPICS[topic] if other != site))

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        incoming.add(writer)
        while line := await reader.readline():
            cache.take(json.loads(line))
        incoming.remove(writer)

    incoming: set[asyncio.StreamWriter] = set()
    cache = Cache(site, push)
    told = orders()
    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server:
        say(ready=server.sockets[0].getsockname()[1])
        for other, port in (await anext(told))["ports"].items():
            if other != site:
                _, others[other] = await asyncio.open_connection("127.0.0.1", port)
        say(connected=True)
        await work(cache, told, writes, seed)
        for writer in others.values():
            writer.close()
        while incoming:  # the others close theirs
            await asyncio.sleep(0.01)


# --- the example ----------------------------------------------------------------------------------


async def run_caches(writes: int, seed: int, *, ordered: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="cache-") as name:
        folder = Path(name)
        write_cluster(folder / "cache.toml", "cache", CACHES, TOPICS)
        mode = "ordered" if ordered else "unordered"
        common = [str(folder), str(writes // len(CACHES)), str(seed)]
        commands = {site: ["--worker", mode, site, *common] for site in CACHES}
        async with workers(__file__, commands) as running:
            if not ordered:
                for worker in running.by_name.values():
                    worker.tell(ports=running.ready)
                await running.all("connected")
            begun = time.monotonic()
            for worker in running.by_name.values():
                worker.tell(go=True)
            await asyncio.gather(*(_pass_on(running, site, seed) for site in CACHES))
            counts = await running.all("counts")
            for site, worker in running.by_name.items():
                held = [topic for topic, subscribers in TOPICS.items() if site in subscribers]
                worker.tell(expect=sum(has[topic] for has in counts.values() for topic in held))
            found = await running.all("cache")
            seconds = time.monotonic() - begun
    return {**judged(found), "seconds": round(seconds, 2)}


async def _pass_on(running: Workers, site: str, seed: int) -> None:
    """Tell another subscriber what this cache has written: a word outside of all the pushing."""
    chance = random.Random(f"{seed}/{site}/told")
    while (written := await running[site].hears("written")) is not None:
        other = chance.choice([cache for cache in TOPICS[written[0]] if cache != site])
        running[other].tell(written=written)


# --- the verdict ----------------------------------------------------------------------------------


def judged(caches: dict[str, Any]) -> dict[str, Any]:
    """Everything that must not differ between two caches, counted."""
    swapped = {
        f"{one}, {other}": inversions(caches[one]["log"], caches[other]["log"])
        for one, other in combinations(CACHES, 2)
    }
    found = {
        "swapped_pairs": sum(swapped.values()),
        "caches_that_disagree": [pair for pair, count in swapped.items() if count],
        "acyclic": acyclic([cache["log"] for cache in caches.values()]),
        "decided_differently": _decided_differently(caches),
        "keys_that_differ": sum(len(values) > 1 for values in _values(caches).values()),
        "stale_reads": sum(cache["stale"] for cache in caches.values()),
    }
    bad = any(value for name, value in found.items() if name != "acyclic")
    return {
        "coherent": found["acyclic"] and not bad,
        **found,
        "writes": len({write for cache in caches.values() for write in cache["log"]}),
        "keys": len(_values(caches)),
        "reads": sum(cache["reads"] for cache in caches.values()),
    }


def inversions(one: list[str], other: list[str]) -> int:
    """Pairs of writes that both caches saw, in different orders."""
    place = {write: index for index, write in enumerate(one)}
    seen: list[int] = []
    count = 0
    for write in other:
        if write in place:
            count += len(seen) - bisect(seen, place[write])
            insort(seen, place[write])
    return count


def acyclic(logs: list[list[str]]) -> bool:
    """Whether some single order contains all the caches' orders."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for log in logs:
        for before, after in pairwise(log):
            sorter.add(after, before)
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True


def _decided_differently(caches: dict[str, Any]) -> int:
    verdicts: dict[str, set[bool]] = {}
    for cache in caches.values():
        refused = set(cache["refused"])
        for write in cache["log"]:
            verdicts.setdefault(write, set()).add(write in refused)
    return sum(len(found) > 1 for found in verdicts.values())


def _values(caches: dict[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for cache in caches.values():
        for key, value in cache["values"].items():
            found.setdefault(key, set()).add(value)
    return found


def told_of(mode: str, found: dict[str, Any]) -> str:
    disagree = found["caches_that_disagree"]
    pairs = len(list(combinations(CACHES, 2)))
    return "\n".join(
        [
            f"{mode} ({found['seconds']:.1f} s)",
            f"  pairs of writes seen in different orders   {found['swapped_pairs']:,}"
            f" ({len(disagree)} of {pairs} pairs of caches disagree)",
            f"  one order that contains them all           {'yes' if found['acyclic'] else 'NO'}",
            f"  conditions decided differently             {found['decided_differently']:,}",
            f"  keys with different values at the end      {found['keys_that_differ']}"
            f" of {found['keys']}",
            f"  fresh reads that missed a finished write   {found['stale_reads']}"
            f" of {found['reads']}",
            f"  {'coherent' if found['coherent'] else 'NOT COHERENT'}",
        ]
    )


def example(writes: int, seed: int, *, only: str | None, as_json: bool) -> int:
    found: dict[str, Any] = {"writes": writes, "seed": seed}
    if not as_json:
        print(
            f"{writes:,} writes from {len(CACHES)} caches to {len(TOPICS)} topics of {KEYS} keys,"
            f" seed {seed}; every cache subscribes to three topics, no two to the same"
        )
    for mode in (only,) if only else ("ordered", "unordered"):
        found[mode] = asyncio.run(run_caches(writes, seed, ordered=mode == "ordered"))
        if not as_json:
            print("\n" + told_of(mode, found[mode]), flush=True)
    found["ok"] = found[only or "ordered"]["coherent"]
    if as_json:
        print(json.dumps(found, indent=2))
    return 0 if found["ok"] else 1


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        mode, site, folder, writes, seed = sys.argv[2:]
        if mode == "ordered":
            asyncio.run(ordered_cache(site, Path(folder), int(writes), int(seed)))
        else:
            asyncio.run(unordered_cache(site, int(writes), int(seed)))
        return 0
    parser = argparse.ArgumentParser(description="Caches kept coherent by pushing updates.")
    parser.add_argument("--writes", metavar="N", type=int, default=4_000)
    parser.add_argument("--seed", metavar="S", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--ordered", action="store_true", help="only with ordercast")
    alone.add_argument("--unordered", action="store_true", help="only without: exit code 1")
    args = parser.parse_args()
    if args.writes < len(CACHES):
        parser.error(f"--writes: {args.writes} is too small ({len(CACHES)} or more)")
    only = "ordered" if args.ordered else "unordered" if args.unordered else None
    return ending(lambda: example(args.writes, args.seed, only=only, as_json=args.json))


if __name__ == "__main__":
    sys.exit(main())
