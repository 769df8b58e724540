"""UDP multicast between real processes, each in a network namespace, over a bridge."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.clusters.processes import write_cluster
from support.network.namespaces import Namespaces, why_not

TESTS = Path(__file__).parent.parent
CHILD = TESTS / "support" / "programs" / "multicast_child.py"
LIMIT_S = 240.0  # only against hanging
SITES = "abc"
MESSAGES = 20_000


@contextmanager
def process(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    child = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def run(folder: Path, loss: dict[str, float], sends: dict[str, int]) -> dict[str, dict[str, Any]]:
    """What each site saw of everything that all of them sent."""
    with ExitStack() as stack:
        network = stack.enter_context(Namespaces(SITES))
        addresses = {site: f"{address}:7101" for site, address in network.address.items()}
        options = {"dissemination": "multicast", "durability": "memory"}
        groups = {"alpha": list(SITES)}
        cluster = write_cluster(folder, groups, options, tls=True, addresses=addresses)
        total = sum(sends.values())
        children = {}
        for site in SITES:
            words = [*network.words(site), sys.executable, str(CHILD), str(cluster)]
            words += [site, str(folder), str(loss.get(site, 0)), str(sends.get(site, 0))]
            heard = [peer for peer in SITES if peer != site and loss.get(peer, 0) < 1]
            children[site] = stack.enter_context(process([*words, str(total), ",".join(heard)]))
        found = {}
        for site, child in children.items():
            assert child.stdout is not None
            line = child.stdout.readline()
            assert line, f"{site} ended without a word"
            found[site] = json.loads(line)
        for child in children.values():
            child.communicate("\n", timeout=LIMIT_S)
            assert child.returncode == 0
        return found


@pytest.fixture(scope="module", autouse=True)
def _namespaces() -> None:
    if why := why_not():
        pytest.skip(why)


def test_twenty_thousand_messages_in_order_with_a_tenth_lost_at_each_receiver(
    tmp_path: Path,
) -> None:
    loss = dict.fromkeys(SITES, 0.1)
    found = run(tmp_path, loss, {"a": MESSAGES // 2, "b": MESSAGES // 2})
    assert {told["seen"] for told in found.values()} == {MESSAGES}
    assert all(told["in_order"] for told in found.values())
    assert len({told["order"] for told in found.values()}) == 1
    done: Counter[str] = sum((Counter(counts(told)) for told in found.values()), Counter())
    assert done["packets_taken"] > 100
    assert done["repairs_sent"] > 0


def test_a_site_that_hears_nothing_gets_everything_by_unicast(tmp_path: Path) -> None:
    found = run(tmp_path, {"c": 1.0}, {"a": 500})
    assert {told["seen"] for told in found.values()} == {500}
    assert len({told["order"] for told in found.values()}) == 1
    assert counts(found["c"]).get("packets_taken", 0) == 0
    assert found["a"]["dissemination"]["ways"]["c"] == "unicast"
    assert "c" in found["a"]["dissemination"]["why"]


def counts(told: dict[str, Any]) -> dict[str, int]:
    found: dict[str, int] = told["dissemination"]["counts"]
    return found
