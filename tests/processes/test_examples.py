"""The examples, run as a reader runs them, with fewer operations."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bank_books import Books, operations_of
from cache import acyclic, inversions
from kv import COUNTERS, KILLED, SITES, judged

ROOT = Path(__file__).resolve().parent.parent.parent


def run(example: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [sys.executable, str(ROOT / "examples" / example), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    lines = done.stderr.splitlines()  # workers end one after another, and miss each other then
    assert [line for line in lines if "cannot be reached" not in line] == []
    return done.returncode, json.loads(done.stdout)


def test_the_bank_stays_equal_over_killed_machines_and_comes_apart_without_order() -> None:
    code, found = run("bank.py", "--operations", "2000")
    assert (code, found["ok"]) == (0, True)
    ordered = found["ordered"]
    assert ordered["equal"]
    assert 0 < ordered["joined_after"] < 2000  # by a third, which was handed the books
    assert ordered["applied_without"] > 0  # by the others, while one main computer was away
    lost, manager = ordered["managers"]
    assert lost != manager
    assert 0 < ordered["killed_after"] < len(operations_of("branch2", 2000, 1))
    assert set(ordered["mains"]) == {"main1", "main2", "main3"}
    assert ordered["mains"]["main1"] == ordered["mains"]["main2"] == ordered["mains"]["main3"]
    assert ordered["mains"]["main1"]["operations"] == 2000
    assert ordered["mains"]["main1"]["penalties"] > 0
    assert ordered["mains"]["main1"]["repeated"] > 0
    without = found["unordered"]
    assert not without["equal"]
    assert without["differ"]["balance"] > 0
    assert without["differ"]["penalties"] > 0
    assert [main["operations"] for main in without["mains"].values()] == [2000, 2000]


def test_an_unordered_bank_alone_fails() -> None:
    code, found = run("bank.py", "--operations", "2000", "--unordered", "--seed", "2")
    assert (code, found["ok"]) == (1, False)


def test_what_an_operation_does_depends_on_those_before_it() -> None:
    def after(*operations: dict[str, Any]) -> tuple[int, int]:
        books = Books()
        for n, operation in enumerate(operations, 1):
            books.apply({"from": "x", "n": n, "account": 0, **operation})
        return books.balance[0], books.penalties[0]

    deposit = {"do": "deposit", "cents": 5000}
    withdrawal = {"do": "withdrawal", "cents": 4000}
    table = {"do": "table", "overdraft": 700, "transfer": 1}
    assert after(deposit, withdrawal, table) == (1000, 0)
    assert after(withdrawal, deposit, table) == (0, 1000)
    assert after(table, withdrawal, deposit) == (300, 700)


def test_caches_are_coherent_with_order_and_not_without() -> None:
    code, found = run("cache.py", "--writes", "800")
    assert (code, found["ok"]) == (0, True)
    ordered = found["ordered"]
    assert ordered["coherent"]
    assert (ordered["writes"], ordered["keys"]) == (800, 20)
    assert ordered["reads"] > 0
    bad = ("swapped_pairs", "decided_differently", "keys_that_differ", "stale_reads")
    assert [ordered[name] for name in bad] == [0, 0, 0, 0]
    without = found["unordered"]
    assert not without["coherent"]
    assert without["writes"] == 800
    assert without["swapped_pairs"] > 0
    assert without["decided_differently"] > 0


def test_swapped_pairs_are_counted_among_common_writes_only() -> None:
    assert inversions(["a", "x", "b", "c"], ["a", "b", "y", "c"]) == 0
    assert inversions(["a", "b", "c"], ["c", "b", "a"]) == 3


def test_orders_that_agree_in_pairs_may_still_form_a_ring() -> None:
    ring = [["a", "b"], ["b", "c"], ["c", "a"]]
    assert inversions(ring[0], ring[1]) == 0
    assert not acyclic(ring)
    assert acyclic(ring[:2])


def test_replicas_of_the_store_stay_equal_over_a_kill() -> None:
    code, found = run("kv.py", "--operations", "1200")
    assert (code, found["ok"], found["equal"]) == (0, True, True)
    assert (found["stale_reads"], found["wrong_results"]) == (0, [])
    assert found["counted"] == found["won"] > 0
    assert found["lost"] > 0
    assert set(found["replicas"]) == set(SITES)
    killed = found["replicas"][KILLED]
    assert killed["begun"] >= found["killed_after"] == 200
    assert killed["restored"] > 0  # a snapshot spared it the beginning
    assert 0 < killed["applied"] < 1200
    assert all(found["replicas"][site]["applied"] == 1200 for site in SITES if site != KILLED)


def test_stores_that_differ_or_do_not_add_up_are_noticed() -> None:
    def verdict(**changed: Any) -> bool:
        sound = {
            "items": {COUNTERS[0]: 2}, "won": {SITES[0]: 2}, "lost": {}, "decided": "x",
            "counted": 0, "stale": 0, "restored": 0, "applied": 2, "begun": 0, "reads": 1,
        }  # fmt: skip
        found = {site: dict(sound) for site in SITES}
        found[SITES[0]]["counted"] = 2
        found[SITES[-1]] |= changed
        ok: bool = judged(found)["ok"]
        return ok

    assert verdict()
    mistakes: list[dict[str, Any]] = [
        {"items": {}}, {"won": {}}, {"lost": {SITES[0]: 1}}, {"decided": "y"}, {"counted": 1},
        {"stale": 1},
    ]  # fmt: skip
    for wrong in mistakes:
        assert not verdict(**wrong), wrong
