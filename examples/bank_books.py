"""The bank's operations and books: what branches send, and what main computers make of it."""

import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

from workers import say

MAINS = ("main1", "main2")
BRANCHES = ("branch1", "branch2", "branch3")
DEVELOPMENT = "development"
ACCOUNTS = 40
TABLES = 50  # one operation in so many is a new table of charges

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

    def dump(self) -> bytes:
        """All of it, for a main computer that joins."""
        return json.dumps(vars(self)).encode()

    def load(self, state: bytes) -> None:
        found = json.loads(state)
        vars(self).update({**found, "taken": Counter(found["taken"])})

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
