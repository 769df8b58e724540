"""`ordercast demo` for real: nine processes, a SIGKILL, an export, and Spark's verdict."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import COMMAND, run
from ordercast.cli.demo import FIGURE_3
from ordercast.cli.demo_cluster import prepare, running
from ordercast.history.reader import read_history
from ordercast.history.rows import PRODUCER_CLIENT
from ordercast.model.errors import Error
from ordercast.net.cluster.file import read_cluster
from ordercast.net.cluster.processes import all_running

MESSAGES = "900"
EXTRAS = ("pyspark", "pyarrow", "pandas", "numpy", "matplotlib", "uvloop", "cryptography")
NO_EXTRAS = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))"


def left_behind(folder: Path) -> list[str]:
    return [daemon.site for daemon in all_running(read_cluster(folder / "cluster.toml"), folder)]


def test_the_others_go_on_while_one_is_dead_and_spark_judges_all(tmp_path: Path) -> None:
    """With `--stream`: a query between two groups, and a live audit, run beside it."""
    done = run("demo", "--out", str(tmp_path), "--messages", MESSAGES, "--stream")
    folder = tmp_path / "cluster"
    assert (done.returncode, left_behind(folder)) == (0, []), done.stderr
    told = done.stdout.splitlines()
    assert "verdict          no violation" in told
    assert "  sent        900 messages, from all nine sites to all eight groups" in told
    assert any(line.startswith("Judged on Spark: ") for line in told)
    assert "Drawn to " in done.stdout
    assert (tmp_path / "deliveries.svg").read_text(encoding="utf-8").count("d is dead") == 1
    assert done.stdout.isascii()
    lines = done.stderr.splitlines()
    assert [line for line in lines if not re.match(r" *[\d.]+ s  \w", line)] == []
    assert "now killing d (SIGKILL)" in done.stderr
    assert "300 of 300 more messages are everywhere else, without d" in done.stderr

    history = read_history(folder / "history")
    kinds = {site: [e.kind for e in history.events if e.site == site] for site in "abcdefghj"}
    assert {"restart", "excluded", "returned", "end"} <= set(kinds["d"])
    assert all(kinds[site][-1] == "end" for site in kinds)
    by_query = [row for row in history.sent if (row.client or "").startswith(PRODUCER_CLIENT)]
    sent_on = {(row.client, row.request, row.part) for row in by_query}
    asked = {(row.client, row.request, row.part) for row in history.sent}
    assert len(asked - sent_on) == 900  # what a client has repeated is there twice
    assert {row.group_name for row in by_query} == {"alpha5"}
    assert f"  sink        {len(sent_on)} of them sent on to alpha5: every tenth, each once" in told
    assert "live verdict of" in done.stderr
    lake = read_history(folder / "lake")
    assert {row.id for row in lake.sent} == {row.id for row in history.sent}
    assert set(lake.deliveries) == set(history.deliveries)
    assert {message.origin for message in history.sent} == set("abcdefghj")


def test_it_runs_without_extras_and_says_so_at_the_start_and_its_next_commands_work(
    tmp_path: Path,
) -> None:
    words = ("demo", "--out", str(tmp_path), "--messages", "90")
    done = run(*words, code=NO_EXTRAS)
    assert done.returncode == 0, done.stderr
    begin, _, end = done.stdout.partition("Judged in memory: ")
    assert "What they deliver is judged in memory, not on Spark: this needs Spark" in begin
    assert "No picture is drawn: that needs the extra 'plot'" in begin
    assert "verdict          no violation" in end
    assert "Pictures" not in end
    assert not list(tmp_path.glob("*.*"))

    commands = [line.split() for line in end.partition("Next, ")[2].splitlines() if "-m " in line]
    try:
        for command in commands:
            assert command[1:3] == ["-m", "ordercast.cli"]
            again = run(*command[3:])
            assert again.returncode == 0, (command, again.stderr)
    finally:
        run("cluster", "down", str(tmp_path / "cluster" / "cluster.toml"))
    verbs = [command[3] for command in commands]
    assert verbs == ["cluster", "send", "status", "cluster", "--help"]


def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--out", str(tmp_path), "--messages", MESSAGES]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "killing" in line:
                demo.send_signal(signal.SIGINT)
                break
        rest = demo.stderr.read()
        assert demo.wait(30) == 130
    assert rest.splitlines()[-1] == "ordercast: interrupted"
    assert "Traceback" not in rest
    assert left_behind(tmp_path / "cluster") == []


def test_what_a_killed_demo_left_is_stopped_by_the_next(tmp_path: Path) -> None:
    command = [*COMMAND, "demo", "--out", str(tmp_path), "--messages", MESSAGES]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "all are ready" in line:
                demo.kill()
                break
        demo.stderr.read()
    folder = tmp_path / "cluster"
    assert left_behind(folder) == sorted("abcdefghj")
    code = "from ordercast.cli.demo_cluster import prepare; from ordercast.cli.demo import FIGURE_3"
    script = f"{code}; from pathlib import Path; prepare(Path({str(folder)!r}), FIGURE_3, print)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=dict(os.environ)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"an earlier demo still ran from {folder}: stopped\n"
    assert left_behind(folder) == []
    assert sorted(path.name for path in folder.iterdir()) == ["cluster.toml", "secret"]


def test_a_site_that_cannot_start_is_named_and_the_others_are_stopped(tmp_path: Path) -> None:
    cluster = prepare(tmp_path / "cluster", FIGURE_3, print)
    with (
        socket.create_server(cluster.address("j")),
        pytest.raises(Error) as refused,
        running(cluster, tmp_path / "cluster"),
    ):
        raise AssertionError("it started")
    assert str(refused.value).startswith("site j did not start: ")
    assert str(refused.value).count("\n") == 0
    assert left_behind(tmp_path / "cluster") == []
