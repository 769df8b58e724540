"""`audit`: every check of docs/checks.md on DataFrames, with the caller's session.

The result is the same as that of the checkers in memory. No session is made or stopped here.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ordercast.check.runs import choose_runs, named_runs, require_runs
from ordercast.history.rows import EpochRow, Event, GroupRow, History
from ordercast.pipeline.audits import verdicts
from ordercast.pipeline.audits.cuts import ROWS_PER_PART, share, whole
from ordercast.pipeline.audits.driver_work import DriverWork, Gathered
from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.facts import gather
from ordercast.pipeline.audits.files import RowGroup
from ordercast.pipeline.audits.frames import collect, normal, of_runs
from ordercast.pipeline.audits.glossary import Contents, number_names, split_small, translation
from ordercast.pipeline.audits.listing import DDL, Listing, Namer
from ordercast.pipeline.audits.numbers import Numbers
from ordercast.pipeline.audits.rows import DELIVERED, SENT
from ordercast.pipeline.audits.spark_work import (
    Divided,
    SparkWork,
    divide_files,
    divide_frames,
)
from ordercast.pipeline.audits.steps import Judged, judge
from ordercast.pipeline.audits.tasks import JudgingTask

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOGGER = logging.getLogger("ordercast.pipeline.audit")
ROWS_AT_DRIVER = (
    ROWS_PER_PART  # of both tables; up to this number Spark only reads, and the driver judges
)


@dataclass(frozen=True)
class AuditResult:
    """What `ordercast audit` prints; `parts` counts the parts of the history."""

    rows: int
    sites: int
    messages: int
    runs: int
    seconds: float
    checks: Mapping[str, int]
    informative: Mapping[str, int]
    truncated: Sequence[str]
    witnesses: Mapping[str, Mapping[str, Any]]
    parts: int
    list_violations: Callable[[], "DataFrame"] = field(repr=False)

    @cached_property
    def violations(self) -> "DataFrame":
        """A row for each violation (docs/audit.md)."""
        return self.list_violations()

    @property
    def ok(self) -> bool:
        """Nothing is wrong."""
        return not any(self.checks.values())

    def as_json(self) -> dict[str, Any]:
        """The object that `ordercast audit` prints. Raises nothing."""
        return {
            "ok": self.ok,
            "rows": self.rows,
            "sites": self.sites,
            "messages": self.messages,
            "runs": self.runs,
            "seconds": round(self.seconds, 3),
            "checks": dict(self.checks),
            "informative": dict(self.informative),
            "truncated": list(self.truncated),
            "witnesses": {name: dict(shown) for name, shown in self.witnesses.items()},
        }


def audit(
    spark: "SparkSession",
    *,
    deliveries: "DataFrame",
    sent: "DataFrame",
    groups: "DataFrame",
    events: "DataFrame | None" = None,
    epochs: "DataFrame | None" = None,
    causal: bool = False,
    runs: Sequence[str] | None = None,
) -> AuditResult:
    """Judge a history of any size; every run in it by itself.

    The tables have the columns of docs/history.md, from wherever Spark reads; `read_history` gives
    those of a folder. `causal`: check causal order, too. `runs`: judge only these. Neither makes
    nor stops a session; Spark Connect will do. What is wrong with a history is in the result, not
    an exception.

    Raises ConfigError: for a table or a column that is missing or of another type, for a value that
    cannot be, and for a run that is not there.
    """
    tables = {
        "deliveries": deliveries,
        "sent": sent,
        "groups": groups,
        "events": events,
        "epochs": epochs,
    }
    return audit_tables(spark, tables, causal=causal, runs=runs)


def audit_tables(
    spark: "SparkSession",
    tables: Mapping[str, "DataFrame | None"],
    *,
    causal: bool,
    groups: Sequence[RowGroup] | None = None,
    runs: Sequence[str] | None = None,
) -> AuditResult:
    """`tables` by name. `groups`: the row groups of deliveries and sent, if the workers can read
    their files. `runs`: only these."""
    begun = time.perf_counter()
    deliveries, sent = (of_runs(normal(n, tables[n]), runs) for n in ("deliveries", "sent"))
    history = History(
        groups=collect("groups", tables["groups"], GroupRow),
        events=collect("events", tables["events"], Event),
        epochs=collect("epochs", tables["epochs"], EpochRow),
    )
    if runs is not None:
        history = choose_runs(history, runs)
    if groups is None:
        LOGGER.info("counting")
        rows = deliveries.select().unionAll(sent.select()).count()
    else:
        rows = sum(group.rows for group in groups)
    divided: Divided | Gathered
    if rows <= ROWS_AT_DRIVER:
        LOGGER.info("reading the tables")
        divided = Gathered([(deliveries.toArrow(), DELIVERED), (sent.toArrow(), SENT)])
    else:
        LOGGER.info("dividing the tables by message")
        divided = (
            divide_frames(deliveries, sent, rows)
            if groups is None
            else divide_files(spark, groups, runs)
        )
    try:
        contents = Contents(divided.glossaries())
        if runs is not None:
            require_runs(runs, {*contents.runs, *named_runs(history)})
        histories = split_small(history.groups, history.events, history.epochs, contents.runs)
        numbers = number_names(histories, contents)
        facts, logs = gather(numbers, list(histories.values()))
        sites_run = np.array([run for run, _ in numbers.sites], np.int64)
        run_rows = contents.rows_by_run(numbers.runs)
        shares = share(run_rows, sites_run, ROWS_PER_PART)
        names = translation(numbers, contents)
        work: SparkWork | DriverWork
        if isinstance(divided, Divided):
            LOGGER.info("looking for cuts")
            work = SparkWork(divided, names)
            cuts = work.find_cuts(shares, sites_run, facts)
        else:
            work, cuts = DriverWork(divided, names), whole(shares)
        shares_of_requests = -(-contents.asked // ROWS_PER_PART)  # none, if nobody asked
        task = JudgingTask(
            facts, numbers.arrays, sites_run, cuts, causal, request_shares=shares_of_requests
        )
        judged = judge(work, task, logs)
    finally:
        divided.close()
    return AuditResult(
        **_summary(judged, numbers, causal),
        seconds=time.perf_counter() - begun,
        list_violations=lambda: _violations(spark, work, judged, numbers),
    )


def _summary(judged: Judged, numbers: Numbers, causal: bool) -> dict[str, Any]:
    counts = judged.total.counts
    return {
        "rows": counts.get("rows", 0),
        "sites": len(numbers.sites),
        "messages": counts.get("messages", 0),
        "runs": len(numbers.runs),
        "checks": verdicts.counts(judged, causal),
        "informative": {n: counts.get(n, 0) for n in ("pending", "unagreed", "annulled")},
        "truncated": ["acyclic_order"] if judged.stopped else [],
        "witnesses": verdicts.witnesses(judged, numbers, causal),
        "parts": judged.task.cuts.parts,
    }


def _violations(
    spark: "SparkSession", work: SparkWork | DriverWork, judged: Judged, numbers: Numbers
) -> "DataFrame":
    """The rows that the driver knows, and a plan that judges again and lists the others when it is
    read."""

    def as_frame(listed: "DataFrame | pa.Table") -> "DataFrame":
        if not isinstance(listed, pa.Table):
            return listed
        # In one chunk: Spark loses rows that come after an empty one.
        return spark.createDataFrame(listed.combine_chunks(), DDL)

    listing = Listing()
    one, other, message, _, position, *_ = judged.inversions
    listing.add(
        "pairwise_order",
        len(one),
        site=one,
        other_site=other,
        message=message,
        position=position,
    )
    faults = sorted((site, at) for site, (at, _) in judged.position_faults.items())
    sites, positions = np.array(faults, np.int64).reshape(-1, 2).T
    listing.add("positions", len(sites), site=sites, position=positions)
    tangled = judged.tangled_crossing
    listing.add("acyclic_order", len(tangled), message=tangled)
    evidence = Evidence()
    listing.tell(evidence)
    namer = Namer(numbers)
    found = as_frame(pa.Table.from_batches([namer.rows(evidence)]))
    if not any(verdicts.counts(judged, causal=True).values()):
        return found
    listed = work.list_violations(replace(judged.task, lists=True), namer)
    found = found.unionAll(as_frame(listed))
    if judged.causal_task is not None:
        listed = work.list_violations(replace(judged.causal_task, lists=True), namer)
        found = found.unionAll(as_frame(listed).where("check = 'causal_order'"))
    return found
