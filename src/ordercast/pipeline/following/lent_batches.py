"""Batches of a streaming query over Spark Connect, judged by this process.

Spark runs the function of such a query at the server. So the server lends each batch to the client:
it gives the batch a name that every session of the server sees (a global temporary view), and waits
until the client has removed the name. So a batch is done at the server only after the client has
taken it, as in a query without Connect.
"""

import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ordercast.pipeline.following.query_thread import QueryThread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Take = Callable[["DataFrame", int], None]

LOOK_S = 0.1
BEAT_S = 5.0
_END_S = 10.0  # for a batch that is being lent to find that nobody takes it
GONE_S = 60.0
"""A client that gives no sign for so long is gone: the query ends, and its checkpoint stays."""
_BEAT, _BATCH, _OVER = "beat", "batch", "over"


class BatchNames:
    """The names under which one query's batches and signs are known to all sessions."""

    def __init__(self, spark: "SparkSession", prefix: str) -> None:
        self._spark = spark
        self._prefix = prefix
        self._database = spark.conf.get("spark.sql.globalTempDatabase", "global_temp")

    def there(self) -> set[tuple[str, int]]:
        rows = self._spark.sql(f"SHOW VIEWS IN {self._database} LIKE '{self._prefix}_*'").collect()
        words = [row["viewName"].rsplit("_", 2) for row in rows]
        return {(kind, int(number)) for _, kind, number in words}

    def give(self, kind: str, number: int, frame: "DataFrame | None" = None) -> None:
        given = self._spark.range(0) if frame is None else frame
        given.createOrReplaceGlobalTempView(f"{self._prefix}_{kind}_{number}")

    def frame(self, kind: str, number: int) -> "DataFrame":
        return self._spark.table(f"{self._database}.{self._prefix}_{kind}_{number}")

    def remove(self, kind: str, number: int) -> None:
        self._spark.catalog.dropGlobalTempView(f"{self._prefix}_{kind}_{number}")


@dataclass(frozen=True, slots=True)
class Lender:
    """The function of the query, at the server. It raises if the client does not take the batch: if
    it returned, Spark would count the batch as done."""

    prefix: str
    gone_s: float

    def __call__(self, frame: "DataFrame", batch: int) -> None:
        names = BatchNames(frame.sparkSession, self.prefix)
        # A client that has ended leaves no sign: Spark may call the lender after that. It gives no
        # name then, because Spark may kill it before it removes that.
        if _ended(names.there()):
            raise _nobody_takes(batch)
        names.give(_BATCH, batch, frame)
        beats, heard = set[tuple[str, int]](), time.monotonic()
        while (_BATCH, batch) in (there := names.there()):
            now = {each for each in there if each[0] == _BEAT}
            if now != beats:
                beats, heard = now, time.monotonic()
            gone = time.monotonic() > heard + self.gone_s
            if gone or _ended(there):
                for kind, number in there if gone else {(_BATCH, batch)}:  # its signs, too
                    names.remove(kind, number)
                raise _nobody_takes(batch)
            time.sleep(LOOK_S)


def _ended(there: set[tuple[str, int]]) -> bool:
    return (_OVER, 0) in there or not any(kind == _BEAT for kind, _ in there)


def _nobody_takes(batch: int) -> RuntimeError:
    return RuntimeError(f"no client takes batch {batch}")


class LentQuery(QueryThread):
    """Hands the batches of a query to `take`."""

    def __init__(self, spark: "SparkSession", writer: Any, take: Take) -> None:
        prefix = f"ordercast_{uuid.uuid4().hex}"
        self._names = BatchNames(spark, prefix)
        self._take = take
        super().__init__("ordercast batches")
        self._names.give(_BEAT, 0)
        try:
            self.query = writer.foreachBatch(Lender(prefix, GONE_S)).start()
        except BaseException:
            with suppress(Exception):  # the error of the start is the one to tell
                self._names.remove(_BEAT, 0)
            raise
        self._living = threading.Thread(target=self._live, name="ordercast beats", daemon=True)
        self._living.start()
        self._thread.start()

    def _work(self) -> None:
        while not self._stopping.is_set():
            active = self.query.isActive
            there = self._names.there()
            lent = [number for kind, number in there if kind == _BATCH]
            for batch in lent:
                self._take(self._names.frame(_BATCH, batch), batch)
                self._names.remove(_BATCH, batch)
            # Not where they are given: to remove a name may have to wait for others' jobs.
            for old in sorted(number for kind, number in there if kind == _BEAT)[:-1]:
                self._names.remove(_BEAT, old)
            if not lent and not active:
                error = self.query.exception()
                if error is not None:
                    raise error
                return
            self._stopping.wait(LOOK_S)

    def _end(self) -> None:
        """Give the sign of the end first, and let a lender that is at work find it: when the query
        is stopped, Spark kills it, perhaps between giving a name and removing it."""
        self._stopping.set()
        self._living.join()
        self._names.give(_OVER, 0)
        until = time.monotonic() + _END_S
        while self._is_at_work() and time.monotonic() < until:
            time.sleep(LOOK_S)
        self.query.stop()
        for kind, number in self._names.there():
            self._names.remove(kind, number)

    def _is_at_work(self) -> bool:
        return bool(self.query.isActive and self.query.status["isTriggerActive"])

    def _live(self) -> None:
        count = 0
        while not self._stopping.wait(BEAT_S):
            count += 1
            try:
                self._names.give(_BEAT, count)
            except Exception:
                return  # the server is gone, which the other thread finds as well
