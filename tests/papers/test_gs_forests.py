"""[GS] §3.1, §4.1: the propagation forests of Figures 2 to 5, with the ties of errata GS-7."""

from ordercast.forest.greedy import build_greedy
from ordercast.forest.metrics import extra_sites, measure
from ordercast.forest.rebalancing import rebalance
from ordercast.model.groups import GroupTable
from support.cases.tables import FIGURE_2, FIGURE_3, FIGURE_3_TIE, FIGURE_5, table_of

FIGURE_3_TREE = {
    "d": None,
    "c": "d",
    "e": "d",
    "j": "d",
    "a": "c",
    "b": "c",
    "h": "c",
    "f": "e",
    "g": "b",
}


def load_by_site(table: GroupTable, loads: list[int]) -> dict[str, int]:
    return dict(zip(sorted(table.sites), loads, strict=True))


def test_figure_2_all_sites_hang_below_c() -> None:
    forest = build_greedy(table_of(FIGURE_2), tie=["c"])
    assert forest.parent == {"c": None, "a": "c", "b": "c", "d": "c", "e": "c", "f": "c"}
    assert forest.primary == {"alpha": "c", "beta": "c"}


def test_figure_3_tree_and_primaries() -> None:
    forest = build_greedy(table_of(FIGURE_3), tie=FIGURE_3_TIE)
    assert forest.parent == FIGURE_3_TREE
    assert forest.primary == {
        "alpha1": "d",
        "alpha2": "c",
        "alpha3": "d",
        "alpha4": "d",
        "alpha5": "e",
        "alpha6": "b",
        "alpha7": "c",
        "alpha8": "d",
    }
    assert not any(extra_sites(forest, table_of(FIGURE_3)).values())


def test_figure_3_with_alpha9_is_the_same_tree_with_c_extra() -> None:
    table = table_of({**FIGURE_3, "alpha9": "da"})
    forest = build_greedy(table, tie=FIGURE_3_TIE)
    assert forest.parent == FIGURE_3_TREE
    assert forest.primary["alpha9"] == "d"
    assert extra_sites(forest, table)["alpha9"] == ["c"]


def test_figure_3_choosing_f_over_e_makes_f_an_extra_site_for_alpha3() -> None:
    table = table_of(FIGURE_3)
    forest = build_greedy(table, tie=("d", "c", "f"))
    assert extra_sites(forest, table)["alpha3"] == ["f"]


def test_figure_4_the_first_level_is_c_e_and_j_below_d() -> None:
    parent = build_greedy(table_of(FIGURE_3), tie=FIGURE_3_TIE).parent
    assert {site for site, above in parent.items() if above == "d"} == {"c", "e", "j"}


def test_figure_5a_is_a_star_at_b_with_load_11() -> None:
    table = table_of(FIGURE_5)
    forest = build_greedy(table)
    assert {site for site, above in forest.parent.items() if above == "b"} == set("acdefgh")
    loads = load_by_site(table, list(measure(forest, table).load))
    assert loads["b"] == 11
    assert loads["a"] == 2


def test_figure_5b_has_less_load_more_depth_and_no_extra_sites() -> None:
    table = table_of(FIGURE_5)
    before = build_greedy(table)
    after = rebalance(before, table)
    assert after.parent == {
        "b": None,
        "a": "b",
        "f": "b",
        "g": "b",
        "h": "b",
        "c": "a",
        "d": "a",
        "e": "a",
    }
    old, new = measure(before, table), measure(after, table)
    assert load_by_site(table, list(new.load))["b"] == 8
    assert new.load_max < old.load_max
    assert new.depth_mean > old.depth_mean
    assert sum(new.extra) == 0
