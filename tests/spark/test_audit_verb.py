"""`ordercast audit` from simulation to verdict: both engines, planted faults, bad folders."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from ordercast.check.report import check_history
from ordercast.cli import main
from ordercast.history.lake_compaction import compact_lake
from ordercast.history.reader import read_history
from ordercast.history.rows import Delivered, History
from ordercast.history.writer import write_history
from ordercast.model.messages import MessageId
from ordercast.net.export.lake_export import append
from ordercast.pipeline.audits import audit as audit_module
from support.cases.faults import FAULTS, Fault
from support.cases.fuzz import named, right_history, together
from support.judges.witnesses import complaints
from support.stores.exporting import Cluster

GROUPS = '{"groups": {"alpha": ["a", "b", "c"], "beta": ["b", "c", "d"], "gamma": ["a", "d"]}}'


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated") / "history"
    options = ["--messages", "60", "--faults", "loss=0.05", "--causal", "--seed", "3"]
    assert main(["sim", GROUPS, *options, "--history", str(folder)]) == 0
    return folder


@pytest.fixture
def said(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs the verb in this process, where it finds the suite's session."""
    assert spark is not None

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(["audit", *arguments])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


@pytest.fixture(params=["at the driver", "on workers"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small histories are judged at the driver unless it is told not to."""
    if request.param == "on workers":
        monkeypatch.setattr(audit_module, "ROWS_AT_DRIVER", -1)


def verdict(output: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output)
    del found["seconds"]
    return found


@pytest.mark.usefixtures("either_way")
def test_a_simulation_is_in_order_by_both_engines(simulated: Path, said: Any) -> None:
    on_spark = said(str(simulated), "--causal", "--json")
    in_memory = said(str(simulated), "--causal", "--json", "--engine", "memory")
    assert on_spark[0] == in_memory[0] == 0
    assert verdict(on_spark[1]) == verdict(in_memory[1])
    assert verdict(on_spark[1])["ok"]
    assert on_spark[2] == ""


def test_the_verdict_is_told_in_words(simulated: Path, said: Any) -> None:
    code, output, _ = said(str(simulated))
    assert code == 0
    assert output.startswith("history      ")
    assert output.endswith("verdict      no violation\n")


def spoiled(simulated: Path, fault: Fault) -> History:
    """The simulated history with a fault in it, or, where it has no room for that, a fuzzed one."""
    for seed in range(200):
        rng = random.Random(seed)
        for history in (read_history(simulated), right_history(rng)):
            if fault(rng, history) and not check_history(history, causal=True).ok:
                return history
    raise AssertionError(f"{fault.__name__} is never a violation")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_planted_in_the_files_is_counted_and_shown(
    fault: Fault, simulated: Path, said: Any, tmp_path: Path
) -> None:
    history = spoiled(simulated, fault)
    write_history(history, tmp_path / "broken")
    arguments = (str(tmp_path / "broken"), "--causal", "--json")
    code, output, _ = said(*arguments)
    assert code == 1
    assert verdict(output) == verdict(said(*arguments, "--engine", "memory")[1])
    assert complaints(history, verdict(output)) == []


@pytest.mark.usefixtures("either_way")
def test_all_faults_at_once_are_counted_and_listed(
    simulated: Path, said: Any, tmp_path: Path
) -> None:
    """Every fault in a run of its own."""
    runs = [named(spoiled(simulated, fault), fault.__name__) for fault in FAULTS]
    write_history(together(runs), tmp_path / "broken")
    listed = tmp_path / "violations"
    arguments = (str(tmp_path / "broken"), "--causal", "--json")
    code, output, _ = said(*arguments, "--violations", str(listed))
    assert code == 1
    found = verdict(output)
    assert found == verdict(said(*arguments, "--engine", "memory")[1])
    assert all(found["checks"].values())
    table = pq.read_table(listed)
    assert table.num_rows == sum(found["checks"].values())
    assert set(table.column("run").to_pylist()) == {fault.__name__ for fault in FAULTS}


def planted(simulated: Path, where: Path, change: Any) -> str:
    history = read_history(simulated)
    change(history)
    write_history(history, where)
    return str(where)


def order_at(history: History, site: str) -> list[Delivered]:
    return sorted((r for r in history.deliveries if r.site == site), key=lambda r: r.position)


def swap_neighbours(history: History) -> None:
    """At b, two messages of different groups, neighbours at c too, which have nothing between them
    at any site: then they are the whole tangle."""
    orders = {site: [row.id for row in order_at(history, site)] for site in "abcd"}

    def after(one: MessageId) -> set[MessageId]:
        return {x for own in orders.values() if one in own for x in own[own.index(one) + 1 :]}

    def before(one: MessageId) -> set[MessageId]:
        return {x for own in orders.values() if one in own for x in own[: own.index(one)]}

    one, two = next(
        (x, y)
        for x, y in pairwise(order_at(history, "b"))
        if x.group_name != y.group_name
        and (x.id, y.id) in set(pairwise(orders["c"]))
        and not after(x.id) & before(y.id)
    )
    history.deliveries = [row for row in history.deliveries if row not in (one, two)]
    history.deliveries += [replace(two, position=one.position), replace(one, position=two.position)]


def test_a_swap_in_the_files_is_one_pair_of_sites_and_two_neighbours(
    simulated: Path, said: Any, tmp_path: Path
) -> None:
    code, output, _ = said(planted(simulated, tmp_path / "h", swap_neighbours), "--json")
    found = verdict(output)
    witness = found["witnesses"]["pairwise_order"]
    assert code == 1
    assert found["checks"]["acyclic_order"] == 2
    assert found["checks"]["pairwise_order"] == 1
    assert len(witness["messages"]) == 2
    assert witness["sites"] == ["b", "c"]
    assert all(abs(x - y) == 1 for x, y in witness["positions"].values())


def test_a_wrong_digest_in_the_files_is_that_row(
    simulated: Path, said: Any, tmp_path: Path
) -> None:
    def spoil(history: History) -> None:
        history.deliveries[40] = replace(history.deliveries[40], digest=5)

    row = read_history(simulated).deliveries[40]
    code, output, _ = said(planted(simulated, tmp_path / "h", spoil), "--json")
    found = verdict(output)
    assert code == 1
    assert found["checks"] == {**dict.fromkeys(found["checks"], 0), "integrity": 1}
    witness = found["witnesses"]["integrity"]
    assert (witness["site"], witness["position"]) == (row.site, row.position)
    assert witness["reasons"] == ["another digest"]


def missing_column(folder: Path) -> None:
    file = next((folder / "deliveries").glob("*.parquet"))
    pq.write_table(pq.read_table(file).drop_columns(["epoch"]), file)


def wrong_type(folder: Path) -> None:
    file = next((folder / "sent").glob("*.parquet"))
    table = pq.read_table(file)
    at = table.column_names.index("seq")
    pq.write_table(table.set_column(at, "seq", table.column("seq").cast(pa.string())), file)


def null_value(folder: Path) -> None:
    file = next((folder / "deliveries").glob("*.parquet"))
    table = pq.read_table(file)
    at = table.column_names.index("position")
    values = [None, *table.column("position").to_pylist()[1:]]
    pq.write_table(table.set_column(at, "position", pa.array(values, pa.int64())), file)


def truncated_file(folder: Path) -> None:
    file = next((folder / "deliveries").glob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])


def damaged_file(folder: Path) -> None:
    """Whole by its footer; what it says about the rows is not there."""
    file = next((folder / "deliveries").glob("*.parquet"))
    data = bytearray(file.read_bytes())
    data[4:400] = bytes(396)
    file.write_bytes(bytes(data))


def no_table(folder: Path) -> None:
    shutil.rmtree(folder / "sent")


def no_files(folder: Path) -> None:
    shutil.rmtree(folder / "sent")
    (folder / "sent").mkdir()


def empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def absent(folder: Path) -> None:
    shutil.rmtree(folder)


def partitioned(folder: Path) -> None:
    """As Spark writes it with `partitionBy`: the column is in no file."""
    file = next((folder / "deliveries").glob("*.parquet"))
    (folder / "deliveries" / "run=a").mkdir()
    file.rename(folder / "deliveries" / "run=a" / file.name)


def another_version(folder: Path) -> None:
    (folder / "meta.json").write_text('{"schema_version": 9}')


@pytest.mark.parametrize(
    ("engine", "at_driver"),
    [("spark", 100_000), ("spark", -1), ("memory", 0)],
    ids=["driver", "workers", "memory"],
)
@pytest.mark.parametrize(
    ("spoil", "tells"),
    [
        (missing_column, "field 'epoch' (int64) is missing from deliveries"),
        (wrong_type, "field 'seq': type string instead of int64"),
        (null_value, "field 'position': null in"),
        (truncated_file, "cannot be read as Parquet: "),
        (damaged_file, "deliveries/part-00000.parquet: "),
        (no_table, "sent: the table is missing (a folder of Parquet files)"),
        (no_files, "sent: there is no Parquet file in it"),
        (empty, "is empty; a history has meta.json and groups, sent,"),
        (absent, "there is no such folder"),
        (partitioned, "field 'run' is only in the name of the folder 'run=a': write it as a"),
        (another_version, "field 'schema_version': 9 is not known"),
    ],
)
def test_a_bad_folder_is_one_clear_line_and_exit_2(
    simulated: Path,
    said: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Any,
    tells: str,
    engine: str,
    at_driver: int,
) -> None:
    monkeypatch.setattr(audit_module, "ROWS_AT_DRIVER", at_driver)
    folder = tmp_path / "history"
    shutil.copytree(simulated, folder)
    spoil(folder)
    code, output, error = said(str(folder), "--engine", engine)
    assert code == 2
    assert output == ""
    assert error.count("\n") == 1
    assert error.startswith("ordercast: ")
    assert tells in error


@pytest.mark.parametrize(
    ("arguments", "tells"),
    [
        (
            ["x", "--engine", "memori"],
            "'memori' is none of spark, memory, auto (did you mean 'memory'?)",
        ),
        (["x", "--engine", "memory", "--master", "local[2]"], "--master needs --engine spark"),
        (["x", "--violations", "."], "--violations .: is there already"),
        (["x", "--memory", "2gb"], "--memory: '2gb' is not a size like 2g or 512m"),
        (["x", "--conf", "cores=2"], "--conf: 'cores=2' is not spark.NAME=VALUE"),
        (["x", "--engine", "memory", "--py-files", "x.py"], "--py-files needs --engine spark"),
        ([], "HISTORY"),
    ],
)
def test_a_wrong_option_is_one_clear_line(
    said: Any, simulated: Path, arguments: list[str], tells: str
) -> None:
    given = [str(simulated) if word == "x" else word for word in arguments]
    code, _, error = said(*given)
    assert (code, error.count("\n")) == (2, 1)
    assert tells in error


def test_a_partitioned_uri_is_refused_too(simulated: Path, said: Any, tmp_path: Path) -> None:
    folder = tmp_path / "history"
    shutil.copytree(simulated, folder)
    partitioned(folder)
    code, _, error = said(folder.as_uri())
    assert (code, error.count("\n")) == (2, 1)
    assert "field 'run' is only in the name of the folder 'run=a'" in error


@pytest.mark.usefixtures("either_way")
def test_chosen_runs_are_judged_as_if_they_were_alone(
    simulated: Path, said: Any, tmp_path: Path
) -> None:
    good, other = read_history(simulated), read_history(simulated)
    swap_neighbours(other)
    runs = [named(good, "good"), named(other, "bad"), named(read_history(simulated), "third")]
    whole = together(runs)
    whole.groups, whole.epochs = good.groups, good.epochs  # without a name they hold for all runs
    write_history(whole, tmp_path / "h")
    assert said(str(tmp_path / "h"))[0] == 1
    for chosen, code, count in ((["good", "third"], 0, 2), (["bad"], 1, 1)):
        arguments = (str(tmp_path / "h"), "--json", "--run", *chosen)
        found = said(*arguments)
        assert found[0] == code
        assert verdict(found[1])["runs"] == count
        assert verdict(found[1]) == verdict(said(*arguments, "--engine", "memory")[1])
    for engine in ("spark", "memory"):
        wrong = said(str(tmp_path / "h"), "--run", "goood", "--engine", engine)
        assert wrong[0] == 2
        assert "run 'goood': the history has no such run" in wrong[2]


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_lake_is_judged_as_any_history(kind: str, said: Any, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for _ in range(2):
        cluster.some(1)
        append(tmp_path, tmp_path / "lake", kind=kind)
    compact_lake(tmp_path / "lake", keep_s=60)
    cluster.close()
    append(tmp_path, tmp_path / "lake")
    found = []
    for engine in ("spark", "memory"):
        code, out, _ = said(str(tmp_path / "lake"), "--json", "--engine", engine)
        assert code == 0
        found.append({**json.loads(out), "seconds": 0})
    assert found[0] == found[1]
    assert (found[0]["rows"], found[0]["ok"]) == (48, True)
    for more in ((), ("--follow", "--once")):
        code, _, err = said((tmp_path / "lake").as_uri(), *more)
        assert (code, err.count("\n")) == (2, 1)
        assert "/lake: is a lake, whose files do not all count: give its folder" in err
    code, out, err = said(str(tmp_path / "lake"), "--follow", "--once", "--json")
    if kind == "delta":
        assert code == 2
        assert "is a lake of Delta tables, which one process follows: --engine memory" in err
    else:
        assert {name: json.loads(out.splitlines()[-1])[name] for name in found[0]} | {
            "seconds": 0
        } == found[0]


def test_auto_takes_one_process_for_little_and_says_so(simulated: Path, said: Any) -> None:
    code, output, error = said(str(simulated), "--engine", "auto", "--json")
    assert (code, error) == (0, "engine memory: 213 rows\n")
    assert verdict(output) == verdict(said(str(simulated), "--json")[1])
    code, _, error = said(simulated.as_uri(), "--engine", "auto")
    assert (code, error) == (0, "engine spark: a URI\n")


def test_a_session_that_is_open_is_taken_whichever_thread_asks(
    simulated: Path, said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other JVM is started."""
    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", None)
    with ThreadPoolExecutor(1) as other:
        for _ in range(2):
            assert other.submit(said, str(simulated)).result()[0] == 0


COMMAND = "import sys; from ordercast.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_spark_starts_is_one_line_and_leaves_nothing(
    simulated: Path, tmp_path: Path, number: signal.Signals
) -> None:
    command = [sys.executable, "-c", COMMAND, "audit", str(simulated), "--memory", "512m"]
    environment = {name: text for name, text in os.environ.items() if "PYSPARK" not in name}
    with subprocess.Popen(
        command, env={**environment, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == "starting Spark\n"
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        said, complaints = process.communicate(timeout=120)
    told = [line for line in complaints.splitlines() if not line.startswith("starting Spark: ")]
    assert (process.returncode, said, told) == (130, "", ["ordercast: interrupted"])
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_does_not_wait_for_a_jvm_that_takes_long(simulated: Path, tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    answer, running = "echo 'openjdk version \"17.0.1\"' >&2", tmp_path / "running"
    java.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && {answer} && exit\n: > {running}\nexec sleep 3600\n'
    )
    java.chmod(0o755)
    command = [sys.executable, "-c", COMMAND, "audit", str(simulated), "--memory", "512m"]
    environment = {name: text for name, text in os.environ.items() if "PYSPARK" not in name}
    with subprocess.Popen(
        command, env={**environment, "JAVA_HOME": str(java.parents[1])}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline() == "starting Spark\n"
        while not running.exists():
            assert process.poll() is None
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        said, complaints = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "")
    assert complaints.splitlines()[-1] == "ordercast: interrupted"
