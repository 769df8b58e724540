"""Mutants of a module's source: one piece of its text is exchanged."""

import importlib
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@dataclass(frozen=True)
class SourceMutant:
    """`module` is a file of the room; `old`, which it has exactly once, becomes `new`."""

    module: str
    breaks: str
    old: str
    new: str


def plant(
    mutant: SourceMutant,
    room: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    *,
    left_out: Sequence[str] = (),
    also: Sequence[ModuleType] = (),
) -> dict[str, Any]:
    """Put the mutant's functions and classes wherever the room, or a module of `also`, has imported
    the real ones; these functions and classes by name."""
    real = importlib.import_module(f"{room.__name__}.{mutant.module}")
    assert real.__file__ is not None
    source = Path(real.__file__).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, f"{mutant.old!r} is not in {mutant.module} exactly once"
    broken = ModuleType(f"{real.__name__}_mutant")
    monkeypatch.setitem(sys.modules, broken.__name__, broken)
    exec(compile(source.replace(mutant.old, mutant.new), "<mutant>", "exec"), broken.__dict__)
    own = {
        name: thing
        for name, thing in vars(broken).items()
        if getattr(thing, "__module__", None) == broken.__name__
    }
    originals = {name: getattr(real, name) for name in own}
    for module in (*_modules(room, left_out), *also):
        for name, thing in own.items():
            if vars(module).get(name) is originals[name]:
                monkeypatch.setattr(module, name, thing)
        if vars(module).get(mutant.module) is real:  # it was imported as a whole
            monkeypatch.setattr(module, mutant.module, broken)
    return own


def _modules(room: ModuleType, left_out: Sequence[str]) -> Iterator[ModuleType]:
    for path in room.__path__:
        for file in sorted(Path(path).glob("*.py")):
            if file.stem not in ("__init__", *left_out):
                yield importlib.import_module(f"{room.__name__}.{file.stem}")
