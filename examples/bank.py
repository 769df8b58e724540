"""A bank with two main computers, as in Garcia-Molina and Spauster (1988), section 1.

Both main computers hold every account; branches send them deposits, withdrawals and transfers. A
development machine sends new tables of charges, which it shares with the main computers: a second
group, overlapping the first. What an operation does depends on those before it: a withdrawal ahead
of a deposit overdraws the account, and the penalty is that of the table in force. So the main
computers stay equal only if both take everything in one order, whichever group it was sent to.

Every machine is a process; one branch is killed half-way and restarted. Then the same operations
are sent again without ordercast, over plain connections from every sender to every main computer:
nothing is lost, each sender's operations arrive in its order, and still the books come apart.

    python examples/bank.py
"""

import argparse
import asyncio
import json
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeAlias

import ordercast
from workers import ending, orders, say, workers, write_cluster

MAINS = ("main1", "main2")
BRANCHES = ("branch1", "branch2", "branch3")
DEVELOPMENT = "development"
SITES = (*MAINS, *BRANCHES, DEVELOPMENT)
GROUPS = {"accounts": MAINS, "charges": (*MAINS, DEVELOPMENT)}

KILLED = "branch2"
DOWN_S = 0.5
ACCOUNTS = 40
TABLES = 50  # one operation in so many is a new table of charges
AT_ONCE = 10  # operations that a branch sends before it waits until they are accepted

Operation: TypeAlias = dict[str, Any]


# --- what is sent ---------------------------------------------------------------------------------


