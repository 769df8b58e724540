"""Real processes whose network is split under load, by proxies or by links that go down: a majority
goes on, who was cut off says so to its callers and returns, and what the stores and the
applications say afterwards holds. At `safe` nothing is ever taken back."""

from pathlib import Path

import pytest

from support.clusters.partitions import Network, by_links, by_proxies
from support.clusters.processes import Processes
from support.network.namespaces import why_not

GROUPS = {"alpha": ["a", "b", "c"], "beta": ["b", "c"], "gamma": ["a", "c"]}
QUICK = {"suspect": "300ms"}


def cut_off(running: Processes, network: Network, alone: str) -> None:
    """Until its callers and its status have said that there is no majority, and it is back."""
    others = [site for site in running.sites if site != alone]
    running.wait_until(lambda: running.told(alone, "standing")[-1:] == ["present"])  # founded
    refused = len(running.told(alone, "refused"))
    network.split([alone], others)
    running.wait_until(lambda: running.told(alone, "standing")[-1] == "no majority")
    running.wait_until(
        lambda: any("no majority of the voters" in why for why in refusals(running, alone, refused))
    )
    network.heal()
    running.wait_until(lambda: running.told(alone, "standing")[-1] == "present")


def refusals(running: Processes, site: str, after: int) -> list[str]:
    return running.told(site, "refused")[after:]


def judged(running: Processes, deliver: str) -> None:
    running.settle(120)
    running.stop()
    verdict = running.judge()
    assert not verdict.wrong, verdict.wrong[:5]
    rolled = {site: running.told(site, "rolled") for site in running.sites}
    assert deliver == "agreed" or not any(rolled.values()), rolled


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
def test_a_split_network_loses_doubles_and_reorders_nothing(deliver: str, tmp_path: Path) -> None:
    options = {"deliver": deliver, "durability": "os"}
    with by_proxies(tmp_path, GROUPS, options, messages=1_500, seed=1, timeouts=QUICK) as (
        running,
        network,
    ):
        running.wait_for_manager([])
        for alone in "abc":
            cut_off(running, network, alone)
        judged(running, deliver)


def test_nor_do_links_that_go_down(tmp_path: Path) -> None:
    if why := why_not():
        pytest.skip(why)
    options = {"deliver": "agreed", "durability": "os"}
    with by_links(tmp_path, GROUPS, options, messages=1_000, seed=1, timeouts=QUICK) as (
        running,
        network,
    ):
        cut_off(running, network, running.wait_for_manager([]))
        judged(running, "agreed")
