"""`follow`: the live audit as a streaming query, with the caller's session."""

import queue
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ordercast.check.live import PATIENCE, WINDOW
from ordercast.history.lake import appends_in, read_lake
from ordercast.history.rows import History
from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits.frames import refuse_lake
from ordercast.pipeline.following.checkpointed_audit import CheckpointedAudit
from ordercast.pipeline.following.folder import GrowingFolder
from ordercast.pipeline.following.lakes import appended_files, lake_stream
from ordercast.pipeline.following.lent_batches import LentQuery
from ordercast.pipeline.following.polled_query import Left, PolledQuery, ServedFiles
from ordercast.pipeline.following.tables import (
    as_history,
    as_one,
    files_of,
    read_streams,
    refuse_partitions,
    require_tables,
)
from ordercast.pipeline.following.verdicts import Alert, LiveVerdict
from ordercast.pipeline.session import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OnVerdict = Callable[[LiveVerdict], None]
_LOOK_S = 0.2
_LAKE, _APPEND = "", "append"  # in place of tables and files


class FilesRead:
    """The files of a folder whose rows were judged. They are read again when an event contradicts
    condensed rows: then they are judged anew with that event known. Of a lake the number of the
    last append is kept, because files may be merged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.left: dict[str, dict[str, list[int]]] = {}  # of a file that was read: nothing

    def add(self, data: Any) -> None:
        for table, files in files_of(data, self._folder).items():
            if self._is_lake():
                last = max(appends_in(file)[-1] for file in files)
                before = self.left.get(_LAKE, {}).get(_APPEND, [0])
                self.left[_LAKE] = {_APPEND: [max(last, *before)]}
            else:
                self.left.setdefault(table, {}).update((file, []) for file in files)

    def read_again(self) -> Iterator[History]:
        read = self.left
        if _LAKE in read:
            appends = range(1, read[_LAKE][_APPEND][0] + 1)
            read = {name: {file: [] for file in self._appended(name, appends)} for name in TABLES}
        return GrowingFolder(self._folder, read).read_again()

    def _is_lake(self) -> bool:
        return _LAKE in self.left or read_lake(self._folder) is not None

    def _appended(self, table: str, appends: range) -> list[str]:
        lake = read_lake(self._folder)
        assert lake is not None
        found = appended_files(self._folder, lake, table, appends)
        return [name.removeprefix(f"{table}/") for name in found]


class FollowQuery:
    """A running live audit. `verdict` is the last one; `alerts` are all alerts since the start."""

    def __init__(
        self, audit: CheckpointedAudit, files: FilesRead | None, on_verdict: OnVerdict | None
    ) -> None:
        self._audit = audit
        self._files = files
        self._on_verdict = on_verdict
        self._verdicts: queue.Queue[LiveVerdict] = queue.Queue()
        self._first = History()
        self._query: Any = None
        self._mistake: ConfigError | None = None  # a wrong value in a batch, in our words
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.verdict = audit.verdict
        self.alerts: list[Alert] = []

    def verdicts(self) -> Iterator[LiveVerdict]:
        """Every verdict as it comes, until the query ends. Raises the error that ended it."""
        while True:
            active = self._query.isActive
            try:
                yield self._verdicts.get(timeout=_LOOK_S)
            except queue.Empty:
                if not active:
                    break
        error = self._query.exception()
        if error is not None:
            raise self._mistake or error

    def await_termination(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; whether the query has ended. Raises the error that ended it."""
        try:
            return bool(self._query.awaitTermination(timeout_s))
        except Exception:
            if self._mistake is not None:
                raise self._mistake from None
            raise

    def stop(self) -> None:
        """End the query. The checkpoint has what it has judged. Raises nothing if it has ended."""
        self._query.stop()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _take(self, frame: "DataFrame", batch: int) -> None:
        if batch == self._audit.batch:
            return  # the checkpoint had it before Spark recorded it
        try:
            self._require_next(batch)
            data = frame.toArrow()
            refuse_partitions(data)
            rows = as_history(data)
        except ConfigError as error:
            self._mistake = error
            raise
        if self._files is not None:
            self._files.add(data)
        self._judge(batch, rows, None if self._files is None else self._files.left)

    def _require_next(self, batch: int) -> None:
        """Raise ConfigError if batches are missing. Spark repeats at most the last batch; if its
        offsets are lost, other rows come under the numbers of earlier batches."""
        kept = self._audit.batch
        if batch != kept + 1:
            raise ConfigError(
                f"batch {batch} of the query comes after batch {kept} of the checkpoint: Spark's"
                " offsets are of another query, or lost: choose another checkpoint"
            )

    def _judge(self, batch: int, rows: History, left: Left | None) -> None:
        for name, own in self._first.tables().items():
            getattr(rows, name).extend(own)
        self._first = History()
        self.verdict = self._audit.take(batch, rows, left)
        self.alerts += self.verdict.alerts
        self._verdicts.put(self.verdict)
        if self._on_verdict is not None:
            self._on_verdict(self.verdict)

    def _read_first(self, fixed: dict[str, "DataFrame"]) -> None:
        """The tables that are no streams; they come with the first batch."""
        if fixed and self._audit.batch < 0:
            self._first = as_history(as_one(fixed).toArrow())

    def _poll(self, files: GrowingFolder | ServedFiles, every_s: float, once: bool) -> None:
        """Without a query of Spark: this process makes the batches."""
        checkpoint = self._audit.checkpoint
        if checkpoint is not None and checkpoint.query.exists():
            raise ConfigError(
                f"{checkpoint.query}: is of a streaming query, which cannot go on over Spark"
                " Connect: choose another checkpoint"
            )
        if self._audit.batch >= 0:
            self._verdicts.put(self.verdict)  # the one that was kept
        self._query = PolledQuery(
            files.batches,
            lambda rows: self._judge(self._audit.batch + 1, rows, files.left),
            every_s,
            once,
        )

    def _start(self, rows: "DataFrame", every_s: float, once: bool) -> None:
        trigger = {"availableNow": True} if once else {"processingTime": f"{every_s} seconds"}
        writer = rows.writeStream.queryName("ordercast audit").trigger(**trigger)
        served = is_connect(rows.sparkSession)
        place = self._offsets(served)
        if place is not None:
            writer = writer.option("checkpointLocation", str(place))
        if self._audit.batch >= 0:
            self._verdicts.put(self.verdict)  # the one that was kept
        if served:
            self._query = LentQuery(rows.sparkSession, writer, self._take)
        else:
            self._query = writer.foreachBatch(self._take).start()

    def _offsets(self, served: bool) -> Path | None:
        """Where Spark keeps the offsets of its query. A server does so among its own files; None:
        it has a folder for as long as the query runs."""
        checkpoint = self._audit.checkpoint
        if checkpoint is None and served:
            return None
        if checkpoint is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="ordercast-follow-")
            return Path(self._scratch.name)
        place = checkpoint.query.resolve()
        if not served and self._audit.batch >= 0 and not place.exists():
            raise ConfigError(f"{place}: is missing: the checkpoint is not one of Spark's")
        return place


