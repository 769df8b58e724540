"""How fast the audit judges a history on Spark: rows per second with all checks, and peak memory.

    python bench/audit.py --rows 5000000
    python bench/audit.py --rows 50000000 --once --memory 1g
    python bench/audit.py --rows 5000000 --late 1
    python bench/audit.py --rows 5000000 --once --memory 1g --master "local-cluster[1,2,2048]"

Makes a history (a random total order of messages, delivered by the members of their groups, each
site with its own delays) as Parquet, audits it twice in one session (the second time is the warm
one), and lets DuckDB check pairwise order alone on the same files. `--late N` lets N messages come
at the very end of one site's history instead of at their place. Prints one JSON object, with the
processor time of all processes and the machine's load beside the time on the clock.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ordercast.history.rows import END, EpochRow, Event, GroupRow, Meta, Row
from ordercast.history.schema import arrow_schema
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE, write_table
from ordercast.pipeline import open_session
from ordercast.pipeline.audits.audit import audit_tables
from ordercast.pipeline.audits.frames import check_place, read_frames

Ints = npt.NDArray[np.int64]

PAIRWISE = """
with pairs as (
  select a.site as one, b.site as other, b.position as there,
         lag(b.position) over (partition by a.site, b.site order by a.position) as before
  from read_parquet('{0}') a join read_parquet('{0}') b
    using (origin, incarnation, group_name, seq)
  where a.site < b.site)
