"""A bank with two main computers, as in Garcia-Molina and Spauster (1988), section 1.

Both main computers hold every account; branches send them deposits, withdrawals and transfers. A
development machine sends new tables of charges, which it shares with the main computers: a second
group, overlapping the first. What an operation does depends on those before it: a withdrawal ahead
of a deposit overdraws the account, and the penalty is that of the table in force. So the main
computers stay equal only if both take everything in one order, whichever group it was sent to.

Every machine is a process. Half-way a branch and one of the main computers are killed; the other
goes on without it. When both are back, the machine that manages the cluster is killed: whichever
it is, another takes its place. Then the same operations are sent again without ordercast, over
plain connections (bank_unordered.py): nothing is lost, each sender's operations arrive in its
order, a branch is killed, and still the books come apart.

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
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeAlias

import ordercast
from workers import Workers, ending, orders, say, workers, write_cluster

MAINS = ("main1", "main2")
BRANCHES = ("branch1", "branch2", "branch3")
DEVELOPMENT = "development"
SITES = (*MAINS, *BRANCHES, DEVELOPMENT)
GROUPS = {"accounts": MAINS, "charges": (*MAINS, DEVELOPMENT)}

KILLED = "branch2"
LOST = "main2"
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


async def main_computer(
    source: AsyncIterator[Operation], operations: int, books: Books | None = None
) -> None:
    """Take operations until all have come, and report the books."""
    books = books or Books()
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
        books = Books()
        # Until the example closes our input: others still need this site.
        answering = asyncio.create_task(_answer(node, told, books))
        if site in MAINS:
            await main_computer(_delivered(node), operations, books)
        else:
            mine = operations_of(site, operations, seed)
            await _send(node, site, folder / f"{site}.sent", mine, go["until"])
        if site == DEVELOPMENT:
            await _last_table(node, mine)
        await answering


async def _answer(node: ordercast.Node, told: AsyncIterator[dict[str, Any]], books: Books) -> None:
    """How this site sees the cluster, whenever the example asks."""
    async for _ in told:
        status = await node.status()
        seen = {name: status[name] for name in ("manager", "excluded", "standing")}
        say(seen={**seen, "applied": books.applied})


async def _delivered(node: ordercast.Node) -> AsyncIterator[Operation]:
    """From the first position: a main computer that restarts makes its books anew."""
    async for item in node.deliveries(start=1):
        if isinstance(item, ordercast.Delivery):  # else an epoch opens; at "safe" that is all
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
            await wait_for_the_end(done)
        beside = journal.with_suffix(".new")
        beside.write_text(str(done))
        beside.replace(journal)
        await pause(site)
    await node.flush("stable")
    say(done=done)


async def wait_for_the_end(done: int) -> None:
    say(sent=done)
    await asyncio.Event().wait()


async def pause(site: str) -> None:
    """New tables are rare: spread them over the run."""
    if site == DEVELOPMENT:
        await asyncio.sleep(0.02)


async def _last_table(node: ordercast.Node, mine: list[Operation]) -> None:
    async for operation in _delivered(node):
        if operation["n"] == len(mine):
            say(table={name: operation[name] for name in ("overdraft", "transfer")})
            return


# --- the example ----------------------------------------------------------------------------------


async def run_bank(operations: int, seed: int, *, ordered: bool) -> dict[str, Any]:
    """Run all machines until both main computers have everything; some are killed half-way."""
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
            again = {"ports": ports, "until": operations + 1}
            await running[KILLED].kill()
            survived = await _lose(running, again) if ordered else {}
            if not ordered:
                await asyncio.sleep(DOWN_S)
                await _restart(running, KILLED, again)
            books = await running.all("books", MAINS)
            seconds = time.monotonic() - begun
            await running.all("done", (*BRANCHES, DEVELOPMENT))
            tables = await running.all("table", [DEVELOPMENT]) if ordered else {}
    found = {**compared(books, tables), "killed_after": killed_after, **survived}
    return {**found, "seconds": round(seconds, 2)}


async def _restart(running: Workers, site: str, told: dict[str, Any]) -> None:
    await running.start(site)
    await running[site].hears("ready")
    running[site].tell(**told)


async def _lose(running: Workers, told: dict[str, Any]) -> dict[str, Any]:
    """A branch is down. Lose a main computer for a while, and then the manager."""
    await running[LOST].kill()
    begun = await _sees(running, "main1", lambda seen: LOST in seen["excluded"])
    await _restart(running, KILLED, told)
    await asyncio.sleep(DOWN_S)
    alone = await _sees(running, "main1", lambda seen: seen["manager"] is not None)
    await _restart(running, LOST, told)
    whole = await _sees(running, LOST, lambda seen: seen["standing"] == "present")
    manager = whole["manager"]
    await running[manager].kill()
    other = next(main for main in MAINS if main != manager)
    after = await _sees(running, other, lambda seen: seen["manager"] not in (None, manager))
    await _restart(running, manager, told)
    return {
        "applied_alone": alone["applied"] - begun["applied"],
        "managers": [manager, after["manager"]],
    }


async def _sees(
    running: Workers, site: str, wanted: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    """Ask a site again and again how it sees the cluster."""
    while True:
        running[site].tell(ask=True)
        seen: dict[str, Any] = await running[site].hears("seen")
        if wanted(seen):
            return seen
        await asyncio.sleep(0.05)


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
        " operations, and restarted)"
    ]
    if "managers" in found:
        before, after = found["managers"]
        lines.append(
            f"  {LOST} was killed too: main1 took {found['applied_alone']:,} operations without it;"
            f" then the manager, {before}: {after} took its place; both came back"
        )
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
            from bank_unordered import unordered_site

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
