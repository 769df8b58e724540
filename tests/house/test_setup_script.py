"""Set-up: one clear line for whatever is missing, and nothing done twice.

The script is copied into a checkout of a few files and run as a user runs it. What must not be
there is hidden by a Python of our own making on PATH; nothing is downloaded here.
"""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.setup import SYSTEM

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "tools" / "setup.py"
PACKAGES = [package for packages in SYSTEM.values() for package in packages]
FULL_DISK = (
    "import shutil; u = shutil.disk_usage('.'); shutil.disk_usage = lambda _: u._replace(free=0)"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with an empty lock and a project without dependencies or code."""
    root = tmp_path / "checkout"
    (root / "tools").mkdir(parents=True)
    (root / "requirements").mkdir()
    (root / "requirements" / "dev.txt").write_text("# Download: about 0 MB here\n")
    (root / "pyproject.toml").write_text("[project]\nname = 'ordercast'\n")
    shutil.copy(SCRIPT, root / "tools" / "setup.py")
    return root


def run(
    checkout: Path, *arguments: str, start: str = "", path: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run the script, with `start` executed in its process first and PATH set to `path`."""
    script = str(checkout / "tools" / "setup.py")
    code = f"{start}\nimport runpy, sys; sys.argv = {[script, *arguments]!r}\n"
    code += f"runpy.run_path({script!r}, run_name='__main__')"
    environment = {**os.environ, "CI": "", "PATH": str(path or checkout)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )


def command(directory: Path, name: str, lines: Sequence[str]) -> Path:
    directory.mkdir(exist_ok=True)
    file = directory / name
    file.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    file.chmod(0o755)
    return file


def test_the_script_parses_from_python_38_on() -> None:
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_an_old_python_says_so_in_one_line_when_there_is_no_other(checkout: Path) -> None:
    result = run(checkout, "setup", start="import sys; sys.version_info = (3, 9, 2)")
    assert result.returncode == 1
    assert result.stderr == (
        "setup: ordercast needs Python 3.11 or newer, this is 3.9, and PATH has no"
        " python3.11 or python3.12 or python3.13 or python3.14: install one\n"
    )


def test_an_old_python_hands_over_to_a_newer_one_on_path(checkout: Path, tmp_path: Path) -> None:
    path = tmp_path / "bin"
    command(path, "python3.14", ["exit 127"])  # a shim for a version that is not selected
    newer = command(path, "python3.13", ['test "$1" = -c || echo ran "$2" "$3"'])
    result = run(
        checkout, "bench", "x", start="import sys; sys.version_info = (3, 8, 0)", path=path
    )
    assert result.stderr == (
        f"ordercast needs Python 3.11 or newer, this is 3.8; going on with {newer}\n"
    )
    assert result.stdout == "ran bench x\n"


def test_a_python_without_ensurepip_says_what_to_install(checkout: Path, tmp_path: Path) -> None:
    lacking = command(tmp_path / "bin", "python3", ["exit 1"])
    result = run(checkout, "setup", start=f"import sys; sys.executable = {str(lacking)!r}")
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert f"at {lacking} lacks venv or ensurepip; install" in result.stderr
    assert not (checkout / ".venv").exists()


def test_a_full_disk_is_noticed_before_anything_is_made(checkout: Path) -> None:
    result = run(checkout, "setup", start=FULL_DISK)
    assert result.returncode == 1
    assert result.stderr == f"setup: {checkout} has 0 MB free; set-up needs 4000 MB\n"


def test_a_lock_that_cannot_be_installed_is_one_line_and_leaves_no_stamp(checkout: Path) -> None:
    (checkout / "requirements" / "dev.txt").write_text("no requirement\n")
    result = run(checkout, "setup")
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("setup: pip could not install requirements/dev.txt: Invalid requirement")
    assert last.endswith("(all of it: .venv/install.log)")
    assert not (checkout / ".venv" / "stamp.json").exists()


def test_an_unknown_benchmark_is_answered_with_the_known_ones(checkout: Path) -> None:
    stamp_as_ready(checkout)
    (checkout / "bench").mkdir()
    (checkout / "bench" / "forest.py").touch()
    result = run(checkout, "bench", "forrest")
    assert result.stderr == "setup: there is no benchmark 'forrest' (known: forest)\n"
    assert run(checkout, "bench").stdout == "benchmarks: forest\n"


def test_clean_removes_what_was_made_and_keeps_results(checkout: Path) -> None:
    for name in (".venv", ".mypy_cache", "src/ordercast/__pycache__", ".soak", "out"):
        (checkout / name).mkdir(parents=True)
    assert run(checkout, "clean").returncode == 0
    left = {path.name for path in checkout.iterdir()}
    assert left == {"tools", "requirements", "pyproject.toml", "src", ".soak", "out"}
    assert not (checkout / "src" / "ordercast" / "__pycache__").exists()


def stamp_as_ready(checkout: Path) -> None:
    """Let the script itself stamp an environment that leads to this Python."""
    scripts = checkout / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").symlink_to(sys.executable)
    code = (
        "import runpy, sys; s = runpy.run_path(sys.argv[1]); s['write_stamp']("
        "{'lock': s['digest'](s['LOCK']), 'project': s['digest'](s['PROJECT']),"
        " 'root': str(s['ROOT'])})"
    )
    script = checkout / "tools" / "setup.py"
    subprocess.run([sys.executable, "-c", code, script], check=True)


def test_a_second_run_does_nothing(checkout: Path) -> None:
    stamp_as_ready(checkout)
    for name in SYSTEM:
        command(checkout, name, ["exit 0"])
    result = run(checkout, "setup")
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "")


