"""What a client asks its daemon: each question is asked again on every new connection, until there
is an answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Concatenate, Final, ParamSpec, Protocol

from ordercast.model.errors import Error, NotGranted
from ordercast.net.admin.frames import (
    Change,
    ClientFrame,
    Confirm,
    ConfirmRead,
    DigestRequest,
    ReaderRemoval,
    ReaderReset,
    TimesRequest,
)

P = ParamSpec("P")
_ACTS: Final = (Change, Confirm, ConfirmRead, ReaderRemoval, ReaderReset)  # they change something
_OF_ONE_SITE: Final = (Confirm, DigestRequest, TimesRequest)  # only the asked site can answer


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


class _Call:
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


class Calls:
    """State: the questions without an answer, by their numbers. `send` does nothing while there is
    no connection."""

    def __init__(self, send: Callable[[ClientFrame], None], is_up: Callable[[], bool]) -> None:
        self._send = send
        self._is_up = is_up
        self._open: dict[int, _Call] = {}

    async def ask(self, number: int, question: ClientFrame) -> bytes:
        call = self._open[number] = _Call(question, asyncio.get_running_loop().create_future())
        self._ask(call)
        try:
            return await call.answer
        finally:
            del self._open[number]

    def _ask(self, call: _Call) -> None:
        call.sent += self._is_up()
        self._send(call.question)

    def answered(self, number: int, body: bytes, error: Error | None) -> None:
        call = self._open.get(number)
        if call is None:
            return
        if error is not None:
            call.fail(error)
        elif not call.answer.done():
            call.answer.set_result(body)

    # --- connections ------------------------------------------------------------------------------

    def resume(self) -> None:
        """A daemon is there (again)."""
        for call in list(self._open.values()):
            if not call.answer.done():
                self._ask(call)

    def moved(self, error: Error) -> None:
        """Another site answers, or the same without its past."""
        for call in list(self._open.values()):
            if isinstance(call.question, _OF_ONE_SITE):
                call.fail(error)

    def fail(self, error: Error) -> None:
        """Nobody answers."""
        for call in list(self._open.values()):
            call.fail(error, is_answer=False)
