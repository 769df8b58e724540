"""[GS] §5 as it is measured: changes of groups, and failures; and the verdicts on both."""

import re
from typing import Any

import pytest

from ordercast.core.structure import Structure
from ordercast.history.rows import ROLLBACK, Event
from ordercast.model.groups import GroupTable
from ordercast.pipeline.sweeps.results import ResultRow, Results
from ordercast.plan.advice import advise
from ordercast.studies.gs.changes import change_costs, closed_and_opened, committed
from ordercast.studies.gs.failures import (
    INNER,
    LEAF,
    WAYS,
    Outage,
    crashes_that_annulled,
    failure_costs,
    may_crash,
    way_costs,
)
from ordercast.studies.gs.reliability_findings import change_findings, failure_findings
from ordercast.studies.reproduction import AGREES, DIFFERS, MEASURED, PARTLY


def structure(**groups: list[str]) -> Structure:
    table = GroupTable.of(groups, sites=sorted({s for g in groups.values() for s in g} | {"idle"}))
    return Structure(1, table, advise(table, "greedy").forest)


def test_close_and_open_by_hand() -> None:
    """c is above a, b and d. To c after P + L, from c to the third child 3P + L later; the Open
    leaves the manager P after the Close, waits at c until the Closes have left, and follows."""
    old = structure(x=["a", "b", "c"], y=["c", "d"])
    messages, took = closed_and_opened([old], [old])
    assert (messages, took) == (2 * 4, 6 + 3 + 3 + 5)
    assert committed(4) == (12, 15 + 9)


def test_a_change_takes_what_the_voters_and_all_sites_say() -> None:
    found = change_costs({"sites": 12, "groups": 6, "size": 4}, 1, "").measures
    for protocol in ("propagation", "centralized"):
        of = {name.split("/")[1]: value for name, value in found.items()
              if name.startswith(f"{protocol}/")}  # fmt: skip
        assert of["frames_close"] == of["sites_changed"] - 1, "one down each edge of the tree"
        assert of["frames_feed"] == 2 * 11, "Begin and Finish, to every site but the manager"
        assert of["frames_log"] == 2 * 2 * 4, "both, to four voters, with their answers"
        assert of["frames_report"] >= 11
        assert of["paper_messages"] == 2 * of["sites_changed"]
        assert 0 < of["stopped_ms"] <= of["stopped_most_ms"] < of["change_ms"]


def test_leaves_and_inner_sites_are_told_apart_and_idle_ones_never_crash() -> None:
    tree = structure(x=["a", "b", "c"], y=["c", "d"])
    assert (may_crash(tree, LEAF), may_crash(tree, INNER)) == (("a", "b", "d"), ("c",))


def test_how_rare_a_loss_is_is_measured_over_many_tables() -> None:
    point = {"sites": 8, "groups": 4, "size": 4, "crashes": 1, "rate": 30, "hit": INNER}
    found = failure_costs({**point, "tables": 2}, 1, "").measures
    assert {name.partition("/")[0] for name in found} == {"non_atomic"}
    assert found["non_atomic/wrong_elsewhere"] == 0
    assert 0 <= found["non_atomic/annulled_share"] < 0.1


def test_who_waits_for_a_site_that_is_down() -> None:
    """An inner site's crash blocks deliveries among others under `wait` and not under `exclude`;
    a leaf's blocks two-phase alone."""
    point = {"sites": 8, "groups": 4, "size": 4, "crashes": 1, "rate": 30}
    inner, leaf = {**point, "hit": INNER}, {**point, "hit": LEAF}
    assert way_costs("blocking", inner, 1)["blocked_share"] > 0.1
    assert way_costs("non_atomic", inner, 1)["blocked_share"] == 0
    assert way_costs("two_phase", leaf, 1)["blocked_share"] > 0.1
    found = way_costs("blocking", leaf, 1)
    assert (found["blocked_share"], found["wrong_elsewhere"]) == (0, 0)


def row(measure: str, mean: float, **parameters: Any) -> ResultRow:
    return ResultRow(parameters, measure, mean, 0.0, 5)


def changes(**ours: float) -> Results:
    told = {"frames": 50.0, "change_ms": 50.0, "stopped_ms": 20.0, "stopped_most_ms": 30.0,
            "delay_ms": 15.0, "sites_changed": 20.0, "paper_messages": 40.0, "paper_ms": 40.0,
            "commit_messages": 60.0, "commit_ms": 56.0, **ours}  # fmt: skip
    told |= {f"frames_{kind}": 9.0 for kind in ("wish", "log", "feed", "close", "report")}
    return Results.of(
        [
            row(name, value, sites=20, protocol=protocol)
            for name, value in told.items()
            for protocol in ("propagation", "centralized")
        ]
    )


