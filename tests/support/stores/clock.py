"""The clocks of a store under test: what it asks, and what it must not ask."""

import time

import pytest

from ordercast.net.store import row_ages


class RunClock:
    """The clocks that a store asks: `run` while it runs, `stand` while it does not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self._ran = time.time_ns(), 0
        monotonic = time.monotonic_ns
        monkeypatch.setattr(row_ages, "monotonic_ns", lambda: monotonic() + self._ran)
        monkeypatch.setattr(time, "time_ns", lambda: self.wall)

    def run(self, ns: int) -> None:
        self._ran += ns
        self.stand(ns)

    def stand(self, ns: int) -> None:
        self.wall += ns