select count(distinct one || ' ' || other) from pairs where there < before
"""


class Maker:
    """Writes a history block by block, so that memory does not grow with it."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.rng = np.random.default_rng(options.seed)
        self.folder = folder
        self.sites = pa.array([f"s{i:03}" for i in range(options.sites)])
        self.groups = pa.array([f"g{i:03}" for i in range(options.groups)])
        self.members = np.stack(
            [
                np.sort(self.rng.choice(options.sites, options.size, replace=False))
                for _ in range(options.groups)
            ]
        )
        self.late = options.late
        self.block = options.block
        self.done = np.zeros(options.sites, np.int64)  # positions used, by site
        self.seqs = np.zeros(options.sites * options.groups, np.int64)
        self.held: list[dict[str, Ints]] = []

    def make(self, messages: int) -> None:
        for name in TABLES:
            (self.folder / name).mkdir(parents=True)
        for start in range(0, messages, self.block):
            self._block(start, min(self.block, messages - start))
        for rows in self.held:
            self._deliver(rows, "part-99999.parquet")
        self._small_tables()

    def _block(self, start: int, count: int) -> None:
        origin = self.rng.integers(len(self.sites), size=count)
        group = self.rng.integers(len(self.groups), size=count)
        seq = self._next_seqs(origin * len(self.groups) + group)
        sent_ns = (start + np.arange(count)) * 1_000
        at = self.members[group]
        message = np.repeat(np.arange(count), at.shape[1])
        rows = {
            "site": at.ravel(),
            "origin": origin[message],
            "group_name": group[message],
            "seq": seq[message],
            "ns": sent_ns[message] + self.rng.integers(100_000, 5_000_000, len(message)),
        }
        order = np.lexsort((message, rows["site"]))
        rows = {name: column[order] for name, column in rows.items()}
        first = np.searchsorted(rows["site"], np.arange(len(self.sites) + 1))
        seen = np.empty(count, np.int64)
        for site in range(len(self.sites)):
            own = message[order][first[site] : first[site + 1]]
            mine = np.flatnonzero(origin == site)
            seen[mine] = self.done[site] + np.searchsorted(own, mine)
            span = slice(first[site], first[site + 1])
            rows["ns"][span] = np.maximum.accumulate(rows["ns"][span])
        stem = f"part-{start // self.block:05}.parquet"
        if self.late and not start:
            late = np.linspace(0, len(message) - 1, self.late + 2, dtype=np.int64)[1:-1]
            self.held.append({name: column[late] for name, column in rows.items()})
            rows = {name: np.delete(column, late) for name, column in rows.items()}
        self._deliver(rows, stem)
        ones = np.ones(count, np.int64)
        self._write(
            "sent",
            {
                "origin": self.sites.take(pa.array(origin)),
                "incarnation": ones,
                "group_name": self.groups.take(pa.array(group)),
                "seq": seq,
                "after_position": seen,
                "after_attempt": np.minimum(seen, 1),
                "sent_ns": sent_ns,
                "size": np.full(count, 100, np.int32),
                "digest": seq,
            },
            stem,
        )

    def _next_seqs(self, stream: Ints) -> Ints:
        order = np.argsort(stream, kind="stable")
        ordered = stream[order]
        begins = np.searchsorted(ordered, ordered)
        seq = np.empty(len(stream), np.int64)
        seq[order] = self.seqs[ordered] + np.arange(len(stream)) - begins + 1
        np.maximum.at(self.seqs, stream, seq)
        return seq

    def _deliver(self, rows: dict[str, Ints], stem: str) -> None:
        """`rows` by site, each site's in order."""
        site = rows["site"]
        count = len(site)
        position = self.done[site] + np.arange(count) - np.searchsorted(site, site) + 1
        self.done += np.bincount(site, minlength=len(self.sites))
        ones = np.ones(count, np.int64)
        columns = {
            "site": self.sites.take(pa.array(site)),
            "position": position,
            "attempt": ones,
            "epoch": ones,
            "group_name": self.groups.take(pa.array(rows["group_name"])),
            "origin": self.sites.take(pa.array(rows["origin"])),
            "incarnation": ones,
            "seq": rows["seq"],
            "delivered_ns": rows["ns"],
            "digest": rows["seq"],
        }
        self._write("deliveries", columns, stem)

    def _write(self, name: str, columns: dict[str, Any], stem: str) -> None:
        kept = tuple(column for column in TABLES[name].columns if column.name in columns)
        table = pa.table(columns, schema=arrow_schema(TABLES[name], kept))
        pq.write_table(table, self.folder / name / stem, compression="zstd")

    def _small_tables(self) -> None:
        names = self.sites.to_pylist()
        groups: list[Row] = [
            GroupRow(1, group, names[site])
            for group, own in zip(self.groups.to_pylist(), self.members, strict=True)
            for site in own
        ]
        events: list[Row] = [
            Event(name, 1, END, int(last), 1, 1, 0)
            for name, last in zip(names, self.done, strict=True)
        ]
        epochs: list[Row] = [EpochRow(1, "d", "safe", "exclude", "none", "start", 0)]
        for name, rows in (("groups", groups), ("events", events), ("epochs", epochs)):
            write_table(TABLES[name], rows, self.folder / name / "part-00000.parquet")
        (self.folder / META_FILE).write_bytes(msgspec.json.encode(Meta()))


class PeakMemory:
    """The most that this process and its children held at a time, sampled, as proportional shares.

    Pages that forked workers share are counted once (`Pss`).
    """

    def __init__(self) -> None:
        self.mib = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "PeakMemory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.5):
            self.mib = max(self.mib, sum(map(_held_mib, _family(os.getpid()))))


def _family(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += parents.get(process, [])
    return found


def cpu_seconds() -> float:
    """Of this process and its children, gone ones too: other work does not lengthen it."""
    ticks = 0
    for process in _family(os.getpid()):
        try:
            words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, words[11:15]))  # own and waited-for children's, user and system
    return ticks / os.sysconf("SC_CLK_TCK")


def _held_mib(process: int) -> int:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(x.split()[1]) for x in text.splitlines() if x.startswith("Pss:")), 0) // 1024


def most_mib(process: int) -> int:
    """The most that a process has held."""
    text = Path(f"/proc/{process}/status").read_text()
    return next(int(x.split()[1]) for x in text.splitlines() if x.startswith("VmHWM:")) // 1024


def driver_mib(spark: Any) -> dict[str, int]:
    """The most that the driver's Python and its JVM have held. With a local master the JVM is the
    executor, too; with `--master local-cluster[1,2,2048]` it is the driver's alone."""
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    return {"driver_mib": most_mib(os.getpid()), "driver_jvm_mib": most_mib(jvm)}