def operations_of(sender: str, operations: int, seed: int) -> list[Operation]:
    """Everything a sender will ever send, the same in every process and in both runs."""
    tables = max(1, operations // TABLES)
    if sender == DEVELOPMENT:
        count = tables
    else:
        share, rest = divmod(operations - tables, len(BRANCHES))
        count = share + (BRANCHES.index(sender) < rest)
    chance = random.Random(f"{seed}/{sender}")
    made = (_operation(sender, chance) for _ in range(count))
    return [{"from": sender, "n": n, **operation} for n, operation in enumerate(made, 1)]


def _operation(sender: str, chance: random.Random) -> Operation:
    if sender == DEVELOPMENT:
        return {
            "do": "table",
            "overdraft": chance.randrange(500, 5000),
            "transfer": chance.randrange(10, 100),
        }
    do = chance.choices(("deposit", "withdrawal", "transfer"), (45, 40, 15))[0]
    account, other = chance.sample(range(ACCOUNTS), 2)
    found = {"do": do, "account": account, "cents": chance.randrange(100, 50_000)}
    return {**found, "to": other} if do == "transfer" else found


# --- a main computer ------------------------------------------------------------------------------


class Books:
    """The whole bank. Deterministic: the same operations in the same order give the same books."""

    def __init__(self) -> None:
        self.balance = [0] * ACCOUNTS
        self.penalties = [0] * ACCOUNTS
        self.table = {"overdraft": 1000, "transfer": 25}
        self.taken: Counter[str] = Counter()  # by sender: its operations up to this number
        self.repeated = 0
        self.applied = 0

    def apply(self, operation: Operation) -> None:
        sender, n = operation["from"], operation["n"]
        if n <= self.taken[sender]:
            self.repeated += 1  # a restarted branch sends again what it is not sure of
            return
        if n != self.taken[sender] + 1:
            raise RuntimeError(f"{sender}: {n} came after {self.taken[sender]}")
        self.taken[sender] = n
        self.applied += 1
        do = operation["do"]
        if do == "table":
            self.table = {name: operation[name] for name in self.table}
        elif do == "deposit":
            self.balance[operation["account"]] += operation["cents"]
        elif do == "withdrawal":
            self._withdraw(operation["account"], operation["cents"])
        else:
            self._withdraw(operation["account"], operation["cents"] + self.table["transfer"])
            self.balance[operation["to"]] += operation["cents"]

    def _withdraw(self, account: int, cents: int) -> None:
        self.balance[account] -= cents
        if self.balance[account] < 0:
            self.balance[account] -= self.table["overdraft"]
            self.penalties[account] += self.table["overdraft"]

    def as_json(self) -> dict[str, Any]:
        names = ("balance", "penalties", "table", "repeated", "applied")
        return {name: getattr(self, name) for name in names}


async def main_computer(source: AsyncIterator[Operation], operations: int) -> None:
    """Take operations until all have come, and report the books."""
    books = Books()
    async for operation in source:
        books.apply(operation)
        if books.applied == operations:
            break
    say(books=books.as_json())


# --- with ordercast -------------------------------------------------------------------------------


async def ordered_site(site: str, folder: Path, operations: int, seed: int) -> None:
    async with ordercast.Node.open(folder / "bank.toml", site=site, dir=folder) as node:
        told = orders()
        say(ready=True)
        go = await anext(told)
        if site in MAINS:
            await main_computer(_delivered(node), operations)
        else:
            mine = operations_of(site, operations, seed)
            await _send(node, site, folder / f"{site}.sent", mine, go["until"])
        if site == DEVELOPMENT:
            await _last_table(node, mine)
        async for _ in told:  # until the example closes our input: others still need this site
            pass


async def _delivered(node: ordercast.Node) -> AsyncIterator[Operation]:
    """From the first position: a main computer that restarts makes its books anew."""
    async for item in node.deliveries(start=1):
        assert isinstance(item, ordercast.Delivery)  # no gaps: slow members are waited for
        yield json.loads(item.payload)


async def _send(
    node: ordercast.Node, site: str, journal: Path, mine: list[Operation], until: int
) -> None:
    """Send what the journal does not have yet; `until`: then wait to be killed."""
    done = int(journal.read_text()) if journal.exists() else 0
    group = "charges" if site == DEVELOPMENT else "accounts"
    while done < len(mine):
        for operation in mine[done : done + AT_ONCE]:
            receipt = await node.multicast(group, json.dumps(operation).encode())
        await receipt.accepted()
        done = min(done + AT_ONCE, len(mine))
        if done >= until:
            # The worst moment: these are durable, and the journal does not say so yet. They are
            # sent again after the restart, and the main computers must notice.
            await _wait_for_the_end(done)
        beside = journal.with_suffix(".new")
        beside.write_text(str(done))
        beside.replace(journal)
        await _pause(site)
    await node.flush("stable")
    say(done=done)


async def _wait_for_the_end(done: int) -> None:
    say(sent=done)
    await asyncio.Event().wait()


async def _pause(site: str) -> None:
    """New tables are rare: spread them over the run."""
    if site == DEVELOPMENT:
        await asyncio.sleep(0.02)


async def _last_table(node: ordercast.Node, mine: list[Operation]) -> None:
    async for operation in _delivered(node):
        if operation["n"] == len(mine):
            say(table={name: operation[name] for name in ("overdraft", "transfer")})
            return


# --- without --------------------------------------------------------------------------------------


async def unordered_site(site: str, operations: int, seed: int) -> None:
    told = orders()
    if site not in MAINS:
        say(ready=True)
        go = await anext(told)
        mine = operations_of(site, operations, seed)
        await _send_plainly(site, mine, go["ports"], go["until"])
        async for _ in told:
            pass
        return
    arrived = Arrivals()
    server = await asyncio.start_server(arrived.connection, "127.0.0.1", 0)
    async with server:
        say(ready=server.sockets[0].getsockname()[1])
        await main_computer(arrived.operations(), operations)
        async for _ in told:
            pass


class Arrivals:
    """A main computer's end of the plain connections: one queue, in order of arrival."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Operation] = asyncio.Queue()
        self._have: Counter[str] = Counter()
        self._locks: dict[str, asyncio.Lock] = {}

    async def operations(self) -> AsyncIterator[Operation]:
        while True:
            yield await self._queue.get()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Says how many it has of this sender, and again after each part that it takes."""
        sender = (await reader.readline()).decode().strip()
        # A restarted sender waits until all of its last connection has been taken.
        async with self._locks.setdefault(sender, asyncio.Lock()):
            try:
                writer.write(f"{self._have[sender]}\n".encode())
                while (line := await reader.readline()).endswith(b"\n"):
                    part: list[Operation] = json.loads(line)
                    for operation in part:
                        self._queue.put_nowait(operation)
                    self._have[sender] += len(part)
                    writer.write(f"{self._have[sender]}\n".encode())
            except ConnectionError:
                pass  # the sender was killed
            finally:
                writer.close()


async def _send_plainly(site: str, mine: list[Operation], ports: list[int], until: int) -> None:
    """A stream to each main computer, at the pace of that one."""
    have = [0] * len(ports)
    links = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
    for index, (reader, writer) in enumerate(links):
        writer.write(f"{site}\n".encode())
        have[index] = int(await reader.readline())

    async def stream(index: int) -> None:
        reader, writer = links[index]
        while have[index] < len(mine):
            part = mine[have[index] : have[index] + AT_ONCE]
            writer.write(json.dumps(part).encode() + b"\n")
            have[index] = int(await reader.readline())
            if min(have) >= until:
                await _wait_for_the_end(min(have))
            await _pause(site)
        writer.close()

    await asyncio.gather(*(stream(index) for index in range(len(ports))))
    say(done=len(mine))


# --- the example ----------------------------------------------------------------------------------


async def run_bank(operations: int, seed: int, *, ordered: bool) -> dict[str, Any]:
    """Run all machines until both main computers have everything, with a branch killed half-way."""
    with tempfile.TemporaryDirectory(prefix="bank-") as name:
        folder = Path(name)
        write_cluster(folder / "bank.toml", "bank", SITES, GROUPS)
        mode = "ordered" if ordered else "unordered"
        common = [str(folder), str(operations), str(seed)]
        commands = {site: ["--worker", mode, site, *common] for site in SITES}
        async with workers(__file__, commands) as running:
            begun = time.monotonic()
            half = len(operations_of(KILLED, operations, seed)) // 2
            ports = [running.ready[main] for main in MAINS]
            for name, worker in running.by_name.items():
                worker.tell(ports=ports, until=half if name == KILLED else operations + 1)
            killed_after = await running[KILLED].hears("sent")
            await running[KILLED].kill()
            await asyncio.sleep(DOWN_S)
            await running.start(KILLED)
            await running[KILLED].hears("ready")
            running[KILLED].tell(ports=ports, until=operations + 1)
            books = await running.all("books", MAINS)
            seconds = time.monotonic() - begun
            await running.all("done", (*BRANCHES, DEVELOPMENT))
            tables = await running.all("table", [DEVELOPMENT]) if ordered else {}
    return {**compared(books, tables), "killed_after": killed_after, "seconds": round(seconds, 2)}


def compared(books: dict[str, Any], tables: dict[str, Any]) -> dict[str, Any]:
    """What the main computers have, and on how many accounts they differ."""
    first, second = (books[main] for main in MAINS)
    differ = {
        name: sum(a != b for a, b in zip(first[name], second[name], strict=True))
        for name in ("balance", "penalties")
    }
    mains = {
        main: {
            "operations": found["applied"],
            "repeated": found["repeated"],
            "balance": sum(found["balance"]),
            "penalties": sum(found["penalties"]),
        }
        for main, found in books.items()
    }
    same_tables = all(found["table"] == first["table"] for found in books.values())
    same_tables = same_tables and all(found == first["table"] for found in tables.values())
    equal = not any(differ.values()) and same_tables
    return {"equal": equal, "differ": differ, "same_tables": same_tables, "mains": mains}


def told(mode: str, found: dict[str, Any]) -> str:
    lines = [
        f"{mode} ({found['seconds']:.1f} s; {KILLED} killed after {found['killed_after']:,} of its"
        f" operations, restarted {DOWN_S} s later)"
    ]
    for main, has in found["mains"].items():
        again = f", {has['repeated']} sent twice and ignored" if has["repeated"] else ""
        lines.append(
            f"  {main}   {has['operations']:,} operations{again};"
            f" balances {has['balance'] / 100:,.2f}, penalties {has['penalties'] / 100:,.2f}"
        )
    if found["equal"]:
        lines.append(f"  equal: all {ACCOUNTS} balances, all penalties, the table in force")
    else:
        differ = found["differ"]
        tables = "" if found["same_tables"] else ", and the tables in force"
        lines.append(
            f"  DIFFERENT: {differ['balance']} of {ACCOUNTS} balances, the penalties of"
            f" {differ['penalties']} accounts{tables}"
        )
    return "\n".join(lines)


def example(operations: int, seed: int, *, only: str | None, as_json: bool) -> int:
    found: dict[str, Any] = {"operations": operations, "seed": seed}
    if not as_json:
        print(
            f"{operations:,} operations on {ACCOUNTS} accounts, seed {seed}: {len(BRANCHES)}"
            f" branches and a development machine send to {len(MAINS)} main computers"
        )
    for mode in (only,) if only else ("ordered", "unordered"):
        found[mode] = asyncio.run(run_bank(operations, seed, ordered=mode == "ordered"))
        if not as_json:
            print("\n" + told(mode, found[mode]), flush=True)
    found["ok"] = found[only or "ordered"]["equal"]
    if as_json:
        print(json.dumps(found, indent=2))
    elif not only:
        apart = "came apart" if not found["unordered"]["equal"] else "stayed equal, by luck,"
        kept = "stayed equal" if found["ok"] else "CAME APART"
        print(f"\nThe books {kept} with ordercast, and {apart} without.")
    return 0 if found["ok"] else 1


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        mode, site, folder, operations, seed = sys.argv[2:]
        # That a killed branch cannot be reached is no news here.
        logging.getLogger("ordercast").setLevel(logging.ERROR)
        if mode == "ordered":
            asyncio.run(ordered_site(site, Path(folder), int(operations), int(seed)))
        else:
            asyncio.run(unordered_site(site, int(operations), int(seed)))
        return 0
    parser = argparse.ArgumentParser(description="A bank with two main computers.")
    parser.add_argument("--operations", metavar="N", type=int, default=10_000)
    parser.add_argument("--seed", metavar="S", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="print one JSON object, nothing else")
    alone = parser.add_mutually_exclusive_group()
    alone.add_argument("--ordered", action="store_true", help="only with ordercast")
    alone.add_argument("--unordered", action="store_true", help="only without: exit code 1")
    args = parser.parse_args()
    if args.operations < 200:
        parser.error(
            f"--operations: {args.operations} is too small to kill a branch half-way (200)"
        )
    only = "ordered" if args.ordered else "unordered" if args.unordered else None
    return ending(lambda: example(args.operations, args.seed, only=only, as_json=args.json))


if __name__ == "__main__":
    sys.exit(main())
