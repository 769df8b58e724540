"""Interrupts of a session, wherever they come."""

import signal
import threading

import pytest

from ordercast.pipeline import interrupts


class Interrupted:
    """Is interrupted where Python forgets it: what is raised there goes no further."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


def interrupted_while_forgetting(number: signal.Signals) -> None:
    with interrupts.interruptible():
        held = [Interrupted(number)]
        held.clear()
        threading.Event().wait(30)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_not_lost_where_an_object_is_forgotten(
    number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_while_forgetting(number)
    assert capsys.readouterr().err == ""
