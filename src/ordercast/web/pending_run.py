"""The run that a page is about, while it is still being simulated: the server serves already."""

import time
from collections.abc import Callable

from ordercast.model.errors import Error
from ordercast.net.client.overview import Overview
from ordercast.sim.config import SimConfig
from ordercast.web.feed import NotYet, Sampler, TraceFeed
from ordercast.web.runs import Runs, run_config
from ordercast.web.threads import in_thread


class PendingRun:
    """A feed that has nothing to show yet. State: how far the run is, and why it failed."""

    note = ""

    def __init__(
        self,
        config: SimConfig,
        seed: int,
        tell: Callable[[str], None],
        ended: Callable[[str], None],
    ) -> None:
        """`tell` hears how far the run is, often, and from another thread; `ended` how it ended."""
        self._config = config
        self._seed = seed
        self._tell = tell
        self._ended = ended
        self._begun = time.monotonic()
        self.told = "running: the simulation begins"
        self.trouble = ""

    async def look(self) -> Overview:
        raise Error(self.trouble) if self.trouble else NotYet(self.told)

    async def make(self, runs: Runs, sampler: Sampler) -> None:
        """Simulate, in a thread of its own; then the sampler has the run as its feed."""
        try:
            sampler.feed = await in_thread(self._made, runs)
        except Error as error:
            self.trouble = str(error)
        self.told = ""
        took_s = time.monotonic() - self._begun
        self._ended(self.trouble or f"the run is there, after {took_s:,.1f} s")

    def _made(self, runs: Runs) -> TraceFeed:
        found = run_config(self._config, self._seed, self._progress)
        feed = TraceFeed(found[0])
        runs.add(*found, keep=True)
        return feed

    def _progress(self, events: int, now: int) -> None:
        sending_ns = self._config.messages * 1e9 / self._config.rate
        share = min(99, int(100 * now / sending_ns)) if sending_ns else 99
        took_s = time.monotonic() - self._begun
        self.told = f"running: {share} % of the sending, {events:,} events after {took_s:,.0f} s"
        self._tell(self.told)
