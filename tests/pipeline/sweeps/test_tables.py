"""Random group tables: what is asked for, the same everywhere, and drawn as said."""

from collections import Counter
from statistics import mean, pstdev

import pytest

from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.pipeline.sweeps.tables import Drawing, draw_table

EXPECTED_UNIFORM = {
    "g0": ("s02", "s03", "s06", "s07"),
    "g1": ("s00", "s05", "s09", "s11"),
    "g2": ("s00", "s02", "s04", "s09"),
}
EXPECTED_LOCAL = {
    "g0": ("s18", "s19", "s26", "s29"),
    "g1": ("s12", "s13", "s14", "s17"),
    "g2": ("s26", "s29", "s30", "s31"),
}


def numbers(table: GroupTable) -> list[list[int]]:
    place = {site: number for number, site in enumerate(table.sites)}
    return [[place[site] for site in members] for members in table.groups.values()]


@pytest.mark.parametrize(
    "drawing",
    [
        Drawing(20, 10, 5),
        Drawing(5, 3, 5),
        Drawing(7, 3, 4),
        Drawing(1, 1, 1),
        Drawing(100, 30, 5, spread=4.0),
        Drawing(6, 4, 6, spread=2.0),
        Drawing(30, 30, 5, sizes="exponential"),
    ],
)
def test_a_drawn_table_is_a_valid_one_of_the_size_asked_for(drawing: Drawing) -> None:
    table = draw_table(drawing, 1)
    checked = GroupTable.of(table.groups, sites=table.sites)
    assert checked == table
    assert len(table.sites) == drawing.sites
    assert len(table.groups) == drawing.groups
    assert list(table.sites) == sorted(table.sites)
    if drawing.sizes == "fixed":
        assert {len(members) for members in table.groups.values()} == {drawing.size}


def test_a_seed_gives_the_same_table_for_ever() -> None:
    """Written down: a change here changes every published result."""
    assert dict(draw_table(Drawing(12, 3, 4), 7).groups) == EXPECTED_UNIFORM
    assert dict(draw_table(Drawing(40, 3, 4, spread=3.0), 7).groups) == EXPECTED_LOCAL


def test_different_seeds_give_different_tables() -> None:
    tables = [numbers(draw_table(Drawing(50, 5, 5), seed)) for seed in range(20)]
    assert all(tables.count(table) == 1 for table in tables)


def test_uniform_groups_take_every_site_equally_often() -> None:
    counts = Counter(site for g in numbers(draw_table(Drawing(20, 20_000, 4), 1)) for site in g)
    assert len(counts) == 20
    assert all(3_750 < count < 4_250 for count in counts.values())  # 4,000 ± 4 deviations


def test_local_groups_lie_around_their_centre_with_the_spread_asked_for() -> None:
    """Of single-site groups only the centre shows; so pairs: their distance has √2 the spread."""
    sites = 100_000
    pairs = numbers(draw_table(Drawing(sites, 5_000, 2, spread=50.0), 1))
    distances = [(b - a + sites // 2) % sites - sites // 2 for a, b in pairs]
    signed = [d if n % 2 else -d for n, d in enumerate(distances)]
    assert abs(mean(signed)) < 4
    assert 68 < pstdev(signed) < 73.5  # 50 · √2 = 70.7


def test_exponential_sizes_have_the_mean_asked_for_and_a_long_tail() -> None:
    sizes = [len(g) for g in numbers(draw_table(Drawing(1_000, 20_000, 5, sizes="exponential"), 1))]
    assert min(sizes) == 1
    assert 4.9 < mean(sizes) < 5.1
    assert 4.3 < pstdev(sizes) < 4.65  # geometric: √(5 · 4) = 4.47
    assert max(sizes) > 30


def test_exponential_sizes_end_at_all_sites() -> None:
    assert max(len(g) for g in numbers(draw_table(Drawing(6, 500, 5, sizes="exponential"), 1))) == 6


def test_a_spread_too_narrow_for_the_size_is_said() -> None:
    with pytest.raises(ConfigError, match=r"spread: 0.05 is too narrow for groups of 5 sites"):
        draw_table(Drawing(50, 2, 5, spread=0.05), 1)
