"""A replicated key-value store on `ordercast.Replica`: set, get, delete and compare-and-set.

Three processes hold the whole store. Each sets and deletes keys of its own, and all of them count
up the same few counters by compare-and-set from whatever value they see: of those who saw the same
one, only the first in the order wins, and every replica must decide that alike. So in the end a
counter is as high as the number of attempts that won, and the stores are equal.

Replicas keep snapshots. One is killed with SIGKILL half-way, in the middle of its commands, and
restarted: it restores the last snapshot, applies what came after it, asks the store itself how far
it had come, and goes on from there.

    python examples/kv.py
"""

import argparse
import asyncio
import hashlib
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import ordercast
from workers import ending, orders, say, workers, write_cluster

SITES = ("east", "north", "south")
GROUPS = {"store": SITES}
KILLED = "north"
DOWN_S = 0.5
KEYS = 10  # of each site
COUNTERS = [f"counter {n}" for n in range(3)]  # of all
AT_ONCE = 10  # commands that a site has under way
SNAPSHOT_EVERY = 150  # messages

Command: TypeAlias = dict[str, Any]


# --- the store ------------------------------------------------------------------------------------


class OutOfTurn(Exception):
    """A command that is not the next of its site: one was lost, doubled or overtaken."""


class Store:
    """Deterministic: the same commands in the same order give the same store, the same results."""

    def __init__(self) -> None:
        self.items: dict[str, Any] = {}
        self.taken: Counter[str] = Counter()  # by site: its commands up to this number
        self.won: Counter[str] = Counter()  # by site: its compare-and-sets that were done
        self.lost: Counter[str] = Counter()
        self.decided = ""  # a digest of all commands and their results, in order
        self.calls = 0  # in the life of this process

    def apply(self, command: bytes, _: ordercast.Delivery) -> bool:
        """Whether it changed anything."""
        self.calls += 1
        asked: Command = json.loads(command)
        site = asked["from"]
        if asked["n"] != self.taken[site] + 1:
            raise OutOfTurn(f"{site}: {asked['n']} came after {self.taken[site]}")
        self.taken[site] += 1
        done = self._do(asked)
        if asked["do"] == "compare-and-set":
            (self.won if done else self.lost)[site] += 1
        step = f"{self.decided}{command.decode()}{done}"
        self.decided = hashlib.sha256(step.encode()).hexdigest()
        return done

    def _do(self, asked: Command) -> bool:
        key = asked["key"]
        if asked["do"] == "delete":
            return self.items.pop(key, None) is not None
        if asked["do"] == "compare-and-set" and self.items.get(key) != asked["expected"]:
            return False
        self.items[key] = asked["value"]
        return True

    def snapshot(self) -> bytes:
        return json.dumps(
            [self.items, self.taken, self.won, self.lost, self.decided], sort_keys=True
        ).encode()

    def restore(self, state: bytes) -> None:
        self.items, *counts, self.decided = json.loads(state)
        self.taken, self.won, self.lost = (Counter(found) for found in counts)


# --- a site ---------------------------------------------------------------------------------------


async def replica_site(site: str, folder: Path, operations: int, seed: int) -> None:
    store = Store()
    async with (
        ordercast.Node.open(folder / "kv.toml", site=site, dir=folder) as node,
        ordercast.Replica(
            node, "store", store.apply,
            snapshot=store.snapshot, restore=store.restore, path=folder / f"{site}.state",
            every=SNAPSHOT_EVERY,
        ) as replica,
    ):  # fmt: skip
        restored = replica.position
        told = orders()
        say(ready=True)
        await anext(told)
        found = await work(replica, store, site, share_of(site, operations), seed)
        while store.taken.total() < operations:
            await replica.reach(replica.position + 1)
        found |= {"restored": restored, "applied": store.calls, "items": store.items}
        found |= {"won": store.won, "lost": store.lost, "decided": store.decided}
        say(found=found)
        async for _ in told:  # until the example closes our input: others still need this site
            pass


async def work(
    replica: ordercast.Replica[bool], store: Store, site: str, share: int, seed: int
) -> dict[str, Any]:
    """Do what of the site's share is not done, also by an earlier life of this process."""
    # A read is ordered behind all that this site ever sent: none of it can come later.
    done, mine = await replica.read(lambda: (store.taken[site], own(store, site)))
    begun, won, reads, stale = done, 0, 0, 0
    chance = random.Random(f"{seed}/{site}/{done}")
    while done < share:
        part = [
            _command(site, n, store, chance)
            for n in range(done + 1, min(done + AT_ONCE, share) + 1)
        ]
        results = await asyncio.gather(
            *(replica.submit(json.dumps(asked).encode()) for asked in part)
        )
        done += len(part)
        for asked, result in zip(part, results, strict=True):
            if asked["do"] == "set":
                mine[asked["key"]] = asked["value"]
            elif asked["do"] == "delete":
                mine.pop(asked["key"], None)
            else:
                won += result
        reads += 1
        stale += await replica.read(lambda: own(store, site)) != mine
        if done - len(part) < share // 2 <= done:
            say(half=done)
    return {"begun": begun, "counted": won, "reads": reads, "stale": stale}


