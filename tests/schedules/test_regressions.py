"""Bugs that a run once found stay found: their runs end without a violation."""

import re
import shlex

import pytest

from ordercast.cli import main
from schedules.regressions import REGRESSIONS

RUNS = [(sentence, command) for sentence, commands in REGRESSIONS.items() for command in commands]


def words(command: str) -> list[str]:
    """Lines may be broken after a comma or between words."""
    return shlex.split(re.sub(r",\s+", ",", command))


@pytest.mark.parametrize(("sentence", "command"), RUNS, ids=[s[:40] for s, _ in RUNS])
def test_a_bug_stays_fixed(sentence: str, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words(command)[1:]) == 0, f"{sentence}: {capsys.readouterr().out}"
