"""Tables as the internet has them, and what is said of very many sites, from small runs."""

import pytest

from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.plan.canvas import style
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.internet.churn import churn_costs
from ordercast.studies.internet.findings import churn_findings, forest_findings, ordering_findings
from ordercast.studies.internet.forests import BUILDERS, forest_costs
from ordercast.studies.internet.ordering import ordering_costs
from ordercast.studies.internet.tables import (
    KINDS,
    NEAR,
    POPULAR,
    UNIFORM,
    domain_share,
    sizes,
    zipf_table,
)
from ordercast.studies.reproduction import AGREES, DIFFERS, MEASURED, PARTLY, Finding


def test_sizes_and_rates_are_zipf_by_two_rankings() -> None:
    table = zipf_table(200, UNIFORM, 1)
    members = [len(found) for found in table.groups.values()]
    assert members == sizes(200)
    assert (members[0], members[1], members[3], members[-1]) == (20, 10, 5, 2)
    rates = sorted(table.rates.values(), reverse=True)
    assert abs(rates[0] / rates[9] - 10) < 1e-9
    assert abs(sum(rates) - 20) < 1e-9  # 0.1 a second for each site
    assert max(table.rates, key=table.rates.__getitem__) != "g000"


def test_members_are_near_anywhere_or_popular() -> None:
    most = {}
    for kind in KINDS:
        table = zipf_table(300, kind, 1)
        assert table == zipf_table(300, kind, 1) != zipf_table(300, kind, 2)
        often = dict.fromkeys(table.sites, 0)
        for members in table.groups.values():
            for site in members:
                often[site] += 1
        most[kind] = max(often.values())
        assert 0.3 < domain_share(table) <= 1
    assert most[POPULAR] > 3 * most[UNIFORM]
    places = [int(site[1:]) for site in zipf_table(300, NEAR, 1).groups["g299"]]
    assert (places[1] - places[0]) % 300 < 8 or (places[0] - places[1]) % 300 < 8


def test_a_table_of_two_parts_has_a_share_of_one_half() -> None:
    table = zipf_table(100, UNIFORM, 1)
    apart = {"a": ("s00", "s01"), "b": ("s01", "s02"), "c": ("s03", "s04")}
    small = type(table)(("s00", "s01", "s02", "s03", "s04", "s05"), apart)
    assert domain_share(small) == 0.5


def row(measure: str, mean: float, **at: object) -> ResultRow:
    return ResultRow(at, measure, mean, 0.0, 1)


def forests(*, star: float = 0.9, balanced: float = 0.1, share: float = 0.8) -> Results:
    rows = []
    for kind in KINDS:
        for sites, times in ((1_000, 0.1), (10_000, 1.0)):
            at = {"sites": sites, "drawn": kind}
            rows += [row("domain_share", share, **at), row("layout_mb", 1.5 * times, **at),
                     row("memory_mb", 10 * times**2, **at),
                     row("groups_most", 8.0, **at)]  # fmt: skip
            for builder in BUILDERS:
                busy = {"star": star, "balanced": balanced}.get(builder, 0.5) * times
                told = {"utilisation": busy, "tree_depth": 409.6 * times, "seconds": 1.0,
                        "chosen": float(builder == "star")}  # fmt: skip
                rows += [row(m, v, **at, builder=builder) for m, v in told.items()]
    return Results.of(rows)


def test_the_first_limit_is_found_from_the_growth() -> None:
    found = forest_findings(forests())
    assert [finding.verdict for finding in found] == [MEASURED] * 3 + [AGREES, MEASURED, AGREES]
    told = found[0].measured
    assert told.startswith("In this order: star: a site busy all its time, about 11,000 sites")
    assert "greedy: a tree too deep to open, about 100,000 sites" in told
    assert "than an array of stability has, not below a billion sites" in told
    assert "a layout that takes 4 GB of a site's memory, about 200,000 sites" in told
    between = forest_findings(forests(star=5.0))[0].measured
    assert between.startswith("In this order: star: a site busy all its time, about 2,000 sites")
    other = forest_findings(forests(star=0.05, share=0.2))
    assert [finding.verdict for finding in other][3:] == [DIFFERS, MEASURED, DIFFERS]


def test_what_rounds_cost_is_judged_by_their_growth() -> None:
    def verdicts(plain: float, rounds: float, delay: float) -> list[str]:
        rows = []
        for tracker, frames in (("plain", plain), ("s_coordp", rounds)):
            for sites, times in ((100, 1.0), (1_000, frames)):
                late = 100.0 if sites == 100 else delay
                told = {"control_frames": 10 * times, "delay_mean_ms": late, "delay_p99_ms": 300.0,
                        "data_frames": 3.0, "seconds": 1.0}  # fmt: skip
                at = {"sites": sites, "tracker": tracker, "drawn": UNIFORM}
                rows += [row(m, v, **at) for m, v in told.items()]
        return [finding.verdict for finding in ordering_findings(Results.of(rows))]

    assert verdicts(1.5, 10.0, 110.0) == [AGREES, AGREES, MEASURED]
    assert verdicts(10.0, 10.0, 400.0) == [DIFFERS, PARTLY, MEASURED]


