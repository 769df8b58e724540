"""Links as they were when runs that are kept by their seeds were found: stability apart from data,
no resend before its fixed time, one hole asked for at a time. Whatever changes which frames leave,
or when, makes another run of every seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from ordercast.core import link
from ordercast.core.link import Incoming, Link
from ordercast.model.options import NEVER, Timing
from ordercast.wire.frames import CONTROL


def by_itself(self: Link, now: int, out: Any, *sends: Any) -> None:
    """What is new on CONTROL leaves at once, in frames of its own."""
    self.linger_at = NEVER
    self._send_new(now, CONTROL, out, sends[2])


def after_a_fixed_time(_out: Any, timing: Timing) -> int:
    return timing.resend_after


def ask_for_one(self: Link, now: int, lane: int, inc: Incoming) -> None:
    if self.repair_at == NEVER or now >= self.repair_at:
        self._repairs.append((lane, inc.got + 1, min(inc.early) - 1))
        self.urgent = True
        self.repair_at = now + self.timing.repair_again


def alarm(self: Link, now: int) -> None:
    if self.repair_at <= now:
        self.repair_at = NEVER
        for lane, inc in enumerate(self.incoming):
            if inc.early and not inc.blocked:
                self._ask(now, lane, inc)
    if self.resend_at <= now:
        self._resend(now)


@contextmanager
def apart() -> Iterator[None]:
    with (
        patch.object(Link, "_send_control", by_itself),
        patch.object(link, "first_wait", after_a_fixed_time),
        patch.object(Link, "_ask", ask_for_one),
        patch.object(Link, "alarm", alarm),
    ):
        yield
