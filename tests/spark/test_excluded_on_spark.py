"""Exports of members under `exclude`, one of whom is absent or has rolled back: both engines judge
them alike."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.history.rows import History
from ordercast.net.export.history import export
from ordercast.pipeline import audit
from ordercast.pipeline.audits import audit as audit_module
from support.clusters.processes import Processes, write_cluster
from support.judges.parts import arrow_table
from support.worlds.stored_members import cut_off


@pytest.fixture(autouse=True)
def on_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "ROWS_AT_DRIVER", -1)


def judged_alike(spark: SparkSession, history: History) -> tuple[int, int]:
    """Unagreed and annulled rows."""
    tables: dict[str, Any] = {
        name: spark.createDataFrame(arrow_table(name, rows))
        for name, rows in history.tables().items()
    }
    found, expected = audit(spark, **tables), check_history(history)
    assert found.ok
    assert found.checks == expected.checks
    told = expected.as_json()["informative"]
    assert found.informative == told
    return told["unagreed"], told["annulled"]


@pytest.mark.parametrize("deliver", ["agreed", "safe"])
def test_both_engines_agree_on_who_was_cut_off(
    deliver: str, spark: SparkSession, tmp_path: Path
) -> None:
    world = cut_off(tmp_path, deliver)
    export(tmp_path, tmp_path / "absent")
    unagreed, annulled = judged_alike(spark, read_history(tmp_path / "absent"))
    assert (unagreed > 0, annulled) == (deliver == "agreed", 0)
    world.partition([])
    world.settle()
    world.close()
    export(tmp_path, tmp_path / "returned")
    unagreed, annulled = judged_alike(spark, read_history(tmp_path / "returned"))
    assert (unagreed, annulled > 0) == (0, deliver == "agreed")


def test_both_engines_find_killed_processes_sound(spark: SparkSession, tmp_path: Path) -> None:
    """Real ones: each role is killed once, and returns."""
    groups = {"alpha": ["a", "b", "c"], "beta": ["b", "c", "d"], "gamma": ["a", "d"]}
    cluster = write_cluster(
        tmp_path, groups, {"deliver": "agreed"}, outside=["x"], timeouts={"suspect": "500ms"}
    )
    with Processes(tmp_path, cluster, messages=1_000, seed=1) as running:
        roles = len(running.roles())
        running.kill_at_random(roles, pause_s=0.4, down_s=0.4)
        running.settle(180)
        running.stop()
        verdict = running.judge()
    assert not verdict.wrong, verdict.wrong[:5]
    assert sum(verdict.kills.values()) == len(verdict.kills) == roles
    unagreed, _ = judged_alike(spark, read_history(tmp_path / "history"))
    assert unagreed == 0
