"""Injections: drawn before the run, within the safety phase, each piece from its own stream."""

from ordercast.sim.faults import Fault
from ordercast.sim.injections import ENDS, Injection, draw_injections

SITES = tuple("abcde")
HORIZON = 1_000_000_000


def draw(*faults: Fault, seed: int = 1) -> list[Injection]:
    return draw_injections(faults, SITES, HORIZON, seed)


def kinds(injections: list[Injection]) -> dict[str, int]:
    found: dict[str, int] = {}
    for injection in injections:
        found[injection.kind] = found.get(injection.kind, 0) + 1
    return found


ALL = tuple(
    Fault(kind, count=3)
    for kind in ("crash", "restart", "partition", "oneway", "pause", "slow", "clog", "lag")
)


def test_everything_begins_and_ends_within_the_safety_phase_in_order_of_time() -> None:
    for seed in range(30):
        drawn = draw(*ALL, seed=seed)
        assert [i.at for i in drawn] == sorted(i.at for i in drawn)
        assert all(0 <= i.at <= HORIZON and i.until <= HORIZON for i in drawn)


def test_whatever_begins_also_ends() -> None:
    found = kinds(draw(*ALL))
    for begin, end in {**ENDS, "crash": "restart"}.items():
        assert found[begin] == found[end] == 3


def test_a_piece_more_or_less_leaves_the_others_where_they_were() -> None:
    with_crashes = draw(*ALL)
    without = draw(*(fault for fault in ALL if fault.kind not in ("crash", "restart")))
    assert [i for i in with_crashes if i.kind not in ("crash", "restart")] == without


def test_only_as_many_come_back_as_are_told_and_the_others_stay_down() -> None:
    for seed in range(30):
        drawn = draw(Fault("crash", count=4), Fault("restart", count=2), seed=seed)
        down: dict[str, None] = {}
        for injection in drawn:
            if injection.kind == "crash":
                down[injection.sites[0]] = None
            else:
                down.pop(injection.sites[0], None)
        assert len(down) == 2


def test_a_window_a_length_and_sites_are_kept_to() -> None:
    piece = Fault("pause", count=20, start=200, stop=300, length=50, sites=("b", "d"))
    for injection in draw(piece):
        assert injection.sites[0] in ("b", "d")
        if injection.kind == "pause":
            assert 200 <= injection.at <= 300
            assert injection.until == injection.at + 50


def test_a_partition_has_two_sides_that_are_all_the_sites() -> None:
    for seed in range(30):
        for injection in draw(Fault("partition", count=3), seed=seed):
            assert injection.sites
            assert injection.others
            assert sorted(injection.sites + injection.others) == list(SITES)


def test_a_clog_holds_back_half_the_links_and_releases_them_in_another_order() -> None:
    drawn = draw(Fault("clog", count=1))
    links = [(i.sites[0], i.others[0]) for i in drawn]
    assert len(set(links)) == len(links) == 10  # of 5 · 4
    released = [
        link for _, link in sorted((i.until, link) for i, link in zip(drawn, links, strict=True))
    ]
    assert released != links
    assert max(i.at for i in drawn) <= min(i.until for i in drawn)


def test_cuts_hit_as_many_links_as_are_told_and_never_end() -> None:
    for kind in ("cut", "cut_one_way"):
        drawn = draw(Fault(kind, count=7, start=200, stop=300))
        links = [(i.sites[0], i.others[0]) for i in drawn]
        assert len(set(links)) == 7
        assert all(i.kind == kind and 200 <= i.at <= 300 for i in drawn)
        assert kind not in ENDS


def test_a_cut_hits_the_links_of_the_sites_that_are_named() -> None:
    (cut,) = draw(Fault("cut_one_way", count=1, sites=("d", "b")))
    assert (cut.sites, cut.others) == (("d",), ("b",))
    assert all("c" in i.sites + i.others for i in draw(Fault("cut", count=4, sites=("c",))))
