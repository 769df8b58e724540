"""Questions to a daemon: each is asked again on every new connection, until there is an answer."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Concatenate, ParamSpec, Protocol

from ordercast.model.errors import Error, NotGranted
from ordercast.net.admin.frames import (
    Change,
    ClientFrame,
    Confirm,
    ConfirmRead,
    ReaderRemoval,
    ReaderReset,
)

P = ParamSpec("P")
_ACTS = (Change, Confirm, ConfirmRead, ReaderRemoval, ReaderReset)  # these change something


class AskDaemon(Protocol):
    """Asks a question of this kind, with these fields after its number, until it is answered."""

    def __call__(
        self,
        kind: Callable[Concatenate[int, P], ClientFrame],
        *fields: P.args,
        **named: P.kwargs,
    ) -> Awaitable[bytes]: ...


class Away(Error):
    """The daemon has not answered for too long, or it refuses now what it may have done already."""


class DaemonCall:
    """A question, its answer, and how often it was asked."""

    __slots__ = ("answer", "question", "sent")

    def __init__(self, question: ClientFrame, answer: asyncio.Future[bytes]) -> None:
        self.question = question
        self.answer = answer
        self.sent = 0  # on how many connections

    def fail(self, error: Error, *, is_answer: bool = True) -> None:
        """`is_answer`: to the question as it was sent last."""
        if self.answer.done():
            return
        unanswered = self.sent - is_answer
        if unanswered > 0 and isinstance(error, NotGranted) and isinstance(self.question, _ACTS):
            error = Away(f"{error}; it is not known whether this was done before")
        self.answer.set_exception(error)
