"""Stability apart from data, as it was when runs that are kept by their seeds were found: whatever
changes which frames leave makes another run of every seed. Elsewhere it rides with data."""

from typing import Any
from unittest.mock import patch

from ordercast.core.lanes import NEVER
from ordercast.core.link import Link
from ordercast.wire.frames import CONTROL


def by_itself(link: Link, now: int, out: Any, *sends: Any) -> None:
    """What is new on CONTROL leaves at once, in frames of its own."""
    link.linger_at = NEVER
    link._send_new(now, CONTROL, out, sends[2])


def apart() -> Any:
    return patch.object(Link, "_send_control", by_itself)
