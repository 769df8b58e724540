"""A bank with two main computers, as in Garcia-Molina and Spauster (1988), section 1.

Both main computers hold every account; branches send them deposits, withdrawals and transfers. A
development machine sends new tables of charges, which it shares with the main computers: a second
group, overlapping the first. What an operation does depends on those before it: a withdrawal ahead
of a deposit overdraws the account, and the penalty is that of the table in force. So the main
computers stay equal only if both take everything in one order, whichever group it was sent to.

Every machine is a process. Half-way a branch is killed, and while money moves on a third main
computer joins: it is handed the books as they are there. Then one of the first two is killed; the
others go on without it. When both are back, the machine that manages the cluster is killed:
whichever it is, another takes its place. Then the same operations are sent again without
ordercast, over plain connections (bank_unordered.py): nothing is lost, each sender's operations
arrive in its order, a branch is killed, and still the books come apart.

    python examples/bank.py
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import ordercast
from bank_books import (
    ACCOUNTS,
    BRANCHES,
    DEVELOPMENT,
    MAINS,
    Books,
    Operation,
    main_computer,
    operations_of,
)
from ordercast.model.epochs import JoinGroup
from workers import Workers, ending, free_ports, orders, say, workers, write_cluster

SITES = (*MAINS, *BRANCHES, DEVELOPMENT)
GROUPS = {"accounts": MAINS, "charges": (*MAINS, DEVELOPMENT)}

KILLED = "branch2"
JOINS = "main3"
LOST = "main2"
DOWN_S = 0.5
AT_ONCE = 10  # operations that a branch sends before it waits until they are accepted


# --- with ordercast -------------------------------------------------------------------------------


async def ordered_site(site: str, folder: Path, operations: int, seed: int) -> None:
    told = orders()
    books = Books()
    if site == JOINS:  # it opens when it is told where to listen
        say(ready=True)
        go = await anext(told)
        async with _open(site, folder, books, go["address"]) as node:
            await node.change(*(JoinGroup(group, site) for group in GROUPS))
            await main_computer(_delivered(node), operations, books)
            await _answer(node, told, books)
        return
    async with _open(site, folder, books) as node:
        say(ready=True)
        go = await anext(told)
        # Until the example closes our input: others still need this site.
        answering = asyncio.create_task(_answer(node, told, books))
        if site in MAINS:
            await main_computer(_delivered(node, start=1), operations, books)
        else:
            mine = operations_of(site, operations, seed)
            await _send(node, site, folder / f"{site}.sent", mine, go["until"])
        if site == DEVELOPMENT:
            await _last_table(node, mine)
        await answering


def _open(
    site: str, folder: Path, books: Books, address: str = ""
) -> "AbstractAsyncContextManager[ordercast.Node]":
    """Main computers give their books to one that joins: both groups lead to the same ones."""
    hooks: dict[str, Any] = {}
    if site in (*MAINS, JOINS):
        hooks = {"snapshot": lambda _: books.dump(), "restore": lambda _, state: taken(state)}

    def taken(state: bytes) -> None:
        books.load(state)
        say(joined=books.applied)

    return ordercast.Node.open(
        folder / "bank.toml", site=site, dir=folder, address=address, **hooks
    )


async def _answer(node: ordercast.Node, told: AsyncIterator[dict[str, Any]], books: Books) -> None:
    """How this site sees the cluster, whenever the example asks; and admit who is to join."""
    async for asked in told:
        if "admit" in asked:
            await node.add_site(*asked["admit"])
        status = await node.status()
        seen = {name: status[name] for name in ("manager", "excluded", "standing")}
        say(seen={**seen, "applied": books.applied})


async def _delivered(node: ordercast.Node, start: int | None = None) -> AsyncIterator[Operation]:
    """A main computer that restarts makes its books anew, from the first position."""
    async for item in node.deliveries(start=start):
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
    async for operation in _delivered(node, start=1):
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
        sites = (*SITES, JOINS) if ordered else SITES
        commands = {site: ["--worker", mode, site, *common] for site in sites}
        async with workers(__file__, commands) as running:
            begun = time.monotonic()
            half = len(operations_of(KILLED, operations, seed)) // 2
            ports = [running.ready[main] for main in MAINS]
            for name in SITES:
                until = half if name == KILLED else operations + 1
                running[name].tell(ports=ports, until=until)
            killed_after = await running[KILLED].hears("sent")
            again = {"ports": ports, "until": operations + 1}
            await running[KILLED].kill()
            survived = {}
            if ordered:
                survived = {"joined_after": await _join(running), **await _lose(running, again)}
            else:
                await asyncio.sleep(DOWN_S)
                await _restart(running, KILLED, again)
            books = await running.all("books", (*MAINS, JOINS) if ordered else MAINS)
            seconds = time.monotonic() - begun
            await running.all("done", (*BRANCHES, DEVELOPMENT))
            tables = await running.all("table", [DEVELOPMENT]) if ordered else {}
    found = {**compared(books, tables), "killed_after": killed_after, **survived}
    return {**found, "seconds": round(seconds, 2)}


async def _restart(running: Workers, site: str, told: dict[str, Any]) -> None:
    await running.start(site)
    await running[site].hears("ready")
    running[site].tell(**told)


async def _join(running: Workers) -> int:
    """A third main computer; after how many operations it was handed the books."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    running["main1"].tell(admit=[JOINS, address])
    await running["main1"].hears("seen")
    running[JOINS].tell(address=address)
    applied: int = await running[JOINS].hears("joined")
    return applied


async def _lose(running: Workers, told: dict[str, Any]) -> dict[str, Any]:
    """A branch is down. Lose a main computer for a while, and then the manager."""
    await running[LOST].kill()
    begun = await _sees(running, "main1", lambda seen: LOST in seen["excluded"])
    await _restart(running, KILLED, told)
    await asyncio.sleep(DOWN_S)
    without = await _sees(running, "main1", lambda seen: seen["manager"] is not None)
    await _restart(running, LOST, told)
    whole = await _sees(running, LOST, lambda seen: seen["standing"] == "present")
    manager = whole["manager"]
    await running[manager].kill()
    other = next(main for main in MAINS if main != manager)
    after = await _sees(running, other, lambda seen: seen["manager"] not in (None, manager))
    await _restart(running, manager, told)
    return {
        "applied_without": without["applied"] - begun["applied"],
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
    first, *others = books.values()
    differ = {
        name: sum(
            any(other[name][account] != cents for other in others)
            for account, cents in enumerate(first[name])
        )
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
            f"  {JOINS} joined after {found['joined_after']:,} operations; {LOST} was killed, and"
            f" the others took {found['applied_without']:,} without it;\n"
            f"  then the manager, {before}: {after} took its place; both came back"
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
