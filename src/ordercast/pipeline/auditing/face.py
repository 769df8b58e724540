"""`audit`: every check of docs/checks.md on DataFrames, with the caller's session.

The result is that of `check.report`; it neither makes nor stops a session.
"""

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ordercast.check.runs import split_runs
from ordercast.history.rows import EpochRow, Event, GroupRow, History, Sent
from ordercast.pipeline.auditing import verdicts
from ordercast.pipeline.auditing.facts import gather
from ordercast.pipeline.auditing.frames import collect, normal
from ordercast.pipeline.auditing.guess import ROWS_PER_PART, share
from ordercast.pipeline.auditing.numbers import Numbers, Run, number
from ordercast.pipeline.auditing.on_spark import (
    Contents,
    SparkWork,
    encode_rows,
    find_cuts,
    survey_tables,
)
from ordercast.pipeline.auditing.plan import Outcome, judge
from ordercast.pipeline.auditing.tasks import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOGGER = logging.getLogger("ordercast.pipeline.audit")


@dataclass(frozen=True)
class AuditResult:
    """What `ordercast audit` prints, and every violation as a DataFrame."""

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

    @property
    def ok(self) -> bool:
        return not any(self.checks.values())

    def as_json(self) -> dict[str, Any]:
        """The object that `ordercast audit` prints."""
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
) -> AuditResult:
    """Judge a history of any size; every run in it by itself."""
    return audit_in_parts(
        spark,
        deliveries=deliveries,
        sent=sent,
        groups=groups,
        events=events,
        epochs=epochs,
        causal=causal,
    )


def audit_in_parts(
    spark: "SparkSession",
    *,
    deliveries: "DataFrame",
    sent: "DataFrame",
    groups: "DataFrame",
    events: "DataFrame | None",
    epochs: "DataFrame | None",
    causal: bool,
    rows_per_part: int = ROWS_PER_PART,
) -> AuditResult:
    begun = time.perf_counter()
    deliveries, sent = normal("deliveries", deliveries), normal("sent", sent)
    LOGGER.info("reading names")
    contents = survey_tables(deliveries, sent)
    small = (
        collect("groups", groups, GroupRow),
        collect("events", events, Event),
        collect("epochs", epochs, EpochRow),
    )
    histories = split_small(*small, contents.runs)
    numbers = _number(histories, contents)
    facts, logs = gather(numbers, list(histories.values()))
    sites_run = np.array([run for run, _ in numbers.sites], np.int64)
    encoded = encode_rows(spark, deliveries, sent, numbers)
    run_rows = [0] * len(numbers.runs)
    place = {run: i for i, run in enumerate(numbers.runs)}
    for (run, _), count in contents.site_rows.items():
        run_rows[place[run]] += count
    LOGGER.info("looking for cuts")
    shares = share(run_rows, sites_run, rows_per_part)
    cuts = find_cuts(encoded, shares, sites_run, facts, sum(run_rows))
    task = Task(facts, numbers.arrays, sites_run, cuts, causal)
    work = SparkWork(encoded, contents.rows)
    outcome = judge(work, task, logs)
    return _result(outcome, numbers, causal, begun)


def split_small(
    groups: list[GroupRow], events: list[Event], epochs: list[EpochRow], big_runs: Sequence[Run]
) -> dict[Run, History]:
    """The small tables by run, as `check.runs` divides them; runs of the big ones have a place."""
    stand_in = [Sent("", 0, "", 0, 0, 0, 0, 0, None, run) for run in big_runs]
    whole = History(groups=groups, events=events, epochs=epochs, sent=stand_in)
    return {
        run: History(groups=own.groups, events=own.events, epochs=own.epochs)
        for run, own in split_runs(whole)
    }


def _number(histories: Mapping[Run, History], contents: Contents) -> Numbers:
    runs = list(histories)
    place = {run: i for i, run in enumerate(runs)}
    sites = [(place[run], site) for run, site in (*contents.site_rows, *contents.origins)]
    groups = []
    for run, history in histories.items():
        sites += [(place[run], row.site) for row in history.groups]
        sites += [(place[run], event.site) for event in history.events]
        groups += [(place[run], row.group_name) for row in history.groups]
    streams = (stream._replace(run=place[run]) for run, stream in contents.streams)
    return number(runs, sites, groups, streams)


def _result(outcome: Outcome, numbers: Numbers, causal: bool, begun: float) -> AuditResult:
    counts = outcome.total.counts
    return AuditResult(
        rows=counts.get("rows", 0),
        sites=len(numbers.sites),
        messages=counts.get("messages", 0),
        runs=len(numbers.runs),
        seconds=time.perf_counter() - begun,
        checks=verdicts.counts(outcome, causal),
        informative={name: counts.get(name, 0) for name in ("pending", "unagreed", "annulled")},
        truncated=["acyclic_order"] if outcome.stopped else [],
        witnesses=verdicts.witnesses(outcome, numbers, causal),
        parts=outcome.task.cuts.parts,
    )
