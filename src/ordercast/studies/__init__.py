"""The papers' tables and figures, redone, and what only they need: models, networks and formulas.

A reproduction says which points to run, what to draw and what to compare with the words of its
paper. The runner does it on the caller's Spark session, or in processes, with the machinery of
sweeps. Each paper has a room of its own. Entered by `cli`; users have the
public names.

The public names are loaded when they are first asked for: a worker needs one study, not all.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordercast.studies.catalogue import named as named
    from ordercast.studies.reproduction import Finding as Finding
    from ordercast.studies.runner import Reproduced as Reproduced
    from ordercast.studies.runner import reproduce as reproduce

_PLACES = {
    "Finding": "ordercast.studies.reproduction",
    "Reproduced": "ordercast.studies.runner",
    "named": "ordercast.studies.catalogue",
    "reproduce": "ordercast.studies.runner",
}

__all__ = ["Finding", "Reproduced", "named", "reproduce"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
