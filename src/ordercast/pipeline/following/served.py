"""Following over Spark Connect, where a streaming query cannot give its batches to this process.

So this process makes the batches: of files that it has not read yet, read by the server. Which
files were read is kept with the state, in one file of the checkpoint: a batch counts wholly or not.
"""

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ordercast.history.rows import History
from ordercast.model.errors import ConfigError
from ordercast.pipeline.following import tables
from ordercast.pipeline.following.folder import SMALL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Left = dict[str, dict[str, list[int]]]


class ServedFiles:
    """The files of a URI. `left`: by table, those that were read; nothing is left of them."""

    def __init__(self, spark: "SparkSession", history: str, left: Left) -> None:
        self._spark = spark
        self._history = history
        self.left: Left = {name: dict(files) for name, files in left.items()}

    def batches(self) -> Iterator[History]:
        """What has come since the last call, in portions; `left` is up to date with each."""
        new = self._look()
        while any(new.values()):
            taken = {name: files[: tables.files_per_batch] for name, files in new.items() if files}
            data = tables.as_one(
                {name: tables.read_files(self._spark, name, own) for name, own in taken.items()}
            ).toArrow()
            tables.refuse_partitions(data)
            rows = tables.as_history(data)
            for name, own in taken.items():
                self.left[name].update((file, []) for file in own)
                new[name] = new[name][len(own) :]
            yield rows

    def _look(self) -> dict[str, list[str]]:
        """Deliveries are listed first: then the small tables are no older than they are."""
        new = {}
        for name in ("deliveries", "sent", *SMALL):
            place = f"{self._history.rstrip('/')}/{name}"
            listed = tables.read_files(self._spark, name, [place]).inputFiles()
            there = {unquote(file) for file in listed}
            seen = self.left.setdefault(name, {})
            gone = sorted(seen.keys() - there)
            if gone:
                raise ConfigError(f"{gone[0]}: is gone: a history that is followed only grows")
            new[name] = sorted(there - seen.keys())
        return new


class PolledQuery:
    """A thread that judges batch after batch; with the methods of Spark's queries. `batches` gives
    those that have come since it was last called."""

    def __init__(
        self,
        batches: Callable[[], Iterator[History]],
        judge: Callable[[History], None],
        every_s: float,
        once: bool,
    ) -> None:
        self._batches = batches
        self._judge = judge
        self._every_s = every_s
        self._once = once
        self._stopping = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="ordercast audit", daemon=True)
        self._thread.start()

    @property
    def isActive(self) -> bool:  # noqa: N802
        return self._thread.is_alive()

    def exception(self) -> Exception | None:
        return self._error

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End it after the batch that it is at."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                for rows in self._batches():
                    self._judge(rows)
                    if self._stopping.is_set():
                        return
                if self._once or self._stopping.wait(self._every_s):
                    return
        except Exception as error:
            self._error = error
