"""Interrupts of a session, wherever they come."""

import signal
import socket
import socketserver
import threading

import pytest
from pyspark.accumulators import AccumulatorTCPServer

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


class _Fails(socketserver.BaseRequestHandler):
    error: type[Exception]

    def handle(self) -> None:
        raise self.error


@pytest.mark.parametrize(("error", "silent"), [(EOFError, True), (KeyError, False)])
def test_a_jvm_that_is_gone_leaves_no_page_of_its_counters(
    error: type[Exception], silent: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = type("Fails", (_Fails,), {"error": error})
    with (
        interrupts.quiet_interrupts(),
        AccumulatorTCPServer(("127.0.0.1", 0), handler, "") as server,
        socket.create_connection(("127.0.0.1", server.server_address[1])),
    ):
        server.handle_request()
    assert ("Traceback" not in capsys.readouterr().err) is silent
    assert "handle_error" not in vars(AccumulatorTCPServer)
