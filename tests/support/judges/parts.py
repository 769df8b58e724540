"""The audit of the pipeline without Spark: the same steps, a loop instead of two shuffles.

Rows go through everything they go through on Spark, packing and evidence included; cuts may be put
anywhere, for the verdict must not depend on them.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ordercast.check.runs import split_runs
from ordercast.history.rows import History, Row
from ordercast.history.schema import arrow_schema
from ordercast.history.tables import TABLES
from ordercast.pipeline.audits import verdicts
from ordercast.pipeline.audits.cuts import Cuts
from ordercast.pipeline.audits.driver_work import DriverWork, Gathered
from ordercast.pipeline.audits.evidence import Evidence, decode, encode
from ordercast.pipeline.audits.facts import gather
from ordercast.pipeline.audits.files import UNUSED
from ordercast.pipeline.audits.glossary import Contents, number_names, split_small, translation
from ordercast.pipeline.audits.numbers import Numbers
from ordercast.pipeline.audits.rows import DELIVERED, SENT
from ordercast.pipeline.audits.steps import Judged, judge
from ordercast.pipeline.audits.tasks import JudgingTask


class Loop(DriverWork):
    """The driver's loop, with evidence that travels as it does on Spark, and counted passes."""

    passes = 0

    def run(self, task: JudgingTask) -> list[Evidence]:
        self.passes += 1
        return [decode(encode(evidence)) for evidence in super().run(task)]


def gathered(history: History, shares: int, batches: int) -> Gathered:
    tables = history.tables()
    return Gathered(
        (
            (arrow_table(name, tables[name][i::batches]), kind)
            for name, kind in (("deliveries", DELIVERED), ("sent", SENT))
            for i in range(batches)
        ),
        shares,
    )


@dataclass(frozen=True)
class Audited:
    """What `report` shows is the JSON of the audit without its time."""

    report: dict[str, Any]
    outcome: Judged
    numbers: Numbers
    work: Loop


def audit_in_loop(
    history: History,
    *,
    cuts: int = 0,
    shares: int = 2,
    batches: int = 1,
    rng: random.Random | None = None,
    after: Sequence[int] = (),
    where: Cuts | None = None,
    causal: bool = True,
    request_shares: int = 2,
) -> Audited:
    """Audit a history with so many cuts at random places of every site, or at given ones. What
    clients asked for is divided into `request_shares`, if they did."""
    rows = gathered(history, shares, batches)
    contents = Contents(rows.glossaries())
    small = split_small(history.groups, history.events, history.epochs, contents.runs)
    numbers = number_names(small, contents)
    work = Loop(rows, translation(numbers, contents))
    facts, logs = gather(numbers, list(small.values()))
    sites_run = np.array([run for run, _ in numbers.sites], np.int64)
    sites = len(numbers.sites)
    if after:
        where = cuts_after([list(after)] * sites)
    elif where is None:
        where = random_cuts(rng or random.Random(1), history, sites, cuts)
    asked = request_shares if contents.asked else 0
    task = JudgingTask(facts, numbers.arrays, sites_run, where, causal, request_shares=asked)
    outcome = judge(work, task, logs)
    counts = outcome.total.counts
    report = {
        "ok": not any(verdicts.counts(outcome, causal).values()),
        "rows": counts.get("rows", 0),
        "sites": len(numbers.sites),
        "messages": counts.get("messages", 0),
        "runs": len(numbers.runs),
        "checks": verdicts.counts(outcome, causal),
        "informative": {n: counts.get(n, 0) for n in ("pending", "unagreed", "annulled")},
        "truncated": ["acyclic_order"] if outcome.stopped else [],
        "witnesses": verdicts.witnesses(outcome, numbers, causal),
    }
    assert len(split_runs(history)) == len(numbers.runs)
    return Audited(report, outcome, numbers, work)


def no_cuts(sites: int) -> Cuts:
    """Everything in one part."""
    zeros = np.zeros(sites, np.int64)
    return Cuts(1, zeros, zeros, zeros - 1, np.empty((0, 0), np.int64), np.zeros(1, np.int64))


def random_cuts(rng: random.Random, history: History, sites: int, count: int) -> Cuts:
    """So many cuts anywhere, at every site by itself: as bad as cuts can be."""
    if not count:
        return no_cuts(sites)
    top = max((row.position for row in history.deliveries), default=0)
    after = [sorted(rng.randint(0, top) for _ in range(count)) for _ in range(sites)]
    return cuts_after(after) if after else no_cuts(sites)


def cuts_after(positions: Sequence[Sequence[int]]) -> Cuts:
    """The same number of cuts at every site, after these positions."""
    after = np.array(positions, np.int64)
    sites, count = after.shape
    first = np.zeros(sites, np.int64)
    return Cuts(
        parts=count + 1,
        first=first,
        last=first + count,
        row=np.arange(sites),
        after=after,
        merged=np.arange(count + 1),
    )


def arrow_table(name: str, rows: Sequence[Row]) -> pa.Table:
    """A table as Spark hands it over: without the columns that the audit does not read."""
    kept = tuple(c for c in TABLES[name].columns if c.name not in UNUSED)
    columns = {column.name: [getattr(row, column.name) for row in rows] for column in kept}
    return pa.Table.from_pydict(columns, schema=arrow_schema(TABLES[name], kept))
