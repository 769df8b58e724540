"""The live audit: rows per second, how flat its memory is, and the delay to an alert.

    python bench/live_audit.py fold --rows 5000000       # the judging alone, in batches
    python bench/live_audit.py alert --engine memory     # 5,000 messages/s into files, a fault
    python bench/live_audit.py alert --engine spark
    python bench/live_audit.py query --engine spark --history out/h  # all of it, with its memory

`alert` starts `ordercast audit --follow` on a history to which this process adds files at a steady
rate. After a while two messages are swapped at one site; the delay is from the rename of the file
with the second of them to the line with the alert. `query` follows a history to its end, such as
one that `bench/audit.py --rows 5000000 --block 1000 --keep out/h` has made, and tells after each
batch the most that the process and its JVM have held. Prints one JSON object.
"""

import argparse
import json
import os
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ordercast.check.live import LiveAudit
from ordercast.history.rows import Delivered, GroupRow, History, Meta, Sent
from ordercast.history.tables import TABLES
from ordercast.history.writer import META_FILE, encode_meta, write_table

GROUPS = 10


class Load:
    """A total order of messages; every site is `slack` messages behind the one before it."""

    def __init__(self, sites: int, size: int, seed: int = 1) -> None:
        rng = random.Random(seed)
        self._rng = rng
        self.names = [f"s{i:03}" for i in range(sites)]
        self.members = {f"g{i}": sorted(rng.sample(self.names, size)) for i in range(GROUPS)}
        self._seqs: dict[tuple[str, str], int] = {}
        self._positions = dict.fromkeys(self.names, 0)
        self._behind: dict[str, list[tuple[str, str, int, int]]] = {n: [] for n in self.names}

    def groups(self) -> list[GroupRow]:
        return [GroupRow(1, group, site) for group, own in self.members.items() for site in own]

    def portion(self, messages: int, slack: int = 50, swap: bool = False) -> History:
        history = History()
        for _ in range(messages):
            origin, group = self._rng.choice(self.names), self._rng.choice(list(self.members))
            seq = self._seqs[origin, group] = self._seqs.get((origin, group), 0) + 1
            now = time.time_ns()
            history.sent.append(Sent(origin, 1, group, seq, 0, 0, now, 100, seq))
            for site in self.members[group]:
                self._behind[site].append((group, origin, seq, now))
        for number, site in enumerate(self.names):
            behind = self._behind[site]
            count = max(0, len(behind) - number % 3 * slack)
            own, self._behind[site] = behind[:count], behind[count:]
            if swap and site == self.members["g0"][0]:
                at = next(i for i in range(len(own) - 1) if own[i][:2] != own[i + 1][:2])
                own[at], own[at + 1] = own[at + 1], own[at]
            start = self._positions[site]
            self._positions[site] += len(own)
            for position, (group, origin, seq, at) in enumerate(own, start + 1):
                history.deliveries.append(
                    Delivered(site, position, 1, 1, group, origin, 1, seq, at, seq, sent_ns=at)
                )
        return history