@pytest.mark.parametrize("change", ["lock", "python", "place", "half-made"])
def test_an_environment_that_no_longer_fits_is_made_anew(checkout: Path, change: str) -> None:
    stamp_as_ready(checkout)
    if change == "lock":
        (checkout / "requirements" / "dev.txt").write_text("# another\n")
    elif change == "python":
        (checkout / ".venv" / "bin" / "python").unlink()
    elif change == "place":
        checkout = checkout.rename(checkout.with_name("moved"))
    else:
        (checkout / ".venv" / "stamp.json").unlink()
    result = run(checkout, "setup", start=FULL_DISK)  # stops it where it would begin
    assert result.stderr == f"setup: {checkout} has 0 MB free; set-up needs 4000 MB\n"


def with_venv(checkout: Path, then: str) -> str:
    """Lines that stand in for the steps before: they are tested above."""
    (checkout / ".venv").mkdir(exist_ok=True)
    return f"import sys; sys.path.insert(0, {str(checkout / 'tools')!r}); import setup; {then}"


def provided(checkout: Path, *, root: bool, ci: bool = False) -> "subprocess.CompletedProcess[str]":
    uid = 0 if root else 1000
    code = with_venv(
        checkout,
        f"import os; os.geteuid = lambda: {uid}; os.environ['CI'] = {'true' if ci else ''!r};"
        " sys.exit(setup.main(['setup']))",
    )
    code = code.replace("import setup;", "import setup; setup.setup = lambda: None;")
    return subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(checkout)}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip


def test_root_installs_the_packages_that_tests_need(checkout: Path) -> None:
    log = checkout / "called"
    command(checkout, "apt-get", [f'echo "$@" >> {log}'])
    done = provided(checkout, root=True)
    assert done.returncode == 0, done.stderr
    assert log.read_text().splitlines()[0] == "update"
    assert log.read_text().splitlines()[1].endswith(" ".join(PACKAGES))
    log.unlink()
    for name in SYSTEM:
        command(checkout, name, ["exit 0"])
    assert provided(checkout, root=True).returncode == 0
    assert not log.exists(), "it is there already"


def test_a_missing_package_fails_only_where_ci_is_true(checkout: Path) -> None:
    done = provided(checkout, root=False)
    assert done.returncode == 0
    assert "tests that need it are skipped" in done.stderr
    done = provided(checkout, root=False, ci=True)
    assert done.returncode == 1
    assert f"{' '.join(PACKAGES)} is missing" in done.stderr
    command(checkout, "apt-get", ["exit 100"])
    assert provided(checkout, root=True, ci=True).returncode == 1
    assert "could not install" in provided(checkout, root=True).stderr