def follow(
    spark: "SparkSession",
    history: str | Path | None = None,
    *,
    deliveries: "DataFrame | None" = None,
    sent: "DataFrame | None" = None,
    groups: "DataFrame | None" = None,
    events: "DataFrame | None" = None,
    epochs: "DataFrame | None" = None,
    checkpoint: str | Path | None = None,
    on_verdict: OnVerdict | None = None,
    every_s: float = 1.0,
    once: bool = False,
    patience: int = PATIENCE,
    window: int = WINDOW,
) -> FollowQuery:
    """Keep the verdict of a growing history current: docs/follow.md.

    `history`: a folder or URI whose tables get new files; or the tables, of which some are streams
    of Spark and the others are read once. `on_verdict` is called after every batch. `checkpoint`:
    a folder; the same call goes on from there, also after a crash. `once`: judge what is there and
    end. Raises ConfigError if a table is missing or wrong. The session is the caller's. Batches are
    judged in this process: over Spark Connect it reads a folder itself, has the server read a URI,
    and is lent the batches of tables that are streams.
    """
    given = {"deliveries": deliveries, "sent": sent, "groups": groups, "events": events}
    given["epochs"] = epochs
    if (history is None) == all(frame is None for frame in given.values()):
        raise ConfigError("follow needs a history, or its tables, and not both")
    place = None if checkpoint is None else Path(checkpoint)
    if history is None:
        streams, fixed = _divided(given)
        query = FollowQuery(
            CheckpointedAudit("tables", place, patience=patience, window=window), None, on_verdict
        )
        query._read_first(fixed)
        query._start(as_one(streams), every_s, once)
        return query
    name = str(history) if "://" in str(history) else str(Path(history).resolve())
    if "://" in name:
        refuse_lake(spark, name)
    files = None if "://" in name else FilesRead(Path(name))
    again = None if files is None else files.read_again
    audit = CheckpointedAudit(name, place, patience=patience, window=window, read_again=again)
    query = FollowQuery(audit, files, on_verdict)
    if is_connect(spark):
        query._poll(_polled(spark, name, files, audit), every_s, once)
        return query
    if files is not None:
        files.left = audit.left
    query._start(_rows_of(spark, name), every_s, once)
    return query


def _divided(
    given: Mapping[str, "DataFrame | None"],
) -> tuple[dict[str, "DataFrame"], dict[str, "DataFrame"]]:
    """The tables that are streams, and those that are read once."""
    frames = require_tables(given)
    streams = {table: frame for table, frame in frames.items() if frame.isStreaming}
    if not streams:
        raise ConfigError("follow needs a table that is a stream; 'audit' judges the others")
    return streams, {table: frame for table, frame in frames.items() if table not in streams}


def _polled(
    spark: "SparkSession", history: str, read: FilesRead | None, audit: CheckpointedAudit
) -> GrowingFolder | ServedFiles:
    """A folder, or a lake, is read here; of a URI the server knows the files."""
    if read is None:
        return ServedFiles(spark, history, audit.left)
    folder = GrowingFolder(Path(history), audit.left)
    read.left = folder.left
    return folder


def _rows_of(spark: "SparkSession", history: str) -> "DataFrame":
    lake = lake_stream(spark, history)
    return as_one(read_streams(spark, history)) if lake is None else lake