def fold(
    rows: int, batch: int, sites: int, size: int, state: Path | None, seconds: float
) -> dict[str, object]:
    """With `state` it stops after so many seconds, and the next call goes on from that file."""
    load, live, begun = Load(sites, size), LiveAudit(), time.monotonic()
    done, judged = 0, 0.0
    marks: list[dict[str, int]] = []
    if state is not None and state.exists():
        load, kept, done, judged, marks = pickle.loads(state.read_bytes())
        live = LiveAudit.restore(kept)
    else:
        live.add(History(groups=load.groups()))
    while done < rows and (state is None or time.monotonic() < begun + seconds):
        portion = load.portion(batch // size)
        start = time.process_time()
        report = live.add(portion)
        judged += time.process_time() - start
        assert report.ok
        done = report.rows
        if done >= rows * (len(marks) + 1) / 10:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            marks.append(
                {"rows": done, "held": live.held, "state": len(live.snapshot()), "mb": peak}
            )
    if state is not None:
        state.write_bytes(pickle.dumps((load, live.snapshot(), done, judged, marks)))
    return {"rows": done, "cpu_seconds": round(judged, 1), "rows_per_s": round(done / judged),
            "batch": batch, "sites": sites, "marks": marks}  # fmt: skip


def alert(rate: int, seconds: int, engine: str, sites: int, size: int) -> dict[str, object]:
    load = Load(sites, size)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "h"
        for name in TABLES:
            (folder / name).mkdir(parents=True)
        (folder / META_FILE).write_bytes(encode_meta(Meta(clock="utc")))
        write(folder, 0, History(groups=load.groups()), every=True)
        command = [sys.executable, "-m", "ordercast.cli", "audit", "--follow", str(folder)]
        command += ["--json", "--engine", engine, "--checkpoint", f"{scratch}/state"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            found = lines(process)
            next(found)
            planted_at: list[float] = []
            args = (folder, load, rate, seconds, planted_at)
            feeding = threading.Thread(target=feed, args=args)
            feeding.start()
            before = {}
            at, line = next(found)
            while line["kind"] != "alert":
                before = line
                at, line = next(found)
            delay = at - planted_at[0]
            process.terminate()
            feeding.join()
    return {"engine": engine, "messages_per_s": rate, "rows_per_s": rate * (size + 1),
            "delay_s": round(delay, 2), "check": line["check"], "rows_then": before["rows"],
            "load": os.getloadavg()[0]}  # fmt: skip


def query(folder: Path, engine: str) -> dict[str, object]:
    marks: list[dict[str, object]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "ordercast.cli", "audit", "--follow", str(folder)]
        command += ["--json", "--once", "--engine", engine, "--checkpoint", f"{scratch}/state"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            for at, line in lines(process):
                if line["kind"] == "verdict":
                    assert line["ok"], line
                    mark = {"rows": line["rows"], "s": round(at - begun, 1), "held": line["held"]}
                    mark |= {"python_mb": most_mb(process.pid), "jvm_mb": jvm_mb(process.pid)}
                    marks.append(mark)
                    print(json.dumps(mark), file=sys.stderr, flush=True)
    return {"engine": engine, "rows": marks[-1]["rows"], "marks": marks,
            "load": os.getloadavg()[0]}  # fmt: skip


def most_mb(process: int) -> int:
    """The most that a process has held."""
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return next(int(x.split()[1]) for x in text.splitlines() if x.startswith("VmHWM:")) // 1024


def jvm_mb(process: int) -> int | None:
    """The same of the Java that it has started."""
    below = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()
    for child in map(int, below):
        if Path(f"/proc/{child}/comm").read_text(encoding="ascii").strip() == "java":
            return most_mb(child)
    return None


def lines(process: "subprocess.Popen[bytes]") -> Iterator[tuple[float, dict[str, object]]]:
    assert process.stdout is not None
    for line in process.stdout:
        yield time.monotonic(), json.loads(line)


def feed(folder: Path, load: Load, rate: int, seconds: int, planted: list[float]) -> None:
    """Two files a second; the swap comes after `seconds`, and the load goes on for as long."""
    begun = time.monotonic()
    for tick in range(1, seconds * 4 + 1):
        swap = tick == seconds * 2
        write(folder, tick, load.portion(rate // 2, swap=swap))
        if swap:
            planted.append(time.monotonic())
        time.sleep(max(0.0, begun + tick / 2 - time.monotonic()))


def write(folder: Path, number: int, portion: History, every: bool = False) -> None:
    for name, rows in portion.tables().items():
        if rows or every:
            write_table(TABLES[name], rows, folder / name / f"part-{number:06}.parquet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("fold", "alert", "query"))
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=25_000)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--engine", default="memory")
    parser.add_argument("--sites", type=int, default=9)
    parser.add_argument("--size", type=int, default=3)
    parser.add_argument("--history", type=Path, help="query: the folder")
    parser.add_argument("--state", type=Path, help="fold: go on from this file, and keep it")
    parser.add_argument("--for", dest="most_s", type=float, default=400.0, help="with --state")
    args = parser.parse_args()
    if args.what == "fold":
        found = fold(args.rows, args.batch, args.sites, args.size, args.state, args.most_s)
    elif args.what == "query":
        found = query(args.history, args.engine)
    else:
        found = alert(args.rate, args.seconds, args.engine, args.sites, args.size)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
