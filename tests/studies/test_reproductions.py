"""The catalogue of reproductions: names, verdicts computed from numbers, and the page."""

import json
from pathlib import Path
from typing import Any

import pytest

import ordercast.studies
from ordercast.cli import main
from ordercast.model.errors import ConfigError
from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.pipeline.sweeps.stability_rounds import tracked
from ordercast.pipeline.sweeps.swept_verb import swept_verb
from ordercast.studies.catalogue import CATALOGUE, named
from ordercast.studies.facts import Section, summary
from ordercast.studies.fits import correlation
from ordercast.studies.gs.broadcast_findings import broadcast_findings
from ordercast.studies.gs.findings import (
    depth_findings,
    exponential_findings,
    extra_findings,
    setup_findings,
    table2_findings,
    under_load_findings,
)
from ordercast.studies.gs.forests import last_at
from ordercast.studies.gs.latency_findings import latency_findings
from ordercast.studies.gs.load import PROTOCOLS
from ordercast.studies.page import headline, page, quick_parameters
from ordercast.studies.reproduction import (
    AGREES,
    DIFFERS,
    INTERVAL,
    MEASURED,
    OURS,
    PARTLY,
    Finding,
    judged,
)

DOCUMENTED = [
    "gs-table1", "gs-table2", "gs-graph1", "gs-graph2", "gs-graph3", "gs-graph4", "gs-graph5",
    "gs-exponential", "gs-load", "gs-setup", "gs-change", "gs-failure", "tom-table1",
    "tom-figure5", "tom-given", "tom-rings", "tom-loss", "swap-latency", "swap-locality",
    "swap-throughput", "swap-change", "stab-table1", "stab-table4", "stab-figure6", "stab-figure7",
    "stab-figure8", "stab-figure9", "stab-figure10", "stab-scale", "stab-variants", "stab-load",
    "stab-trigger", "scale-forest", "scale-internet", "scale-ordering", "scale-churn",
]  # fmt: skip


def no_file(path: str) -> str:
    raise AssertionError(path)


def test_every_documented_name_is_known_and_no_other() -> None:
    assert sorted(CATALOGUE) == sorted(DOCUMENTED)


def test_without_names_all_that_is_built_is_reproduced() -> None:
    assert [each.name for each in named([])] == list(CATALOGUE)
    assert [each.name for each in named(["gs-graph2", "gs-graph1", "gs-graph2"])] == [
        "gs-graph1", "gs-graph2",
    ]  # fmt: skip


