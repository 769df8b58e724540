"""A cluster of real daemons that changes under load, with kills: its history judged on Spark, on
workers, and the same verdict in memory; and a message moved across an epoch is found."""

import asyncio
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from ordercast.cli import main
from ordercast.history.reader import read_history
from ordercast.history.writer import write_history
from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Edit,
    JoinGroup,
    LeaveGroup,
    RetireSite,
    UseProtocol,
)
from ordercast.pipeline.audits import audit as audit_module
from processes.daemons import Daemons, up
from support.clusters.changed_cluster import changed
from support.harness import loops

GROUPS = {"alpha": ["a", "b", "c"], "gamma": ["d"]}
SENDERS = {"a": ("alpha", "gamma"), "b": ("alpha",), "d": ("gamma", "alpha")}
SCRIPT: Sequence[Sequence[Edit]] = (
    [UseProtocol("centralized")],
    [AddGroup("delta", ("c", "d"))],
    [AddSite("e")],
    [JoinGroup("alpha", "e")],
    [UseProtocol("propagation")],
    [LeaveGroup("alpha", "e"), JoinGroup("gamma", "e")],
    [RetireSite("e")],
)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("changed")
    with up(place, groups=GROUPS, durability="os", voters=["a", "b", "c"]) as daemons:
        loops.run(_run(daemons))
    return place / "history"


async def _run(daemons: Daemons) -> None:
    async with changed(daemons, SENDERS, 4) as running:
        told = await running.run(SCRIPT)
        if not told.wrong:
            await asyncio.to_thread(running.judge)  # in memory, and what was acknowledged
        assert not told.wrong, told.wrong[:5]
        assert sum(told.kills.values()) >= 4


def verdict(
    folder: Path, engine: str, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, Any]]:
    code = main(["audit", str(folder), "--engine", engine, "--json"])
    found = json.loads(capsys.readouterr().out)
    del found["seconds"]
    return code, found


def test_spark_finds_no_violation_over_all_epochs(
    history: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None
    monkeypatch.setattr(audit_module, "ROWS_AT_DRIVER", -1)
    code, found = verdict(history, "spark", capsys)
    assert (code, found["ok"], found["informative"]["pending"]) == (0, True, 0)
    assert found["messages"] > 100
    assert (code, found) == verdict(history, "memory", capsys)
    assert len({row.epoch for row in read_history(history).deliveries}) >= 5


def test_spark_finds_a_message_that_is_in_two_epochs(
    history: Path,
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None
    rows = read_history(history)
    last = max(
        n for n, row in enumerate(rows.deliveries) if row.site == "a" and row.group_name == "alpha"
    )
    moved = list(rows.deliveries)
    moved[last] = replace(moved[last], epoch=moved[last].epoch - 1)
    write_history(dataclasses.replace(rows, deliveries=moved), tmp_path / "moved")
    code, found = verdict(tmp_path / "moved", "spark", capsys)
    assert (code, found["ok"]) == (1, False)
    assert found["checks"]["integrity"] > 0
