"""What executors get, and the one line where that is not enough."""

import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import pytest

from ordercast.model.version import __version__
from ordercast.pipeline.complaints import essence
from ordercast.pipeline.preflight import complaint
from ordercast.pipeline.session import session_settings
from ordercast.pipeline.shipping import ARCHIVES, PATHS, PYTHON, python_of, shipped


def test_a_bare_python_runs_us_with_what_is_shipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("ordercast.pipeline.shipping._EXTRAS", ("history",))  # fewer bytes
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    settings = shipped({ARCHIVES: "own.zip", PATHS: "own"}, python)
    own, *archives = settings[ARCHIVES].split(",")
    assert own == "own.zip"
    for each in archives:  # as Spark unpacks them, in the executor's folder
        file, _, name = each.partition("#")
        with tarfile.open(file) as archive:
            archive.extractall(tmp_path / "work" / name, filter="tar")
    code = "import ordercast, pyarrow, msgspec; print(ordercast.__file__, pyarrow.__file__)"
    said = subprocess.run(
        [settings[PYTHON], "-c", code], env={"PYTHONPATH": settings[PATHS]}, cwd=tmp_path / "work",
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert all(str(tmp_path / "work") in file for file in said.split())
    made = {file: file.stat().st_ino for file in (tmp_path / "cache").rglob("*.tar.gz")}
    assert settings[PATHS].startswith("own:")
    assert shipped({ARCHIVES: "own.zip", PATHS: "own"}, python) == settings
    again = {file: file.stat().st_ino for file in (tmp_path / "cache").rglob("*.tar.gz")}
    assert (again, len(made)) == (made, 2)  # kept, not made again


def test_the_name_of_the_executors_python_means_the_drivers_own_at_the_driver(
    tmp_path: Path,
) -> None:
    """Spark plans a data source at the driver by the name that executors run it by."""
    started = python_of("python3.99", tmp_path)
    assert started["PYSPARK_PYTHON"] == started["PYSPARK_DRIVER_PYTHON"] == "python3.99"
    found = shutil.which("python3.99", path=started["PATH"])
    code = "import sys; print(sys.prefix)"
    said = subprocess.run([str(found), "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == sys.prefix
    by_path = python_of("/usr/own/python", tmp_path)
    assert by_path == {"PYSPARK_PYTHON": "/usr/own/python", "PYSPARK_DRIVER_PYTHON": sys.executable}


@pytest.mark.parametrize("master", ["spark://m:7077", "yarn", "k8s://https://m:6443"])
def test_every_kind_of_cluster_gets_the_same_settings(
    master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are given to Spark, which is not started here: there is no YARN and no Kubernetes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("ordercast.pipeline.shipping._packages", lambda: Path("packages.tar.gz"))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    asked = {"spark.executor.cores": "2", "spark.driver.memory": "3g"}
    found = session_settings("app", master, "1g", asked, str(tmp_path), brief=False)
    assert (found["spark.master"], found["spark.executor.cores"]) == (master, "2")
    assert found["spark.driver.memory"] == "3g"  # settings win over ours
    assert "spark.driver.host" not in found  # executors elsewhere must reach the driver
    assert found[PYTHON] == f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert found[PATHS] == "ordercast-code:ordercast-packages"
    assert [each.partition("#")[2] for each in found[ARCHIVES].split(",")] == found[PATHS].split(
        ":"
    )
    here = session_settings("app", "local[2]", "1g", {}, str(tmp_path), brief=True)
    assert here["spark.driver.host"] == "127.0.0.1"
    assert ARCHIVES not in here


def test_who_names_a_python_of_the_executors_gets_nothing() -> None:
    assert shipped({PYTHON: "envs/own/bin/python"}, None) == {}


def told(**changed: str | None) -> dict[str, str | None]:
    import msgspec
    import pyarrow as pa

    return {
        "host": "h1", "executable": "/usr/bin/python3", "numpy": "2", "pandas": "2",
        "python": ".".join(map(str, sys.version_info[:3])), "ordercast": __version__,
        "pyarrow": pa.__version__, "msgspec": msgspec.__version__, **changed,
    }  # fmt: skip


def test_what_differs_on_an_executor_is_told_with_its_cure() -> None:
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert complaint(told()) == ""
    assert complaint(told(python=f"{minor}.99")) == ""  # what is packed fits every 3.x.y
    text = complaint(told(python="3.9.1"))
    assert text.startswith("executor on h1 (/usr/bin/python3) has Python 3.9.1, the driver ")
    assert text.endswith(f"name a Python {minor} of the executors by PYSPARK_PYTHON")
    assert "pip install pyarrow==" in complaint(told(pyarrow="1.0"))
    assert "has ordercast 0.0.1, the driver" in complaint(told(ordercast="0.0.1"))
    text = complaint(told(ordercast=None, why="ModuleNotFoundError: No module named 'ordercast'"))
    assert "has no ordercast (ModuleNotFoundError: No module named 'ordercast')" in text
    assert f"pip install 'ordercast[spark]=={__version__}' there" in text


def test_the_cause_is_found_in_a_long_complaint() -> None:
    words = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent
failure: Lost task 0.3 in stage 0.0 (TID 3) (127.0.0.1 executor 1): org.apache.spark.SparkException:
Error from python worker:
  Fatal Python error: init_fs_encoding: failed to get the Python codec
PYTHONPATH was:
  python/lib/pyspark.zip
"""
    assert essence(words).startswith("Fatal Python error: init_fs_encoding")
    words = """Job aborted: Lost task 0.3 (TID 3): java.io.IOException: Cannot run program
"python3.99": error=2, No such file or directory
Caused by: java.io.IOException: Cannot run program "python3.99": error=2, No such file or directory
"""
    assert essence(words).startswith('Cannot run program "python3.99": error=2')
