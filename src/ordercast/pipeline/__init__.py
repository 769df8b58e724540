"""Everything on Spark, and the only room that imports it.

Library functions take the caller's session and DataFrames; only the verbs make a session. Sweeps
and audits know nothing of each other. The public names are loaded when they are first asked for, so
that importing the room needs neither Spark nor Java. Entered by `cli`, `studies` and users.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordercast.pipeline.audits.audit import AuditResult as AuditResult
    from ordercast.pipeline.audits.audit import audit as audit
    from ordercast.pipeline.audits.frames import HistoryFrames as HistoryFrames
    from ordercast.pipeline.audits.frames import read_history as read_history
    from ordercast.pipeline.following.figures_on_spark import figures as figures
    from ordercast.pipeline.following.query import FollowQuery as FollowQuery
    from ordercast.pipeline.following.query import follow as follow
    from ordercast.pipeline.grids import SweepResult as SweepResult
    from ordercast.pipeline.grids import sweep as sweep
    from ordercast.pipeline.session import open_session as open_session
    from ordercast.pipeline.sweeps.results import Results as Results
    from ordercast.pipeline.sweeps.spec import SweepSpec as SweepSpec
    from ordercast.pipeline.sweeps.spec import parse_spec as parse_spec
    from ordercast.pipeline.sweeps.spec import read_spec as read_spec

_PLACES = {
    "AuditResult": "ordercast.pipeline.audits.audit",
    "FollowQuery": "ordercast.pipeline.following.query",
    "HistoryFrames": "ordercast.pipeline.audits.frames",
    "Results": "ordercast.pipeline.sweeps.results",
    "SweepResult": "ordercast.pipeline.grids",
    "SweepSpec": "ordercast.pipeline.sweeps.spec",
    "audit": "ordercast.pipeline.audits.audit",
    "figures": "ordercast.pipeline.following.figures_on_spark",
    "follow": "ordercast.pipeline.following.query",
    "open_session": "ordercast.pipeline.session",
    "parse_spec": "ordercast.pipeline.sweeps.spec",
    "read_history": "ordercast.pipeline.audits.frames",
    "read_spec": "ordercast.pipeline.sweeps.spec",
    "sweep": "ordercast.pipeline.grids",
}

__all__ = [
    "AuditResult", "FollowQuery", "HistoryFrames", "Results", "SweepResult", "SweepSpec", "audit",
    "figures", "follow", "open_session", "parse_spec", "read_history", "read_spec", "sweep",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
