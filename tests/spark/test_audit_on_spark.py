"""The audit on Spark itself: it agrees with memory on many runs at once and over many parts."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from ordercast.check.report import check_history
from ordercast.history.rows import History
from ordercast.model.errors import ConfigError
from ordercast.pipeline import audit
from ordercast.pipeline.audits import audit as audit_module
from ordercast.pipeline.audits.audit import AuditResult
from ordercast.pipeline.audits.spark_work import SparkWork
from ordercast.pipeline.audits.tasks import JudgingTask
from support.cases.faults import any_history
from support.cases.fuzz import named, together
from support.cases.large import move, ring_of_four, rows_at, steady, wide_ring
from support.judges.parts import arrow_table

RUNS = 500
Audit = Callable[[History, int], AuditResult]


def frames(spark: SparkSession, history: History) -> dict[str, Any]:
    return {
        name: spark.createDataFrame(arrow_table(name, rows))
        for name, rows in history.tables().items()
    }


@pytest.fixture(autouse=True)
def however_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small histories are judged at the driver; here all go through the workers."""
    monkeypatch.setattr(audit_module, "ROWS_AT_DRIVER", -1)


@pytest.fixture
def in_parts(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Audit:
    def audited(history: History, rows_per_part: int) -> AuditResult:
        monkeypatch.setattr(audit_module, "ROWS_PER_PART", rows_per_part)
        found = audit(spark, **frames(spark, history))
        assert found.parts > 3
        return found

    return audited


def without_time(found: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key != "seconds"}


def test_both_engines_agree_on_500_runs_in_one_history(spark: SparkSession) -> None:
    whole = together(named(any_history(seed), f"r{seed:03}") for seed in range(RUNS))
    found = audit(spark, **frames(spark, whole), causal=True)
    expected = check_history(whole, causal=True).as_json()
    assert found.runs == RUNS
    assert without_time(found.as_json()) == without_time(expected)
    listed = Counter(row["check"] for row in found.violations.select("check").collect())
    assert dict(listed) == {name: count for name, count in found.checks.items() if count}


def test_a_history_in_order_is_cut_well_and_found_in_order(in_parts: Audit) -> None:
    found = in_parts(steady(3_000), 1_000)
    assert found.ok
    assert (found.rows, found.messages, found.sites, found.parts) == (9_000, 3_000, 6, 9)


def test_a_very_late_message_is_found_through_all_parts(in_parts: Audit) -> None:
    """It crosses every cut: parts are contracted, not merged, and no larger than before."""
    history = steady(3_000)
    move(history, "s2", 20, 1_480)
    found = in_parts(history, 1_000)
    expected = check_history(history).as_json()
    assert found.parts == 9
    assert found.checks["acyclic_order"] > 2_000
    assert without_time(found.as_json()) == without_time(expected)
    tangled = found.violations.where("check = 'acyclic_order'").count()
    assert tangled == found.checks["acyclic_order"]


def test_a_ring_of_three_sites_through_all_parts_is_found(in_parts: Audit) -> None:
    """No two sites disagree, and no part alone has a cycle."""
    history = wide_ring(600)
    found = in_parts(history, 300)
    expected = check_history(history).as_json()
    assert without_time(found.as_json()) == without_time(expected)
    assert found.checks["pairwise_order"] == 0
    assert found.checks["acyclic_order"] == 3 * 590 + 3
    ring = found.witnesses["acyclic_order"]
    assert {message[2] for message in ring["messages"]} == {"ab", "bc", "ca"}
    assert sorted(map(tuple, ring["positions"])) == [(6, 597), (6, 597), (6, 597)]


def test_a_search_that_is_cut_short_is_named_and_counts_stay_exact(
    spark: SparkSession,
) -> None:
    history = ring_of_four(400)
    found = audit(spark, **frames(spark, history))
    assert list(found.truncated) == ["acyclic_order"]
    assert found.checks == check_history(history).checks
    assert found.checks["acyclic_order"] == 1_600
    assert len(found.witnesses["acyclic_order"]["messages"]) == 4


def test_lost_rows_and_swaps_far_apart_are_counted_exactly(in_parts: Audit) -> None:
    history = steady(3_000)
    move(history, "s1", 100, 104)
    move(history, "s4", 900, 903)
    del history.deliveries[rows_at(history, "s3")[700]]  # a hole, and a message that s3 lacks
    repeated = history.deliveries[rows_at(history, "s5")[3]]
    last = len(rows_at(history, "s5"))
    history.deliveries.append(replace(repeated, position=last + 1))  # again, a whole history later
    gone = history.sent[1_500].id
    history.deliveries = [row for row in history.deliveries if row.id != gone]
    found = in_parts(history, 1_000)
    assert without_time(found.as_json()) == without_time(check_history(history).as_json())
    assert found.checks["integrity"] == 1
    assert found.checks["lost"] == 1
    assert found.checks["fifo"] >= 1
    assert found.checks["positions"] >= 1


def asked_for(history: History, clients: int = 40) -> History:
    """The same history, of clients that asked for up to three messages at a time."""
    asked = {
        sent.id: {
            "client": f"{n % clients:032x}",
            "request": n // clients // 3,
            "part": n // clients % 3,
        }
        for n, sent in enumerate(history.sent)
    }
    history.sent = [replace(row, **asked[row.id]) for row in history.sent]
    history.deliveries = [replace(row, **asked[row.id]) for row in history.deliveries]
    return history


def again(history: History, one: int, other: int) -> None:
    """What one message was asked for is what another one was asked for."""
    first, second = history.sent[one], history.sent[other].id
    asked = {"client": first.client, "request": first.request, "part": first.part}
    for rows in (history.sent, history.deliveries):
        rows[:] = [replace(row, **asked) if row.id == second else row for row in rows]  # type: ignore[misc]


def test_requests_that_became_two_messages_are_found_wherever_these_are(in_parts: Audit) -> None:
    history = asked_for(steady(3_000))
    assert in_parts(history, 1_000).ok
    for one, other in ((5, 2_900), (6, 2_000), (6, 1_000), (40, 41)):
        again(history, one, other)
    found = in_parts(history, 1_000)
    assert without_time(found.as_json()) == without_time(check_history(history).as_json())
    assert found.checks == {**dict.fromkeys(found.checks, 0), "resent": 3}
    rows = found.violations.select("check", "client", "request", "part").collect()
    assert {row["check"] for row in rows} == {"resent"}
    expected = {(s.client, s.request, s.part) for s in (history.sent[n] for n in (5, 6, 40))}
    assert sorted(tuple(row)[1:] for row in rows) == sorted(expected)


@pytest.mark.parametrize("columns", ["none", "null", "filled"])
def test_a_history_without_clients_costs_no_job_more(
    spark: SparkSession, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither without the columns nor with empty ones; with clients, it is the same jobs."""
    history = asked_for(steady(300)) if columns == "filled" else steady(300)
    given = frames(spark, history)
    if columns == "none":
        asked = ("client", "request", "part")
        given |= {name: given[name].drop(*asked) for name in ("sent", "deliveries")}
    divided: list[int] = []
    plan = SparkWork._plan

    def watched(work: SparkWork, task: JudgingTask) -> Any:
        divided.append(task.request_shares)
        return plan(work, task)

    monkeypatch.setattr(SparkWork, "_plan", watched)
    assert audit(spark, **given).ok
    assert divided == [1 if columns == "filled" else 0]


def test_clocks_do_not_matter(in_parts: Audit) -> None:
    history = steady(2_000)
    rng = random.Random(5)
    history.deliveries = [
        replace(row, delivered_ns=rng.randrange(1_000_000)) for row in history.deliveries
    ]
    move(history, "s1", 100, 103)
    found = in_parts(history, 700)
    assert without_time(found.as_json()) == without_time(check_history(history).as_json())


@pytest.fixture
def large_types(spark: SparkSession) -> Iterator[None]:
    """The session wants Arrow's large types of functions, and gives them."""
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    spark.conf.set(name, "true")
    yield
    spark.conf.unset(name)


@pytest.mark.usefixtures("large_types")
def test_any_partitioning_and_other_widths_of_columns_will_do(spark: SparkSession) -> None:
    history = named(steady(300), "one")
    move(history, "s1", 100, 103)
    given = frames(spark, history)
    given["deliveries"] = (
        given["deliveries"].repartition(7).withColumn("attempt", f.col("attempt").cast("short"))
    )
    given["sent"] = given["sent"].drop("digest").orderBy(f.desc("seq"))
    found = audit(spark, **given, causal=True)
    expected = check_history(history, causal=True).as_json()
    assert without_time(found.as_json()) == without_time(expected)
    assert found.violations.count() == sum(found.checks.values()) > 0


def test_events_and_epochs_may_be_left_out(spark: SparkSession) -> None:
    history = steady(200)
    del history.deliveries[-1]
    given = frames(spark, history)
    found = audit(spark, deliveries=given["deliveries"], sent=given["sent"], groups=given["groups"])
    history.events, history.epochs = [], []
    assert without_time(found.as_json()) == without_time(check_history(history).as_json())


def test_an_empty_history_is_in_order(spark: SparkSession) -> None:
    found = audit(spark, **frames(spark, History()), causal=True)
    assert found.ok
    assert (found.rows, found.sites, found.messages, found.runs) == (0, 0, 0, 1)
    assert found.violations.count() == 0


@pytest.mark.parametrize("at_driver", [-1, 1_000], ids=["workers", "driver"])
@pytest.mark.parametrize(
    ("table", "change", "said"),
    [
        (
            "deliveries",
            lambda d: d.drop("epoch"),
            r"deliveries: field 'epoch' \(int64\) is missing",
        ),
        (
            "sent",
            lambda d: d.withColumn("seq", f.col("seq").cast("string")),
            "sent: field 'seq': type string instead of int64",
        ),
        (
            "deliveries",
            lambda d: d.withColumn("position", f.expr("if(position = 3, null, position)")),
            "deliveries: field 'position': null in some row",
        ),
        (
            "events",
            lambda d: d.withColumn("kind", f.lit("ende")),
            "events: field 'kind': 'ende' is not a kind of event.*did you mean 'end'",
        ),
        (
            "deliveries",
            lambda d: d.withColumn("client", f.lit("c")),
            "deliveries: field 'request': null in some row that names a client",
        ),
        (
            "sent",
            lambda d: d.withColumn("client", f.expr("if(seq = 2, 'c', null)")).drop("request"),
            "sent: field 'request': null in some row that names a client",
        ),
        (
            "sent",
            lambda d: d.withColumn("client", f.lit(5)),
            "sent: field 'client': type int instead of string",
        ),
        (
            "epochs",
            lambda d: d.withColumn("deliver", f.lit("save")),
            "epochs: epoch 1: field 'deliver': 'save' is not a level.*did you mean 'safe'",
        ),
        (
            "sent",
            lambda d: d.withColumn("seq", f.expr("if(seq = 1, 1, 4000000000000000000)")),
            "field 'seq': from 1 to 4000000000000000000 is too wide a range",
        ),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    change: Any,
    said: str,
    at_driver: int,
) -> None:
    monkeypatch.setattr(audit_module, "ROWS_AT_DRIVER", at_driver)
    given = frames(spark, steady(20))
    given[table] = change(given[table])
    with pytest.raises(ConfigError, match=said):
        audit(spark, **given)


def test_the_audit_leaves_nothing_cached(spark: SparkSession, tmp_path: Path) -> None:
    given = frames(spark, steady(50))
    found = audit(spark, **given)
    found.violations.write.parquet(str(tmp_path / "violations"))
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
