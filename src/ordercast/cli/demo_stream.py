"""`ordercast demo --stream`: what runs on Spark while the demo's messages flow.

A streaming query reads the deliveries of one group at one site, and sends a tenth of them to
another group, each once. Meanwhile the stores are appended to a lake every few seconds, and a live
audit follows it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ordercast.history.rows import PRODUCER_CLIENT, History
from ordercast.model.errors import Error

if TYPE_CHECKING:
    from ordercast.net.cluster.config import Cluster

STREAM = "stream"  # the folder of the query's checkpoint
LAKE = "lake"
SOURCE, READ_AT = "alpha3", "b"
SINK, SENT_AT = "alpha5", "e"
EVERY_S = 3.0
CHOSEN = "seq % 10 = 0"

INTRODUCTION = f"""\
Beside them runs Spark. A streaming query reads what {READ_AT} delivers of {SOURCE}, and sends
every tenth message on to {SINK}, exactly once. The stores of all sites are appended to a
lake every {EVERY_S:.0f} seconds, and a live audit keeps the verdict of it current."""


class StreamedDemo(NamedTuple):
    """What the streams have done. `read`: messages of the source's group at its site; `chosen` of
    them are to be sent on, `sent` were delivered in the sink's group."""

    read: int
    chosen: int
    sent: int
    appends: int
    verdicts: int
    alerts: int
    judged: int

    @property
    def shortfall(self) -> str | None:
        if self.sent != self.chosen:
            return f"the sink sent {self.sent:,} messages of {self.chosen:,}"
        return "the live audit gave an alert" if self.alerts else None

    def lines(self) -> list[str]:
        return [
            f"  source      {self.read:,} messages of {SOURCE}, as {READ_AT} delivered them",
            f"  sink        {self.sent:,} of them sent on to {SINK}: every tenth, each once",
            f"  live audit  {self.verdicts} verdicts while messages flowed, the last of"
            f" {self.judged:,} deliveries; {self.alerts} alerts",
            f"  lake        {self.appends} appends",
        ]


class DemoStream:
    """The query and the live audit of a demo. `tell` may be called by another thread."""

    def __init__(
        self, spark: Any, cluster: "Cluster", directory: Path, tell: Callable[[str], None]
    ) -> None:
        self._spark, self._cluster = spark, cluster
        self._directory, self._tell = directory, tell
        self._query: Any = None
        self._done = threading.Event()
        self._failed: Error | None = None
        self._thread = threading.Thread(target=self._look, name="live audit", daemon=True)
        self._folder: Any = None
        self._audit: Any = None
        self._appends = self._verdicts = self._alerts = self._judged = 0

    def start(self) -> None:
        """The sites are ready."""
        place = {"nodes": str(self._cluster.source), "dir": str(self._directory), "timeout": "60"}
        reading = self._spark.readStream.format("ordercast").options(
            **place, sites=READ_AT, subscribe=SOURCE, readerName="demo"
        )
        chosen = reading.load().where(CHOSEN).select("payload")
        writing = chosen.writeStream.format("ordercast").options(
            **place,
            site=SENT_AT,
            group=SINK,
            checkpointLocation=str((self._directory / STREAM).resolve()),
        )
        self._query = writing.trigger(processingTime="1 second").start()
        self._thread.start()
        self._tell(f"a query of Spark reads {SOURCE} at {READ_AT} and sends to {SINK}")

    def drain(self) -> None:
        """All messages are delivered: until the query has sent the last of them on."""
        self._query.processAllAvailable()
        self._query.stop()

    def finish(self, history: History) -> StreamedDemo:
        """The sites are stopped, and `history` is what they delivered."""
        self.stop()
        if self._failed is not None:
            raise self._failed
        self._append()
        read = [r for r in history.deliveries if (r.site, r.group_name) == (READ_AT, SOURCE)]
        sent = {
            (r.client, r.request, r.part)
            for r in history.deliveries
            if r.group_name == SINK and (r.client or "").startswith(PRODUCER_CLIENT)
        }
        return StreamedDemo(
            len({row.id for row in read}),
            len({row.id for row in read if row.seq % 10 == 0}),
            len(sent), self._appends, self._verdicts, self._alerts, self._judged,
        )  # fmt: skip

    def stop(self) -> None:
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._query is not None and self._query.isActive:
            self._query.stop()

    def _look(self) -> None:
        try:
            while not self._done.wait(EVERY_S):
                self._append()
        except Error as error:
            self._failed = error

    def _append(self) -> None:
        from ordercast.net.export.lake_export import append
        from ordercast.pipeline.following.checkpointed_audit import CheckpointedAudit
        from ordercast.pipeline.following.folder import GrowingFolder

        lake = self._directory / LAKE
        self._appends = append(self._directory, lake).append
        if self._folder is None:
            self._folder, self._audit = GrowingFolder(lake), CheckpointedAudit(str(lake))
        verdict = None
        for rows in self._folder.batches():
            verdict = self._audit.take(self._audit.batch + 1, rows, self._folder.left)
            self._alerts += len(verdict.alerts)
        if verdict is None:
            return
        self._verdicts += 1
        self._judged = verdict.report["rows"]
        wrong = {name: count for name, count in verdict.report["checks"].items() if count}
        held = ", ".join(f"{one['site']} lacks {one['messages']:,}" for one in verdict.holding)
        self._tell(
            f"live verdict of {self._judged:,} deliveries:"
            f" {f'VIOLATIONS {wrong}' if wrong else 'no violation'}{f' ({held})' if held else ''}"
        )


@contextmanager
def streaming(
    cluster: "Cluster", directory: Path, tell: Callable[[str], None]
) -> Iterator[DemoStream]:
    """With a session of Spark, which stays open for the verdict."""
    from ordercast.pipeline.session import open_session

    with open_session("ordercast demo", brief=True, progress=False) as spark:
        stream = DemoStream(spark, cluster, directory, tell)
        try:
            yield stream
        finally:
            stream.stop()
