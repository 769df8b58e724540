"""Checkers broken on purpose: each must give a wrong verdict on a history whose verdict is known.

A mutant (mutants.toml) is the source of a module of check/ with one piece of text exchanged. It is
put in the place of the real one everywhere in the room, and judges known histories.
"""

import importlib
import sys
import tomllib
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import ordercast.check
import ordercast.check.report as report
from support.cases.known import DATA, Case, known_cases

CASES = {path.stem: known_cases(path.stem) for path in sorted(DATA.glob("*.txt"))}


@dataclass(frozen=True)
class Mutant:
    """`judged_by`: the file of known histories that must convict it."""

    module: str
    breaks: str
    old: str
    new: str
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
    plant(mutant, monkeypatch)
    assert not all(is_judged_right(case) for case in mutant.cases)


def is_judged_right(case: Case) -> bool:
    try:
        found = report.check_history(case.history, causal=True).as_json()
    except Exception:  # a mutant that falls over is found out too
        return False
    counts = {**found["checks"], **found["informative"]}
    return counts == {**dict.fromkeys(counts, 0), **case.expected}


def plant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the mutant's functions and classes wherever the room has imported the real ones."""
    real = importlib.import_module(f"ordercast.check.{mutant.module}")
    assert real.__file__ is not None
    source = Path(real.__file__).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, f"{mutant.old!r} is not in {mutant.module} exactly once"
    broken = types.ModuleType(f"ordercast.check.{mutant.module}_mutant")
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    exec(compile(source.replace(mutant.old, mutant.new), "<mutant>", "exec"), broken.__dict__)
    own = {
        name: (getattr(real, name), thing)
        for name, thing in vars(broken).items()
        if getattr(thing, "__module__", None) == broken.__name__
    }
    for module in _room():
        for name, (original, thing) in own.items():
            if vars(module).get(name) is original:
                monkeypatch.setattr(module, name, thing)
    for checks in (report.CHECKS, report.ON_REQUEST):
        for name, check in list(checks.items()):
            if check.__module__ == real.__name__:
                monkeypatch.setitem(checks, name, own[check.__name__][1])


def _room() -> Iterator[types.ModuleType]:
    for path in ordercast.check.__path__:
        for file in sorted(Path(path).glob("*.py")):
            if file.stem != "__init__":
                yield importlib.import_module(f"ordercast.check.{file.stem}")
