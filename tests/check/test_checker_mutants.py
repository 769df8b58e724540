"""Checkers broken on purpose: each must give a wrong verdict on a history whose verdict is known.

A mutant (mutants.toml) is the source of a module of check/ with one piece of text exchanged. It is
put in the place of the real one everywhere in the room, and judges known histories.
"""

import tomllib
from dataclasses import dataclass

import pytest

import ordercast.check
import ordercast.check.report as report
from support.cases.known import DATA, Case, known_cases
from support.mutants.sources import SourceMutant, plant

CASES = {path.stem: known_cases(path.stem) for path in sorted(DATA.glob("*.txt"))}


@dataclass(frozen=True)
class Mutant(SourceMutant):
    """`judged_by`: the file of known histories that must convict it."""

    judged_by: str = ""

    @property
    def cases(self) -> list[Case]:
        return CASES[self.judged_by or self.module]


MUTANTS = [
    Mutant(**fields)
    for fields in tomllib.loads((DATA.parent / "mutants.toml").read_text(encoding="utf-8"))[
        "mutant"
    ]
]


def test_every_checker_is_broken_in_two_ways_or_more() -> None:
    broken = [mutant.module for mutant in MUTANTS]
    assert all(broken.count(name) >= 2 for name in {**report.CHECKS, **report.ON_REQUEST})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.module}: {m.breaks}")
def test_a_broken_checker_fails_its_own_tests(
    mutant: Mutant, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert all(is_judged_right(case) for case in mutant.cases)
    replace_checkers(mutant, monkeypatch)
    assert not all(is_judged_right(case) for case in mutant.cases)


def is_judged_right(case: Case) -> bool:
    try:
        found = report.check_history(case.history, causal=True).as_json()
    except Exception:  # a mutant that falls over is found out too
        return False
    counts = {**found["checks"], **found["informative"]}
    return counts == {**dict.fromkeys(counts, 0), **case.expected}


def replace_checkers(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    own = plant(mutant, ordercast.check, monkeypatch)
    for checks in (report.CHECKS, report.ON_REQUEST):
        for name, check in list(checks.items()):
            if check.__module__ == f"ordercast.check.{mutant.module}":
                monkeypatch.setitem(checks, name, own[check.__name__])
