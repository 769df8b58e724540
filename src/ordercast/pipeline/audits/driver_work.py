"""The audit's steps at the driver, for a history that is no larger than one part.

The same steps on the same packed rows, in a loop. For so few rows, starting Spark's Python workers
takes longer than judging.
"""

from collections.abc import Iterable

import pyarrow as pa

from ordercast.pipeline.audits.borders import divide_borders, fold_borders
from ordercast.pipeline.audits.evidence import Evidence
from ordercast.pipeline.audits.glossary import Translation, scatter
from ordercast.pipeline.audits.listing import SCHEMA, Namer
from ordercast.pipeline.audits.packing import divide, join, unpack
from ordercast.pipeline.audits.requests import Clients
from ordercast.pipeline.audits.tasks import PART_COLUMNS, JudgingTask


class Gathered:
    """Batches of both tables, divided by message and packed."""

    def __init__(self, tables: Iterable[tuple[pa.Table, int]], shares: int = 1) -> None:
        self.shares: dict[int, list[bytes]] = {}
        self._glossaries: list[bytes] = []
        for table, kind in tables:
            for share, value in scatter(table, kind, shares):
                if share < 0:
                    self._glossaries.append(value)
                else:
                    self.shares.setdefault(share, []).append(value)

    def glossaries(self) -> list[bytes]:
        return self._glossaries

    def close(self) -> None:
        """Nothing to do: the rows are in memory only."""


class DriverWork:
    """Runs tasks, share by share and part by part."""

    def __init__(self, gathered: Gathered, translation: Translation) -> None:
        self._gathered = gathered
        self._legend = translation

    def run(self, task: JudgingTask) -> list[Evidence]:
        found: list[Evidence] = []
        parts: dict[int, list[bytes]] = {}
        requests: dict[int, list[bytes]] = {}
        for values in self._gathered.shares.values():
            clients = Clients()
            columns = join(self._legend.read(value, clients) for value in values)
            rows, evidence = task.judge_messages(columns)
            found.append(evidence)
            for share, packed in task.divide_requests(columns, clients):
                requests.setdefault(share, []).append(packed)
            for part, packed in divide(rows, "part", PART_COLUMNS) if rows else ():
                parts.setdefault(part, []).append(packed)
        borders: dict[int, list[Evidence]] = {}
        for values in parts.values():
            evidence = task.judge_part(join(map(unpack, values)))
            found.append(evidence)
            for bucket, border in divide_borders(evidence, task.cuts.parts):
                borders.setdefault(bucket, []).append(border)
        found += map(fold_borders, borders.values())
        found += map(task.judge_requests, requests.values())
        return found

    def list_violations(self, task: JudgingTask, namer: Namer) -> pa.Table:
        """The violations that a listing task finds, with names."""
        return pa.Table.from_batches(map(namer.rows, self.run(task)), schema=SCHEMA)