def moved(spark: Any) -> dict[str, Any]:
    """What all jobs so far shuffled, and what they sent to the driver; the largest shuffles."""
    java = spark.sparkContext._gateway
    none, nothing = java.new_array(java.jvm.double, 0), java.jvm.java.util.ArrayList()
    store = spark.sparkContext._jsc.sc().statusStore()
    stages = store.stageList(None, False, False, none, nothing)
    every = [stages.apply(i) for i in range(stages.size())]
    shuffled = [int(stage.shuffleWriteBytes()) for stage in every]
    return {
        "shuffle_mib": round(sum(shuffled) / 2**20, 1),
        "shuffles_mib": [round(each / 2**20, 1) for each in reversed(shuffled) if each > 2**18],
        "result_mib": round(sum(int(stage.resultSize()) for stage in every) / 2**20, 1),
        "tasks": sum(int(stage.numCompleteTasks()) for stage in every),
    }


def make(folder: Path, options: argparse.Namespace) -> None:
    """In a process of its own: what it holds does not count for the driver."""
    maker = multiprocessing.get_context("spawn").Process(target=_make, args=(folder, options))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise SystemExit(f"the history was not made: exit code {maker.exitcode}")


def _make(folder: Path, options: argparse.Namespace) -> None:
    Maker(folder, options).make(options.rows // options.size)


def _session(options: argparse.Namespace) -> dict[str, Any]:
    conf = dict(pair.split("=", 1) for pair in options.conf)
    return {"master": options.master, "memory": options.memory, "conf": conf}


def run(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    seconds: list[float] = []
    used: list[float] = []
    with (
        PeakMemory() as peak,
        open_session("bench", **_session(options)) as spark,
    ):
        for _ in range(1 if options.once else 2):
            before = cpu_seconds()
            place = check_place(str(folder))
            groups = None if options.frames else place.groups
            frames = read_frames(spark, place)
            result = audit_tables(spark, frames, causal=options.causal, groups=groups)
            seconds.append(result.seconds)
            used.append(cpu_seconds() - before)
        work = moved(spark) | driver_mib(spark)
    return {
        **work,
        "rows": result.rows,
        "messages": result.messages,
        "parts": result.parts,
        "ok": result.ok,
        "checks": dict(result.checks),
        "seconds": [round(each, 1) for each in seconds],
        "cpu_seconds": [round(each, 1) for each in used],
        "load": round(os.getloadavg()[0], 1),
        "rows_per_s": round(result.rows / seconds[-1]),
        "peak_mib": peak.mib,
    }


def run_duckdb(folder: Path) -> dict[str, Any]:
    begun = time.perf_counter()
    query = PAIRWISE.format(folder / "deliveries" / "*.parquet")
    found = duckdb.connect().execute(query).fetchall()
    return {"pairwise_order": found[0][0],
            "seconds": round(time.perf_counter() - begun, 1)}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sites", type=int, default=20)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--size", type=int, default=5)
    parser.add_argument("--late", type=int, default=0, help="messages that come at the very end")
    parser.add_argument("--block", type=int, default=500_000, help="messages in a file")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--memory", default=None, help="of the JVM")
    parser.add_argument("--conf", action="append", default=[], metavar="K=V", help="of Spark")
    parser.add_argument("--frames", action="store_true", help="let Spark read, not the workers")
    parser.add_argument("--once", action="store_true", help="no warm run")
    parser.add_argument("--no-duckdb", action="store_true")
    parser.add_argument("--keep", metavar="DIR", help="where the history is made, and stays")
    options = parser.parse_args()
    folder = Path(options.keep or tempfile.mkdtemp(prefix="audit-bench-"))
    try:
        if not (folder / META_FILE).exists():
            make(folder, options)
        found = run(folder, options)
        if not options.no_duckdb:
            found["duckdb"] = run_duckdb(folder)
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    json.dump(found, sys.stdout)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
