"""Everything on Spark, and the only room that imports it.

Library functions take the caller's session and DataFrames; only the verbs make a session. Sweeps
and audits know nothing of each other. The public names are loaded when they are first asked for, so
that importing the room needs neither Spark nor Java. The command and the studies enter.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordercast.pipeline.audits.audit import AuditResult as AuditResult
    from ordercast.pipeline.audits.audit import audit as audit
    from ordercast.pipeline.following.figures import figures as figures
    from ordercast.pipeline.following.query import FollowQuery as FollowQuery
    from ordercast.pipeline.following.query import follow as follow
    from ordercast.pipeline.session import open_session as open_session

_PLACES = {
    "AuditResult": "ordercast.pipeline.audits.audit",
    "audit": "ordercast.pipeline.audits.audit",
    "FollowQuery": "ordercast.pipeline.following.query",
    "figures": "ordercast.pipeline.following.figures",
    "follow": "ordercast.pipeline.following.query",
    "open_session": "ordercast.pipeline.session",
}

__all__ = ["AuditResult", "FollowQuery", "audit", "figures", "follow", "open_session"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)