def _command(site: str, n: int, store: Store, chance: random.Random) -> Command:
    do = chance.choices(("set", "delete", "compare-and-set"), (45, 15, 40))[0]
    asked = {"from": site, "n": n, "do": do}
    if do == "compare-and-set":
        key = chance.choice(COUNTERS)
        seen = store.items.get(key)  # as it is here and now: others may be ahead
        return {**asked, "key": key, "expected": seen, "value": (seen or 0) + 1}
    asked["key"] = f"{site} {chance.randrange(KEYS)}"
    return {**asked, "value": chance.randrange(1_000_000)} if do == "set" else asked


def own(store: Store, site: str) -> dict[str, Any]:
    return {key: value for key, value in store.items.items() if key.startswith(f"{site} ")}


def share_of(site: str, operations: int) -> int:
    share, rest = divmod(operations, len(SITES))
    return share + (SITES.index(site) < rest)


# --- the example ----------------------------------------------------------------------------------


async def run_store(operations: int, seed: int) -> dict[str, Any]:
    """Run all replicas until each has everything, with one killed half-way."""
    with tempfile.TemporaryDirectory(prefix="kv-") as name:
        folder = Path(name)
        write_cluster(folder / "kv.toml", "kv", SITES, GROUPS)
        common = [str(folder), str(operations), str(seed)]
        commands = {site: ["--worker", site, *common] for site in SITES}
        async with workers(__file__, commands) as running:
            begun = time.monotonic()
            for worker in running.by_name.values():
                worker.tell(go=True)
            killed_after = await running[KILLED].hears("half")
            await asyncio.sleep(random.Random(seed).uniform(0, 0.03))  # whatever it does then
            await running[KILLED].kill()
            await asyncio.sleep(DOWN_S)
            await running.start(KILLED)
            await running[KILLED].hears("ready")
            running[KILLED].tell(go=True)
            found = await running.all("found", SITES)
            seconds = time.monotonic() - begun
    return {**judged(found), "killed_after": killed_after, "seconds": round(seconds, 2)}


def judged(found: dict[str, Any]) -> dict[str, Any]:
    """What must be equal, and what must add up."""
    first = found[SITES[0]]
    shared = ("items", "won", "lost", "decided")
    differ = [name for name in shared if any(has[name] != first[name] for has in found.values())]
    counted = sum(first["items"].get(key, 0) for key in COUNTERS)
    won, lost = (sum(first[name].values()) for name in ("won", "lost"))
    # What a site was told of its attempts; a killed one does not remember all of it.
    told = {site: has["counted"] for site, has in found.items() if site != KILLED}
    wrong_results = [site for site, count in told.items() if count != first["won"].get(site, 0)]
    stale = sum(has["stale"] for has in found.values())
    names = ("restored", "applied", "begun", "reads")
    return {
        "equal": not differ,
        "differ": differ,
        "counted": counted,
        "won": won,
        "lost": lost,
        "wrong_results": wrong_results,
        "stale_reads": stale,
        "ok": not differ and not wrong_results and not stale and counted == won,
        "replicas": {site: {name: has[name] for name in names} for site, has in found.items()},
    }


def told(found: dict[str, Any]) -> str:
    has = found["replicas"][KILLED]
    reads = sum(replica["reads"] for replica in found["replicas"].values())
    alike = "equal" if found["equal"] else f"DIFFERENT ({', '.join(found['differ'])})"
    told = "all" if not found["wrong_results"] else "NOT ALL"
    return "\n".join(
        [
            f"{KILLED} was killed at about its command {found['killed_after']:,}; its next life"
            f" restored a snapshot of position {has['restored']:,}",
            f"  and went on behind its command {has['begun']:,}, applying {has['applied']:,}",
            f"compare-and-set: {found['won']:,} won, {found['lost']:,} lost; the counters stand at"
            f" {found['counted']:,}; {told} results were as decided",
            f"get: {reads:,} reads, {found['stale_reads']} stale",
            f"the {len(SITES)} stores, and all decisions in their order: {alike}"
            f" ({found['seconds']:.1f} s)",
        ]
    )


def example(operations: int, seed: int, *, as_json: bool) -> int:
    if not as_json:
        print(f"{operations:,} commands from {len(SITES)} replicas, seed {seed}", flush=True)
    found = {"operations": operations, "seed": seed, **asyncio.run(run_store(operations, seed))}
    print(json.dumps(found, indent=2) if as_json else told(found))
    return 0 if found["ok"] else 1


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        site, folder, operations, seed = sys.argv[2:]
        # That a killed replica cannot be reached is no news here.
        logging.getLogger("ordercast").setLevel(logging.ERROR)
        asyncio.run(replica_site(site, Path(folder), int(operations), int(seed)))
        return 0
    parser = argparse.ArgumentParser(description="A replicated key-value store.")
    parser.add_argument("--operations", metavar="N", type=int, default=10_000)
    parser.add_argument("--seed", metavar="S", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    args = parser.parse_args()
    if args.operations < 600:
        parser.error(
            f"--operations: {args.operations} is too small to kill a replica half-way (600)"
        )
    return ending(lambda: example(args.operations, args.seed, as_json=args.json))


if __name__ == "__main__":
    sys.exit(main())
