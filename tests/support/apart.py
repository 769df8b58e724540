"""Links as they were when runs that are kept by their seeds were found: stability apart from data,
and no resend before its fixed time. Whatever changes which frames leave, or when, makes another run
of every seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ordercast.core import link
from ordercast.core.lanes import NEVER
from ordercast.core.link import Link
from ordercast.model.options import Timing
from ordercast.wire.frames import CONTROL


def by_itself(self: Link, now: int, out: Any, *sends: Any) -> None:
    """What is new on CONTROL leaves at once, in frames of its own."""
    self.linger_at = NEVER
    self._send_new(now, CONTROL, out, sends[2])


def after_a_fixed_time(_lane: int, _out: Any, timing: Timing) -> int:
    return timing.resend_after


@contextmanager
def apart() -> Iterator[None]:
    with (
        patch.object(Link, "_send_control", by_itself),
        patch.object(link, "first_wait", after_a_fixed_time),
    ):
        yield
