"""What a client knows of its cluster, so that mistakes are known at once: as a node judges them."""

from dataclasses import replace
from typing import Any

import pytest

from ordercast.core.epochs.layout import Layout, nowhere
from ordercast.model.errors import ConfigError, CrossDomain, Error, NotInMajority, UnknownGroup
from ordercast.net.admin.targets import KnownTargets, targets_of
from ordercast.net.cluster.file import cluster_of_groups

GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"], "gamma": ["x", "y"]}


def known(layout: Layout, site: str = "a") -> KnownTargets:
    targets = KnownTargets(site)
    targets.update(targets_of(layout))
    return targets


def test_members_are_those_of_the_layout() -> None:
    targets = known(cluster_of_groups(GROUPS).first_layout())
    assert targets.sites == ("a", "b", "c", "x", "y")
    assert targets.members("beta") == ("b", "c")
    with pytest.raises(UnknownGroup, match=r"there is no group 'bta'.*did you mean 'beta'"):
        targets.members("bta")


def test_listed_sites_are_sorted_and_of_one_domain() -> None:
    targets = known(cluster_of_groups(GROUPS).first_layout())
    assert targets.listed(["c", "a", "c"]) == ("a", "c")
    with pytest.raises(CrossDomain, match="a, x: no one domain"):
        targets.listed(["x", "a"])
    with pytest.raises(ConfigError, match="there is no site 'z'"):
        targets.listed(["a", "z"])
    with pytest.raises(ConfigError, match="none is listed"):
        targets.listed([])


@pytest.mark.parametrize("options", [{}, {"open": True}, {"causal": True}])
def test_a_client_refuses_what_its_site_would(options: dict[str, Any]) -> None:
    """Every pair of sites: the same answer as the layout itself gives."""
    layout = cluster_of_groups(GROUPS, **options).first_layout()
    targets = known(layout)
    for one in layout.roster:
        for other in layout.roster:
            pair = tuple(sorted({one, other}))
            assert _taken(targets, pair) == _taken_there(layout, pair), pair


def test_a_list_that_waits_for_an_absent_site_is_for_the_site_to_judge() -> None:
    layout = replace(cluster_of_groups(GROUPS).first_layout(), domains={}, absent={"b": 1})
    targets = known(layout)
    assert targets.listed(["a", "c"]) == ("a", "c")
    with pytest.raises(NotInMajority, match="a, c: apart while b is absent"):
        layout.taking("a", "", ("a", "c"))
    with pytest.raises(CrossDomain):
        targets.listed(["a", "x"])
    with pytest.raises(CrossDomain):
        layout.taking("a", "", ("a", "x"))


def _taken(targets: KnownTargets, pair: tuple[str, ...]) -> str:
    try:
        targets.listed(pair)
    except Error as error:
        return type(error).__name__
    return ""


def _taken_there(layout: Layout, pair: tuple[str, ...]) -> str:
    try:
        layout.taking("a", "", pair)
    except Error as error:
        return type(error).__name__
    return ""


def test_a_site_that_is_not_admitted_can_send_to_nobody() -> None:
    targets = known(nowhere(["a"]), "d")
    with pytest.raises(UnknownGroup, match="site 'd' is retired, or not admitted yet"):
        targets.members("alpha")
    with pytest.raises(UnknownGroup, match="site 'd' is retired, or not admitted yet"):
        targets.listed(["a"])