def drawn(popular: float, row_ms: float) -> list[Finding]:
    """200 ms at 100 sites over regions that are 100 ms apart; at 1,000 so much where members are
    popular sites. The regions of a row are 20 ms apart."""
    rows = []
    for kind in KINDS:
        for sites in (100, 1_000):
            at = {"sites": sites, "drawn": kind}
            late = popular if kind == POPULAR and sites > 100 else 200.0
            told = {"delay_mean_ms": late, "delay_p99_ms": 300.0, "data_frames": 3.0,
                    "control_frames": 9.0, "seconds": 1.0,
                    "row_delay_mean_ms": late / 200 * row_ms}  # fmt: skip
            rows += [row(m, v, **at, tracker="plain") for m, v in told.items()]
            rows += [row("control_frames", 9.0, **at, tracker="s_coordp")]
            rows += [row("between_ms", 100.0, **at), row("row_between_ms", 20.0, **at)]
    return ordering_findings(Results.of(rows))[3:]


def test_who_the_members_are_and_the_network_are_judged() -> None:
    assert [finding.verdict for finding in drawn(210.0, 42.0)] == [AGREES, AGREES]
    assert [finding.verdict for finding in drawn(400.0, 42.0)] == [PARTLY, AGREES]
    members, network = drawn(210.0, 100.0)
    assert network.verdict == DIFFERS, "five times as long as the time between regions says"
    assert "popular 200, 210 ms" in members.measured
    assert "100 ms, 5.0, 5.0 times the mean time" in network.measured


def test_regions_in_a_row_are_nearer_each_other_than_the_built_in_ones() -> None:
    found = ordering_costs({"sites": 60, "drawn": POPULAR, "messages": 20}, 3, "").measures
    assert found["row_between_ms"] == pytest.approx(1 + 5 * 2.625)
    assert found["between_ms"] > 4 * found["row_between_ms"]
    assert found["plain/delay_mean_ms"] > 3 * found["plain/row_delay_mean_ms"]


def churn(done: float, late: float, falls: float = 1.0) -> Results:
    """Of 0.5 and 8 changes a second, up to `done` with 20 sites and so much less with 60."""
    rows = [
        row(measure, value, sites=sites, changes=changes, protocol=protocol)
        for protocol in ("propagation", "arrow")
        for sites, most in ((20, done), (60, done * falls))
        for changes, delay in ((0.5, 100.0), (8.0, late))
        for measure, value in (("done", min(changes, most)), ("delay_mean_ms", delay))
    ]
    return Results.of(rows)


def test_a_domain_that_follows_every_change_would_be_told() -> None:
    def verdicts(done: float, late: float) -> list[str]:
        return [finding.verdict for finding in churn_findings(churn(done, late))]

    assert verdicts(1.0, 300.0) == [AGREES, AGREES, MEASURED]
    assert verdicts(9.0, 90.0) == [DIFFERS, DIFFERS, MEASURED]
    assert verdicts(5.0, 300.0)[0] == DIFFERS, "most of what was asked for: the bound is not met"


def test_how_long_members_must_stay_is_told_of_each_size_that_was_run() -> None:
    follows, _, stays = churn_findings(churn(2.0, 300.0, falls=0.5))
    assert "propagation 2.00, 1.00 (power -0.63 of the sites)" in follows.measured
    assert "propagation at least 20, 120 s" in stays.measured
    assert "No larger domain was run." in stays.measured


def test_changes_are_asked_for_as_fast_as_the_rate_says() -> None:
    """At 8 a second eight of them in one second, which takes longer to do."""
    slow, fast = (
        churn_costs({"sites": 10, "changes": rate}, 1, "").measures for rate in (0.5, 8.0)
    )
    for protocol in ("propagation", "arrow"):
        assert slow[f"{protocol}/done"] <= 0.6
        assert 0.6 < fast[f"{protocol}/done"] < 8
        assert fast[f"{protocol}/behind_ms"] > slow[f"{protocol}/behind_ms"]


def test_small_runs_have_all_that_figures_and_findings_need() -> None:
    runs = {
        "scale-internet": forest_costs({"sites": 40, "drawn": UNIFORM}, 1, ""),
        "scale-ordering": ordering_costs({"sites": 40, "drawn": NEAR, "messages": 5}, 1, ""),
        "scale-churn": churn_costs({"sites": 10, "changes": 0.5}, 1, ""),
    }
    for name, found in runs.items():
        measures = {measure.rpartition("/")[2] for measure in found.measures}
        assert measures == set(CATALOGUE[name].measures)
    ordered = runs["scale-ordering"].measures
    assert ordered["plain/control_frames"] < ordered["s_coordp/control_frames"]
    assert runs["scale-churn"].measures["arrow/done"] > 0
    with style():
        assert len(CATALOGUE["scale-internet"].draw(forests()).axes) == 9