def test_a_change_is_judged_by_the_papers_way_the_commit_and_the_delay() -> None:
    def verdicts(**ours: float) -> list[str]:
        return [finding.verdict for finding in change_findings(changes(**ours))]

    assert verdicts() == [DIFFERS, AGREES, AGREES, AGREES, MEASURED]
    assert verdicts(frames=40.0)[0] == AGREES
    assert verdicts(paper_ms=60.0, stopped_ms=31.0)[1:3] == [DIFFERS, DIFFERS]
    assert verdicts(change_ms=60.0)[1] == DIFFERS, "what was measured, not a formula alone"


def failures(**special: float) -> Results:
    """Measures of every way; `blocking_leaf=0.5`: what a leaf's crash blocks there."""
    rows = []
    for crashes, hit, rate in ((0, "any", 50), (2, "any", 50), (2, LEAF, 50), (2, INNER, 50),
                               (4, INNER, 200)):  # fmt: skip
        for way in WAYS:
            at = {"crashes": crashes, "hit": hit, "rate": rate, "tables": 1, "way": way}
            slow = "committed" in way
            rows += [
                row("delay_mean_ms", 60.0 if slow else special.get("delay", 15.0), **at),
                row("frames_data", 5.0, **at),
                row("frames_control", special.get("control", 20.0), **at),
                row("wrong_elsewhere", special.get("elsewhere", 0.0), **at),
                row("annulled_share", special.get("annulled", 0.001) if crashes else 0.0, **at),
            ]
            if crashes:
                usual = {"blocking": 0.3 if hit != LEAF else 0.0, "two_phase": 0.6}.get(way, 0.0)
                blocked = special.get(f"{way}_{hit}", usual)
                rolled = special.get("rolled", 0.005)
                rows += [row("blocked_share", blocked, **at), row("rollback_share", rolled, **at)]
            else:
                rows.append(row("bare_delay_ms", 14.5, **at))
    return Results.of(rows)


@pytest.mark.parametrize(
    ("special", "place", "verdict"),
    [
        ({"annulled": 0.2, "rolled": 0.2}, 0, DIFFERS),
        ({"rolled": 0.015}, 0, PARTLY),
        ({"elsewhere": 1.0}, 1, DIFFERS),
        ({"non_atomic_any": 0.3}, 2, DIFFERS),
        ({"blocking_leaf": 0.2}, 3, DIFFERS),
        ({"blocking_inner": 0.0}, 4, DIFFERS),
        ({"blocking_any": 0.7}, 5, PARTLY),
        ({"delay": 55.0}, 6, DIFFERS),
        ({"control": 0.0}, 7, AGREES),
        ({"delay": 17.0}, 8, DIFFERS),
    ],
)
def test_every_verdict_on_failures_can_change(
    special: dict[str, float], place: int, verdict: str
) -> None:
    usual = [finding.verdict for finding in failure_findings(failures())]
    assert usual == [AGREES] * 7 + [DIFFERS, AGREES]
    assert [f.verdict for f in failure_findings(failures(**special))][place] == verdict


def test_a_site_that_crashes_twice_may_annul_twice() -> None:
    twice = [Outage("a", 10, 20), Outage("a", 50, 60), Outage("b", 50, 60)]

    def count(*at: int, annulled: int = 1) -> int:
        detail = f'{{"annulled": {annulled}}}'
        rolled = [Event("a", 1, ROLLBACK, 1, 1, 1, each, detail) for each in at]
        return crashes_that_annulled(rolled, twice)

    assert (count(), count(25), count(25, 70), count(61, 70), count(5)) == (0, 1, 2, 1, 0)
    assert count(25, annulled=0) == 0


def test_of_what_was_never_seen_it_is_told_how_rare_it_is_at_most() -> None:
    assert "by 95 %" not in failure_findings(failures())[0].measured
    none = failure_findings(failures(annulled=0.0, rolled=0.0))[0]
    assert none.verdict == AGREES
    (crashes, share) = re.findall(r"\((\d+) crashes: a share below ([\d.]+) %", none.measured)[0]
    assert float(share) == pytest.approx(300 / int(crashes), abs=0.05)
