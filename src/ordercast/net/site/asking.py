"""Changes of the cluster that were asked for at this site, and who waits for their outcome."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain

from ordercast.model.epochs import Edit
from ordercast.model.errors import ConfigError, Error, FrameError, NotInMajority
from ordercast.net.site.standing import Standing
from ordercast.wire.epochs import check_change

_ASKED = "the change was asked for, and may be done"


class Asking:
    def __init__(self, standing: Standing, ask: Callable[[str, tuple[Edit, ...]], None]) -> None:
        self._standing = standing
        self._ask = ask
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}

    async def change(self, edits: tuple[Edit, ...], name: str) -> None:
        try:
            check_change(name, edits)
        except FrameError as error:
            raise ConfigError(str(error)) from None
        if self._standing.hopeless:
            raise NotInMajority(self._standing.why_not() or "")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, []).append(done)
        self._ask(name, edits)
        await done

    def decided(self, outcomes: Sequence[tuple[str, str]]) -> None:
        for name, why_not in outcomes:
            for done in self._waiting.pop(name, ()):
                if done.done():
                    continue  # its waiter was cancelled
                if why_not:
                    done.set_exception(ConfigError(why_not))
                else:
                    done.set_result(None)

    def look(self) -> None:
        """No majority has been heard for too long: who waits is told."""
        if self._waiting and self._standing.hopeless:
            self._fail(NotInMajority(f"{_ASKED}: {self._standing.why_not()}"))

    def close(self, why: str) -> None:
        self._fail(Error(f"{_ASKED}: {why}"))

    def _fail(self, error: Error) -> None:
        for done in chain(*self._waiting.values()):
            if not done.done():
                done.set_exception(type(error)(str(error)))
        self._waiting.clear()
