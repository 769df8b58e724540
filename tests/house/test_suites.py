"""The runner behind `make test`: nothing that exists is left out, nothing too slow goes unsaid."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import suites
from tools.suites import FOR_EVERY_DAY, SUITES, Result, Suite

ROOT = Path(__file__).resolve().parent.parent.parent


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def suite(budget_s: int = 60) -> Suite:
    return Suite("sample", budget_s, list)


def test_every_test_file_is_in_exactly_one_suite() -> None:
    claimed: list[str] = []
    for each in SUITES:
        for command in each.commands():
            claimed += [word for word in command if word.startswith("tests/")]
    for test in (ROOT / "tests").rglob("test_*.py"):
        place = test.relative_to(ROOT)
        owners = [claim for claim in claimed if place.is_relative_to(claim)]
        assert len(owners) == 1, f"{place} is run by {owners}"


def test_the_budgets_are_those_that_contributors_read_and_18_minutes_in_all() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(\w+)` \|.*\| (\d+) s \|$", page)
    assert rows == [(each.name, str(each.budget_s)) for each in SUITES]
    assert sum(each.budget_s for each in SUITES) <= 18 * 60


def test_quick_is_static_and_tests_that_are_there() -> None:
    *checks, tests = FOR_EVERY_DAY.commands()
    assert checks == suites.static()
    for place in (*suites.QUICK, *suites.LONG):
        assert (ROOT / "tests" / place).exists(), place
        assert any(word.endswith(f"tests/{place}") for word in tests)


def test_static_checks_formatting_lint_contracts_and_types() -> None:
    commands = [[Path(command[0]).name, *command[1:2]] for command in suites.static()]
    assert [name for name, _ in commands] == ["ruff", "ruff", "lint-imports", "mypy"]
    assert ["ruff", "format"] in commands
    assert ["ruff", "check"] in commands


def test_a_suite_goes_on_after_a_failure_and_fails(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    after = python(f"open({str(mark)!r}, 'w')")
    assert suites.run(suite(), [python("raise SystemExit(3)"), after]).ok is False
    assert mark.exists()


def test_a_suite_passes_when_all_its_commands_do() -> None:
    assert suites.run(suite(), [python(""), python("")]).ok is True


def test_the_processes_of_a_suite_keep_what_they_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert suites.run(suite(), [python("import sys; sys.exit(sys.dont_write_bytecode)")]).ok is True


def test_a_suite_that_hangs_is_stopped_with_its_children() -> None:
    """Our pipe stays open until the last child is gone: this returns early only if all are."""
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    parent = python(f"import subprocess; subprocess.run({sleep!r})")
    code = (
        "from tools import suites; suites.HANGS = 1;"
        f"print(suites.run(suites.Suite('sample', 1, list), [{parent!r}]).ok)"
    )
    done = subprocess.run(python(code), cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert "stopped: still running after 1 s" in done.stdout
    assert done.stdout.endswith("False\n")


def test_the_table_shows_time_beside_budget_and_marks_what_is_wrong() -> None:
    results = [
        Result(Suite("quick", 60, list), 1.25, True),
        Result(Suite("slow", 60, list), 90.0, True),
        Result(Suite("broken", 60, list), 2.0, False),
    ]
    rows = [re.sub(r"\s+", " ", line) for line in suites.table(results).splitlines()]
    assert rows == [
        "suite time budget",
        "quick 1.2 s 60 s",
        "slow 90.0 s 60 s over budget by 30 s",
        "broken 2.0 s 60 s FAILED",
        "all 93.2 s 180 s",
    ]


def test_an_unknown_suite_is_answered_with_the_known_ones() -> None:
    command = [sys.executable, "-m", "tools.suites", "unti"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no suite 'unti' (known: static, unit, schedules," in done.stderr
