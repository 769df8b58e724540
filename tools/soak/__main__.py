"""`make soak`: the command. One campaign a run; progress as a bar on a terminal, else in lines."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import ordercast
from tools.soak.campaign import CAMPAIGNS, ROOT, campaign_names, fingerprint, load_campaign
from tools.soak.record import Chunk, Record, totals
from tools.soak.workers import Pool

STATE = ROOT / ".soak"
SHOWN_FAILURES = 20
LINE_EVERY_S = 30.0


class Progress:
    """How far it is, on standard error."""

    def __init__(self, done: int, cases: int) -> None:
        self.done = self.before = done
        self.cases = cases
        self.begun = self.shown = time.monotonic()
        self.terminal = sys.stderr.isatty()

    def add(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if now - self.shown < (0.2 if self.terminal else LINE_EVERY_S) and self.done < self.cases:
            return
        self.shown = now
        rate = (self.done - self.before) / max(now - self.begun, 1e-9)
        left = (self.cases - self.done) / max(rate, 1e-9)
        text = f"{self.done:,} of {self.cases:,} cases, {rate:,.0f}/s, {_duration(left)} left"
        if self.terminal:
            filled = 30 * self.done // max(self.cases, 1)
            print(f"\r[{'#' * filled:30}] {text}   ", end="", file=sys.stderr, flush=True)
        else:
            print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.terminal:
            print("\r" + " " * 100 + "\r", end="", file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


def soak(
    path: Path, *, code: str, start: int, cases: int, jobs: int, resume: bool, state: Path
) -> int:
    campaign = load_campaign(path)
    record = _record(state / f"{campaign.name}.jsonl", code, resume)
    end = start + cases
    before = record.within(start, end)
    progress = Progress(sum(chunk.count for chunk in before), cases)
    print(f"{campaign.name}: seeds {start} to {end - 1}, ordercast {ordercast.__version__}")
    if before:
        print(f"taking up where it stopped: {progress.done:,} cases are done")
    shown = _show_failures(before, campaign.name, 0)
    pool = Pool(campaign, jobs)
    signal.signal(signal.SIGINT, lambda *_: _interrupted(pool))
    for chunk in pool.run(record.missing(start, end)):
        record.add(chunk)
        if chunk.failures:
            progress.clear()
            shown = _show_failures([chunk], campaign.name, shown)
        progress.add(chunk.count)
    progress.clear()
    return _report(record.within(start, end), cases)


def replay(path: Path, seed: int) -> int:
    """One case, here and now, past all records; an exception shows its whole traceback."""
    outcome = load_campaign(path).run(seed)
    counted = ", ".join(f"{count:,} {name}" for name, count in sorted(outcome.counters.items()))
    verdict = "passed" if outcome.ok else f"FAILED: {outcome.message}"
    print(f"{path.stem} {seed}: {verdict} ({counted})")
    return 0 if outcome.ok else 1


def _record(path: Path, code: str, resume: bool) -> Record:
    if not resume:
        return Record.begin(path, code)
    record = Record.resume(path, code)
    if record is None:
        print("nothing to resume for this code: starting anew", file=sys.stderr)
        return Record.begin(path, code)
    return record


def _interrupted(pool: Pool) -> None:
    """The first Ctrl-C lets the chunks under way finish, the second does not."""
    print("\nfinishing the cases under way (Ctrl-C again: leave them)", file=sys.stderr)
    pool.stop()
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _show_failures(chunks: Sequence[Chunk], name: str, shown: int) -> int:
    """One line each, with the command that replays it; a flood of them is cut short."""
    for failure in (failure for chunk in chunks for failure in chunk.failures):
        shown += 1
        if shown <= SHOWN_FAILURES:
            print(f"FAILED {name} {failure.seed}: {failure.message} -- replay: {failure.replay}")
        elif shown == SHOWN_FAILURES + 1:
            print("further failures are counted, not shown; all are in the record")
    sys.stdout.flush()
    return shown


def _report(chunks: Sequence[Chunk], cases: int) -> int:
    done = sum(chunk.count for chunk in chunks)
    failed = sum(len(chunk.failures) for chunk in chunks)
    seconds = sum(chunk.seconds for chunk in chunks)
    counted = ", ".join(f"{count:,} {name}" for name, count in sorted(totals(chunks).items()))
    print(f"{done:,} of {cases:,} cases, {failed:,} failed, {seconds:,.0f} s of work")
    if counted:
        print(f"in all {counted}")
    if done < cases:
        print("the rest: the same command with --resume")
    return 1 if failed or done < cases else 0


def main(argv: Sequence[str] | None = None) -> int:
    names = campaign_names()
    parser = argparse.ArgumentParser(
        prog="make soak",
        description="Run any number of seeded cases of a campaign.",
        epilog='Example: make soak SOAK="forest --cases 100000", or the same with --resume.',
    )
    parser.add_argument("campaign", nargs="?", help=f"any of: {', '.join(names)}; none: list them")
    parser.add_argument("--cases", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--start", type=int, default=1, help="the first seed (default 1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run this one case, verbosely")
    parser.add_argument("--resume", action="store_true", help="do only what is not done yet")
    options = parser.parse_args(argv)
    if options.campaign is None:
        print("campaigns:", *names)
        return 0
    if options.campaign not in names:
        parser.error(f"there is no campaign {options.campaign!r} (known: {', '.join(names)})")
    for name, least in (("cases", 1), ("start", 0), ("jobs", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: must be at least {least}")
    path = CAMPAIGNS / f"{options.campaign}.py"
    if options.replay is not None:
        return replay(path, options.replay)
    return soak(
        path,
        code=fingerprint(path),
        start=options.start,
        cases=options.cases,
        jobs=min(options.jobs, options.cases),
        resume=options.resume,
        state=STATE,
    )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
