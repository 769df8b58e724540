"""The statuses of a whole cluster, asked from elsewhere."""

from pathlib import Path

import pytest

from net.client.test_several_addresses import running_three
from ordercast.model.errors import ConfigError
from ordercast.net.client.destinations import RemoteDestination
from ordercast.net.client.statuses import ask_all
from ordercast.net.cluster.contexts import Context
from support.clusters.served import Served
from support.harness.loops import in_loop


def place(running: Served, *sites: str) -> RemoteDestination:
    addresses = tuple(running.address(site, "tcp") for site in sites)
    secret = str(running.directory / "secret")
    return RemoteDestination(Context("there", addresses, secret=secret))


@in_loop
async def test_where_no_daemon_names_the_doors_all_addresses_of_the_context_are_asked(
    tmp_path: Path,
) -> None:
    async with running_three(tmp_path) as running:
        told = await ask_all(place(running, "a", "b", "c"))
        assert {site: (each["state"], each["site"]) for site, each in told.items()} == {
            "a": ("up", "a"), "b": ("up", "b"), "c": ("up", "c"),
        }  # fmt: skip
        only = await ask_all(place(running, "a", "b", "c"), "c")
        assert (list(only), only["c"]["site"]) == (["c"], "c")
        with pytest.raises(ConfigError, match="there is no site 'd'"):
            await ask_all(place(running, "a"), "d")


@in_loop
async def test_a_site_that_nobody_could_ask_and_nobody_hears_is_not_taken_for_well(
    tmp_path: Path,
) -> None:
    """Sites in one process have no links that a status could tell."""
    async with running_three(tmp_path) as running:
        told = await ask_all(place(running, "a", "b"))
        assert [each["state"] for each in told.values()] == ["up", "up", "down"]
        assert "or has a connection to it" in told["c"]["reasons"][0]
