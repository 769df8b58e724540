"""Following over Spark Connect, where a streaming query cannot hand its batches to this process.

This process makes the batches itself: it names files that are new, and the server reads them. One
file of the checkpoint has both the state and the list of files, so a batch counts wholly or not at
all.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ordercast.history.rows import History
from ordercast.model.errors import ConfigError
from ordercast.pipeline.following import tables
from ordercast.pipeline.following.folder import SMALL
from ordercast.pipeline.following.query_thread import QueryThread

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Left = dict[str, dict[str, list[int]]]


class ServedFiles:
    """The files of a URI. `left`: for each table the files that were read, each with nothing
    left."""

    def __init__(self, spark: "SparkSession", history: str, left: Left) -> None:
        self._spark = spark
        self._history = history
        self.left: Left = {name: dict(files) for name, files in left.items()}

    def batches(self) -> Iterator[History]:
        """The rows that have come since the last call, in portions. With each portion `left` is up
        to date."""
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
        """List the files. Deliveries come first, so that the list of the small tables is never
        older."""
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


class PolledQuery(QueryThread):
    """Judges batch after batch. `batches` gives the batches that have come since the last call."""

    def __init__(
        self,
        batches: Callable[[], Iterator[History]],
        judge: Callable[[History], None],
        every_s: float,
        once: bool,
    ) -> None:
        super().__init__("ordercast audit")
        self._batches = batches
        self._judge = judge
        self._every_s = every_s
        self._once = once
        self._thread.start()

    def _work(self) -> None:
        while True:
            for rows in self._batches():
                self._judge(rows)
                if self._stopping.is_set():
                    return
            if self._once or self._stopping.wait(self._every_s):
                return
