"""A history on disk that grows by new files, as one that is exported again and again does."""

import random
from pathlib import Path

from ordercast.history.lake_writer import opened_lake
from ordercast.history.rows import Delivered, GroupRow, History, Meta, Sent
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE, encode_meta, write_table
from support.cases.fuzz import right_history
from support.cases.portions import in_order, joined

_SECOND = 1_000_000_000


class GrowingHistory:
    """`append` adds a file to each table that has rows; the first one has all tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = 0
        folder.mkdir()
        (folder / META_FILE).write_bytes(encode_meta(Meta()))
        for name in TABLES:
            (folder / name).mkdir()
        self.append(History(), every=True)

    def append(self, portion: History, every: bool = False) -> None:
        for name, rows in portion.tables().items():
            if rows or every:
                path = self.folder / name / f"part-{self._files:05}.parquet"
                write_table(TABLES[name], rows, path)
        self._files += 1


class GrowingTables:
    """The same as a lake: `append` adds files to the folders of days."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._appends = 0
        self.append(History())

    def append(self, portion: History) -> None:
        self._appends += 1
        with opened_lake(self.folder, "any") as writer:
            appended = writer.append()
            for name, rows in portion.tables().items():
                if rows:
                    with appended.table(name) as table:
                        for row in rows:
                            table.append(row)
            appended.finish(Meta())
            appended.commit(str(self._appends).encode())


def parts_of_history(seed: int) -> list[History]:
    """A right history in two parts, and a delivery that nobody sent."""
    rng = random.Random(seed)
    portions = in_order(rng, right_history(rng))
    half = len(portions) // 2
    wrong = Delivered("zz", 1, 1, 1, "nowhere", "zz", 1, 1, 0)
    return [joined(portions[:half]), joined(portions[half:]), History(deliveries=[wrong])]


def ten_a_second() -> History:
    """Of 40 seconds; b has them two milliseconds later than a, and lacks the last ones of a
    window."""
    times = [n * _SECOND // 10 for n in range(1, 400)]
    sent = [Sent("a", 1, "g", n, 0, 0, at, 8) for n, at in enumerate(times, 1)]
    rows = [
        Delivered(site, n, 1, 1, "g", "a", 1, n, at + delay, sent_ns=at)
        for site, delay in (("a", 1_000_000), ("b", 3_000_000))
        for n, at in enumerate(times, 1)
        if site == "a" or not 190 <= n < 200
    ]
    return History(groups=[GroupRow(1, "g", site) for site in "ab"], sent=sent, deliveries=rows)