def test_what_is_excepted_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list", "--except", "scale-internet", "gs-table1"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    left = [name for name in CATALOGUE if name not in ("scale-internet", "gs-table1")]
    assert listed == left
    assert list(CATALOGUE)[-1] == "scale-internet"  # the longest comes last
    only = ["reproduce", "--list", "--only", "gs-table1", "gs-table2", "--except"]
    assert main([*only, "gs-table1"]) == 0
    assert capsys.readouterr().out.startswith("gs-table2 ")
    assert main([*only, "gs-table1", "gs-table2"]) == 2
    assert capsys.readouterr().err == "ordercast: --except: leaves nothing to do\n"
    assert main([*only, "gs-tabel1"]) == 2
    assert "--except: there is no 'gs-tabel1' (did you mean" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("gs-grap1", "--only: there is no 'gs-grap1' (did you mean 'gs-graph1'?); 'ordercast"),
        ("stab-figure5", "--only: there is no 'stab-figure5' (did you mean 'stab-figure"),
        ("swap-latencies", "--only: there is no 'swap-latencies' (did you mean 'swap-latency'?)"),
    ],
)
def test_a_name_that_cannot_be_reproduced_is_one_line(
    name: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        named(["gs-graph1", name])
    assert str(caught.value).startswith(line)
    assert main(["reproduce", "--only", name]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"ordercast: {caught.value}\n"


def test_the_list_tells_all_and_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(CATALOGUE)
    assert main(["reproduce", "--list", "--json", "--only", "gs-table1"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["reproductions"]
    assert only["name"] == "gs-table1"
    assert set(only) == {"name", "source", "title"}


@pytest.mark.parametrize("name", list(CATALOGUE))
@pytest.mark.parametrize("quick", [True, False])
def test_every_point_is_one_that_a_sweep_could_have(name: str, quick: bool) -> None:
    """But for what only the reproduction varies; of [STAB] `members` is what the tree holds."""
    each = CATALOGUE[name]
    points = each.points(quick)
    assert points
    verb = "stability" if name.startswith("stab-") else "plan"
    own = {"network", "members", "busy", "loss", "limit", "messages", "sources", "sent_by",
           "shape", "requests", "senders", "rate", "crashes", "hit", "where", "drawn",
           "changes", "tables"}  # fmt: skip
    for config in points:
        drawn = {k: v for k, v in config.items() if k not in own}
        for option, value in drawn.items():
            swept_verb(verb).options[option].notation.check(value, name, no_file)
        if drawn and set(drawn) != {"sites"}:  # a tree of its own, and one group
            swept_verb(verb).check(drawn, no_file)
        if "members" in config and drawn:
            assert tracked(drawn).shape.n == config["members"]


@pytest.mark.parametrize("name", list(CATALOGUE))
def test_a_quick_run_is_a_part_of_the_full_one_or_smaller(name: str) -> None:
    each = CATALOGUE[name]
    assert len(each.points(True)) <= len(each.points(False))
    assert each.repeats(True).at_least <= each.repeats(False).at_least


def test_the_grid_of_graph_1_covers_the_papers_range() -> None:
    points = CATALOGUE["gs-graph1"].points(False)
    assert {point["size"] for point in points} == {5}
    assert {point["groups"] for point in points} == {10, 20, 30, 40}
    assert (min(p["sites"] for p in points), max(p["sites"] for p in points)) == (20, 1000)
    sizes = {point["size"] for point in CATALOGUE["gs-graph2"].points(False)}
    assert (min(sizes), max(sizes)) == (5, 40)


def row(measure: str, mean: float, **parameters: Any) -> ResultRow:
    return ResultRow({"size": 5, "protocol": "propagation", **parameters}, measure, mean, 0.01, 30)


def depths(*means: float) -> Results:
    """Of 10 groups among 20, 50, … sites; delays that are of no interest."""
    rows = []
    for sites, mean in zip((20, 50, 100, 200), means, strict=True):
        rows.append(row("depth_mean", mean, groups=10, sites=sites))
        for protocol, delays in (("propagation", (6, 10, 20)), ("two_phase", (22, 24, 26))):
            rows += [
                row(f"delay_{which}_ms", delay, groups=10, sites=sites, protocol=protocol)
                for which, delay in zip(("first", "mean", "last"), delays, strict=True)
            ]
    return Results.of(rows)


def verdicts(findings: list[Finding]) -> list[str]:
    return [finding.verdict for finding in findings]


@pytest.mark.parametrize(
    ("means", "at_most_2", "shape"),
    [
        ((1.2, 1.9, 1.6, 1.0), AGREES, AGREES),
        ((1.2, 6.6, 1.6, 1.0), PARTLY, AGREES),
        ((3.0, 6.6, 4.0, 3.5), DIFFERS, AGREES),
        ((2.4, 2.0, 1.6, 1.0), AGREES, DIFFERS),
        ((1.0, 1.5, 2.0, 2.4), AGREES, DIFFERS),
    ],
)
def test_whether_depth_agrees_with_the_paper_is_computed(
    means: tuple[float, ...], at_most_2: str, shape: str
) -> None:
    found = verdicts(depth_findings("sites")(depths(*means)))
    assert found[:2] == [at_most_2, shape]
    assert found[2:] == [AGREES, AGREES, AGREES]  # delays, and intervals of ± 0.01


def test_what_differs_is_said_with_numbers() -> None:
    finding = depth_findings("sites")(depths(1.2, 6.6, 1.6, 1.0))[0]
    assert "d ≤ 2.5 at 3 of 4 points with groups of at most 10" in finding.measured
    assert "6.60 ± 0.01 with 10 groups, 50 sites" in finding.measured


@pytest.mark.parametrize(
    ("extra", "low", "like"),
    [((0.1, 0.9, 0.5), AGREES, AGREES), ((0.1, 3.0, 0.5), PARTLY, AGREES),
     ((0.9, 0.1, 0.5), AGREES, DIFFERS), ((4, 9, 6), DIFFERS, AGREES)],
)  # fmt: skip
def test_whether_extra_sites_are_few_and_like_the_depth_is_computed(
    extra: tuple[float, ...], low: str, like: str
) -> None:
    rows = []
    for sites, e, d in zip((20, 50, 100), extra, (1.0, 3.0, 1.5), strict=True):
        rows += [row("extra_mean", e, groups=10, sites=sites)]
        rows += [row("depth_mean", d, groups=10, sites=sites)]
        rows += [row("extra_share", e / 10, groups=10, sites=sites)]
    assert verdicts(extra_findings(Results.of(rows)))[:2] == [low, like]


def test_how_often_extra_sites_occur_is_computed() -> None:
    def found(extra: float, share: float) -> list[str]:
        rows = [row("extra_mean", extra, groups=10, sites=20),
                row("extra_share", share, groups=10, sites=20)]  # fmt: skip
        return verdicts(
            extra_findings(Results.of([*rows, row("depth_mean", 2, groups=10, sites=20)]))
        )[2:4]

    assert found(0.1, 0.1) == [AGREES, AGREES]
    assert found(9.0, 0.7) == [DIFFERS, AGREES]  # 5 + 9 of 15 messages
    assert found(10.0, 0.7) == [DIFFERS, DIFFERS]


@pytest.mark.parametrize(
    ("small", "large", "verdict"), [(20, 90, AGREES), (40, 20, DIFFERS), (26, 20, DIFFERS)]
)
def test_whether_small_groups_are_served_sooner_is_computed(
    small: float, large: float, verdict: str
) -> None:
    rows = []
    for size, ours, theirs in ((5, small, 26), (40, large, 96)):
        rows.append(row("depth_mean", 1.5, groups=10, sites=200, size=size))
        for protocol, last in (("propagation", ours), ("two_phase", theirs)):
            rows += [
                row(f"delay_{which}_ms", last, groups=10, sites=200, size=size, protocol=protocol)
                for which in ("first", "mean", "last")
            ]
    finding = depth_findings("size")(Results.of(rows))[4]
    assert finding.statement.startswith("It can surpass two-phase when groups are small")
    assert finding.verdict == verdict
    assert f"n = 5: {small:.1f} ms with 10 groups; two-phase 26.0 ms" in finding.measured


def latencies(near: float, far: float, depth: float = 3.0) -> list[Finding]:
    """Propagation's delay at two points divided by two-phase's: at L = P, and at L = 20 P."""
    rows = []
    for sites, times in ((20, 1.0), (50, 1.1)):
        rows.append(row("depth_mean", depth, groups=10, sites=sites))
        for measure, ours in ((last_at(1), near), ("delay_last_ms", 1.0), (last_at(20), far)):
            at = {"groups": 10, "sites": sites}
            rows.append(row(measure, 10.0 * ours * times, **at))
            rows.append(row(measure, 10.0, **at, protocol="two_phase"))
    return latency_findings(Results.of(rows), "sites")


def test_where_latency_alone_makes_deep_trees_slower_is_computed() -> None:
    assert verdicts(latencies(0.6, 1.5)) == [AGREES, AGREES]
    assert verdicts(latencies(0.95, 1.5)) == [AGREES, PARTLY]
    assert verdicts(latencies(1.2, 1.5)) == [AGREES, DIFFERS]
    assert verdicts(latencies(0.6, 0.7)) == [DIFFERS, AGREES]
    assert latencies(0.6, 1.5, depth=1.5) == [], "no tree is deep"
    told = latencies(0.95, 1.5)[1].measured
    assert "L = 1 P: slower at 1 of 2 (0.95 to 1.05 times as long)" in told


def exponential(depth: dict[str, float], load: dict[str, list[float]]) -> list[Finding]:
    """10 groups: fixed sizes have the depths 2, 4, 3 and the loads 30, 20, 10 along both axes."""
    rows = []
    for x, held, places in (("sites", {"size": 5}, (20, 50, 1000)),
                            ("size", {"sites": 200}, (7, 20, 40))):  # fmt: skip
        for sizes in ("fixed", "exponential"):
            times = depth[x] if sizes == "exponential" else 1.0
            loads = load[x] if sizes == "exponential" else [30.0, 20.0, 10.0]
            for at, d, most in zip(places, (2.0, 4.0, 3.0), loads, strict=True):
                point = {"groups": 10, "sizes": sizes, **held, x: at}
                rows += [row("depth_mean", times * d, **point), row("load_max", most, **point)]
    return exponential_findings(Results.of(rows))


def test_exponential_sizes_are_judged_along_sites_and_along_sizes_and_of_the_load() -> None:
    like = {"sites": [40.0, 29.0, 21.0], "size": [33.0, 22.0, 11.0]}
    found = exponential({"sites": 0.8, "size": 0.9}, like)
    assert verdicts(found) == [AGREES] * 4
    found = exponential({"sites": 0.8, "size": 1.3}, {**like, "size": [10.0, 20.0, 30.0]})
    assert verdicts(found) == [AGREES, DIFFERS, AGREES, PARTLY]
    assert "3.90 against 3.00 at 40" in found[1].measured
    section = Section(CATALOGUE["gs-exponential"], found, FULL)
    assert summary([section]) == "1 agree, 2 partly"  # lower depths: one claim, two axes


def loaded(**delays: tuple[float, float, float]) -> list[Finding]:
    """Mean delays at 10, 100 and 1,000 messages a second."""
    rows = []
    for protocol, found in delays.items():
        for rate, delay in zip((10, 100, 1000), found, strict=True):
            at = {"rate": rate, "size": 20, "protocol": protocol}
            rows += [row("delay_mean_ms", delay, **at)]
            rows += [row(f"frames_{kind}", 9.0, **at) for kind in ("data", "control")]
    return under_load_findings(Results.of(rows))


def test_whether_the_centre_is_the_bottleneck_is_computed() -> None:
    usual = {"two_phase": (40.0, 41.0, 60.0)}
    found = loaded(propagation=(30, 33, 90), centralized=(15, 120, 900), **usual)
    assert verdicts(found) == [AGREES, AGREES, MEASURED]
    assert "propagation 100, two_phase 1,000 or more, centralized 10." in found[0].measured
    found = loaded(propagation=(30, 130, 900), centralized=(15, 20, 400), **usual)
    assert verdicts(found) == [PARTLY, DIFFERS, MEASURED]  # two-phase has the later knee


@pytest.mark.parametrize(
    ("centre", "verdict"), [((4, 9, 90), AGREES), ((4, 5, 90), PARTLY), ((4, 5, 6), DIFFERS)]
)
def test_whether_the_centre_fills_before_a_broadcast_network_is_computed(
    centre: tuple[int, ...], verdict: str
) -> None:
    rows = []
    for protocol, delays in (("propagation", (5, 6, 90)), ("two_phase", (12, 13, 14)),
                             ("centralized", centre)):  # fmt: skip
        for rate, delay in zip((10, 80, 320), delays, strict=True):
            at = {"rate": rate, "size": 20, "protocol": protocol}
            rows += [row("broadcast_delay_ms", delay, **at), row("broadcast_busiest", 0.5, **at)]
    (found,) = broadcast_findings(Results.of(rows), 20)
    assert found.verdict == verdict
    assert "two_phase 320 (12.0 ms at 10, 14 at 320" in found.measured


def set_up(messages: float, delay: float, pays: float) -> Finding:
    """Break-even in multicasts to ten groups together; at one of two points."""
    rows = [
        row(measure, value, groups=10, size=size)
        for size, share in ((5, 1.0), (40, pays))
        for measure, value in (
            ("break_even_messages", messages), ("break_even_delay", delay),
            ("pays_in_delay", share), ("pays_in_messages", 1.0), ("install_messages", 50.0),
            ("compute_ms", 0.5), ("install_ms", 60.0),
        )
    ]  # fmt: skip
    (found,) = setup_findings(Results.of(rows))
    return found


def test_whether_set_up_needs_many_messages_is_judged_by_what_each_group_gets() -> None:
    assert set_up(20, 50, pays=1.0).verdict == DIFFERS, "two messages and five to each group"
    assert set_up(20, 150, pays=1.0).verdict == PARTLY, "in delay many"
    assert set_up(20, 50, pays=0.2).verdict == PARTLY, "in delay never, at one point"
    assert set_up(120, 150, pays=0.2).verdict == AGREES
    told = set_up(20, 150, pays=0.2).measured
    assert "regained after 2.0 to 2.0 multicasts to each group (20 to 20 to all together)" in told
    assert "at 1 of 1 points after many (more than 10); at 1 of 2 propagation is slower" in told


def test_table_2s_lower_bound_is_not_called_equality() -> None:
    def results(messages: float, wanted: float = 5.0, t_ms: float = 2.0) -> Results:
        rows = [
            row("messages", messages), row("delay_ms", t_ms * messages), row("depth_mean", 3.0),
            row("extra_mean", 1.5),
            row("messages", 2.0, protocol="centralized"),
            row("messages", 7.0, protocol="two_phase"),
            row("messages_formula", 7.0, protocol="two_phase"),
            *(row("checks", 20.0, protocol=name) for name in PROTOCOLS),
            *(row("wanted_checks", wanted, protocol=name) for name in PROTOCOLS),
        ]  # fmt: skip
        return Results.of(rows)

    assert verdicts(table2_findings(results(4.0))) == [*[AGREES] * 6, MEASURED]
    assert verdicts(table2_findings(results(4.0, wanted=20.0)))[-2] == DIFFERS
    assert verdicts(table2_findings(results(4.4)))[0] == DIFFERS
    assert verdicts(table2_findings(results(4.0, t_ms=2.5)))[1] == DIFFERS, "T is 2 ms"
    unicasts = table2_findings(results(4.0))[-1].measured
    assert "4.0 transmissions and 20 checks in software, or by unicasts 6.5" in unicasts


def test_correlation_of_known_pairs() -> None:
    assert correlation([(1, 2), (2, 4), (3, 6)]) == pytest.approx(1)
    assert correlation([(1, 3), (2, 2), (3, 1)]) == pytest.approx(-1)
    assert correlation([(1, 1), (2, 1)]) == 0
    assert correlation([(1, 1), (2, 3), (3, 2)]) == pytest.approx(0.5)


def test_a_verdict_is_agrees_partly_or_differs() -> None:
    assert [judged([True]), judged([True, False]), judged([False])] == [AGREES, PARTLY, DIFFERS]


def test_the_contents_of_the_page_lead_to_every_reproduction() -> None:
    text = page([Section(each, [], {}) for each in CATALOGUE.values()])
    for name in CATALOGUE:
        assert text.count(f"ordercast reproduce --only {name}</code>)") == 1, name
    assert text.index("Beyond the papers</h2>") < text.index("--only scale-internet</code>")


def test_the_page_shows_words_figure_and_verdict_and_escapes_them() -> None:
    each = CATALOGUE["gs-graph3"]
    found = [Finding("a < b & c", DIFFERS, "`plan` says <no>")]
    told = {"points": 3, "runs": 1234, "quick": True, "seed": 1, "version": "0", "failed": 2}
    text = page([Section(each, found, told)])
    assert "a &lt; b &amp; c" in text
    assert "<code>plan</code> says &lt;no&gt;" in text
    assert '<img src="gs-graph3.png"' in text
    assert 'href="gs-graph3.csv"' in text
    assert "1,234 runs, quick" in text
    assert "2 runs failed" in text
    assert "claims, measured in a quick run, with other parameters: 1 differ." in text
    assert 'class="mark differs">differs (quick)<' in text
    assert "(1 differ)" in text
    assert each.says[0].split(",")[0] in text


FULL = {"points": 3, "runs": 9, "quick": False, "seed": 1, "version": "0"}


def test_a_claim_that_several_figures_judge_counts_once_with_the_verdict_of_all() -> None:
    one = Section(CATALOGUE["gs-graph1"], [Finding("d ≤ 2.", AGREES, "")], FULL)
    other = Section(
        CATALOGUE["gs-graph2"],
        [Finding("d ≤ 2.", DIFFERS, ""), Finding("Load falls.", AGREES, ""),
         Finding("Load falls (40 groups).", AGREES, "", claim="Load falls."),
         Finding("Delay.", MEASURED, "")],
        FULL,
    )  # fmt: skip
    elsewhere = Section(CATALOGUE["stab-scale"], [Finding("d ≤ 2.", DIFFERS, "")], FULL)
    assert summary([one]) == "1 agree"
    assert summary([one, other]) == "1 agree, 1 partly, 1 measured only"
    of_two = summary([one, other, elsewhere])  # another paper's
    assert of_two == "1 agree, 1 partly, 1 differ, 1 measured only"
    assert (
        headline([one, other]) == f"The papers’ claims, measured in full: {summary([one, other])}."
    )
    assert summary([]) == "no claims"


def test_statements_of_ours_and_widths_of_intervals_are_no_claims() -> None:
    found = [Finding("a", AGREES, "", kind=OURS), Finding("b", AGREES, "", kind=INTERVAL)]
    section = Section(CATALOGUE["gs-graph1"], [*found, Finding("c", PARTLY, "")], FULL)
    assert summary([section]) == "1 partly"
    assert "Not counted: 1 of our own, 1 on the width of intervals." in headline([section])
    text = page([section])
    assert 'class="mark agrees">agrees (ours)<' in text
    assert 'class="mark partly">partly<' in text


def test_a_quick_verdict_says_which_parameters_are_others() -> None:
    told = quick_parameters(CATALOGUE["gs-table1"])
    assert "sites 40 instead of 200; groups 8 instead of 20" in told
    assert "size 3, 5, 10, 20 instead of 3, 5, 10, 20, 40" in told
    assert told.endswith("4 runs of each point instead of 10 or more")
    how = {**FULL, "quick": True, "instead": told}
    section = Section(CATALOGUE["gs-table1"], [Finding("c", PARTLY, "")], how)
    assert f"with other parameters than the full one: {told}." in page([section])
    for name, each in CATALOGUE.items():
        if list(each.points(True)) != list(each.points(False)):
            assert quick_parameters(each), name


def test_own_statements_are_told_from_the_papers_in_every_catalogue_entry() -> None:
    """What is beyond the papers says so by its kind, not in words."""
    for name in ("stab/findings.py", "gs/findings.py", "swap/findings.py", "tom/findings.py"):
        text = (Path(ordercast.studies.__file__).parent / name).read_text(encoding="utf-8")
        assert "beyond the paper" not in text, name
        assert "not in the paper" not in text, name
