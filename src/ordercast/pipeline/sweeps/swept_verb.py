"""What a sweep can run: for each verb its options, its measures and its experiment.

A verb is loaded when a spec asks for it, so that a sweep of one does not load the others.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ordercast.model.verb_options import ReadFile, VerbOption

Config: TypeAlias = Mapping[str, Any]
"""The options of a point by name."""

Measures: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """`notes` are texts to keep beside the numbers; `history` is empty unless it is asked for."""

    measures: Measures
    notes: dict[str, str] = field(default_factory=dict)
    history: bytes = b""


Experiment: TypeAlias = Callable[[Config, int, str], Measured]
"""Measures a run, given its point's options, its seed and its name. It travels to the workers, so
it is a function or a dataclass of a module, not something made on the spot."""


@dataclass(frozen=True, slots=True)
class SweptVerb:
    """A verb as a sweep sees it."""

    options: Mapping[str, VerbOption]
    """Options that are not swept say why."""
    measures: tuple[str, ...]
    check: Callable[[Config, ReadFile], None]
    """Raises ConfigError when the values of a point, each of them right, do not go together."""
    experiment: Callable[[Mapping[str, str], bool, bool], Experiment]
    """Given the texts of files by name, whether to measure wall-clock time, and whether to keep
    histories."""
    has_history: bool = False


VERBS: Mapping[str, str] = {
    "plan": "ordercast.pipeline.sweeps.plans",
    "sim": "ordercast.pipeline.sweeps.simulations",
    "stability": "ordercast.pipeline.sweeps.stability_rounds",
}


def swept_verb(verb: str) -> SweptVerb:
    found: SweptVerb = importlib.import_module(VERBS[verb]).SWEPT_VERB
    return found
