"""The test suites, their budgets on two cores, and the runner behind `make test` and `make quick`.

A suite is a directory of tests (unit: all those that are in no other) or, for `static`, a few
commands. `quick` is a choice of both for every day. At the end each one's time stands beside its
budget: too slow is a warning, what does not fit goes to `make soak`. A suite that takes five
times its budget hangs, and is stopped.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
SCRIPTS = Path(sys.executable).parent
CODE = ("src", "tests", "tools", "bench", "examples")
HANGS = 5  # times its budget, then a suite is stopped
CORES = min(os.cpu_count() or 1, 4)
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # hundreds of processes would each compile all anew
WAITING = 2 * CORES  # workers for tests that wait more than they compute: sockets, child processes

Command = list[str]


@dataclass(frozen=True, slots=True)
class Suite:
    name: str
    budget_s: int
    commands: Callable[[], list[Command]]  # empty when there is nothing to run yet


@dataclass(frozen=True, slots=True)
class Result:
    suite: Suite
    seconds: float
    ok: bool


def static() -> list[Command]:
    """Formatting, lint, types, import contracts; quickest first."""
    code = [top for top in CODE if _has(ROOT / top, "*.py")]
    return [
        [str(SCRIPTS / "ruff"), "format", "--check", "--quiet", *code],
        [str(SCRIPTS / "ruff"), "check", "--quiet", *code],
        [str(SCRIPTS / "lint-imports"), "--no-cache", "--no-logo"],
        [str(SCRIPTS / "mypy"), *code],
    ]


def unit() -> list[Command]:
    """Every test that no other suite claims."""
    rooms = [path for path in sorted(TESTS.iterdir()) if path.name not in SPECIAL]
    there = [str(room.relative_to(ROOT)) for room in rooms if room.is_dir() and _tests(room)]
    return [pytest(there, WAITING)] if there else []


def directory(*names: str, workers: int) -> Callable[[], list[Command]]:
    def commands() -> list[Command]:
        there = [f"tests/{name}" for name in names if _tests(TESTS / name)]
        return [pytest(there, workers)] if there else []

    return commands


def quick() -> list[Command]:
    """What finds most in the shortest time."""
    paths = [f"tests/{place}" for place in QUICK]
    return [*static(), pytest([*paths, *(f"--ignore=tests/{each}" for each in LONG)], WAITING)]


def pytest(words: Sequence[str], workers: int) -> Command:
    """Hypothesis's own profile `ci`: the same examples every time and no deadlines.

    Looking for new examples is what the soak is for. There is always a worker apart from the
    process that hands out the tests: one that hangs ends with it, and the others go on.
    """
    return [
        sys.executable, "-m", "pytest", "-q", "--hypothesis-profile=ci",
        "-n", str(workers), "--dist=worksteal", *words,
    ]  # fmt: skip


SPECIAL = {"schedules", "processes", "spark", "docs", "soak", "support"}
SUITES = (
    Suite("static", 40, static),
    Suite("unit", 390, unit),
    Suite("schedules", 120, directory("schedules", workers=CORES)),
    Suite("processes", 225, directory("processes", workers=WAITING)),
    Suite("spark", 260, directory("spark", workers=min(CORES, 2))),
    Suite("docs", 25, directory("docs", workers=CORES)),
)

QUICK = (
    "house/test_rooms.py", "house/test_texts.py", "house/test_suites.py", "house/test_locks.py",
    "model", "wire", "forest", "core", "history", "check", "plan", "scenarios",
    "schedules/test_regressions.py", "schedules/test_fault_schedules.py",
    "schedules/test_ring_schedules.py", "schedules/test_switch_ring.py",
    "schedules/test_mutants.py", "schedules/test_direct_mutants.py",
    "schedules/test_swap_mutants.py", "schedules/test_stability_mutants.py",
    "net/cluster", "net/store", "net/site", "net/client",
)  # fmt: skip
LONG = (  # of those directories
    "core/epochs/test_small_model.py", "net/store/test_store_members.py",
    "net/store/test_store_core.py", "net/store/test_store_excluding.py",
    "net/store/test_store_kill.py",
)  # fmt: skip
FOR_EVERY_DAY = Suite("quick", 180, quick)


def _has(place: Path, pattern: str) -> bool:
    return next(place.rglob(pattern), None) is not None


def _tests(place: Path) -> bool:
    return _has(place, "test_*.py")


def run(suite: Suite, commands: Sequence[Command]) -> Result:
    """Run every command, also after one failed: a person wants all the complaints at once."""
    begun = time.monotonic()
    ok = True
    for command in commands:
        name = "pytest" if "pytest" in command else Path(command[0]).name
        print(f"\n--- {suite.name}: {name}", flush=True)
        left = begun + HANGS * suite.budget_s - time.monotonic()
        ok = _finishes(command, max(left, 1.0)) and ok
    return Result(suite, time.monotonic() - begun, ok)


def _finishes(command: Command, limit_s: float) -> bool:
    """Whether the command ends well in time; what hangs is stopped with all its children."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != NO_BYTECODE},
        stdin=subprocess.DEVNULL,
        start_new_session=os.name == "posix",
    ) as process:
        try:
            return process.wait(limit_s) == 0
        except subprocess.TimeoutExpired:
            print(f"stopped: still running after {limit_s:.0f} s", flush=True)
            return False
        finally:
            if process.poll() is None:
                _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if os.name == "posix":
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def table(results: Sequence[Result]) -> str:
    """Each suite's time beside its budget, for the end of the output."""
    lines = ["suite          time   budget"]
    for result in results:
        budget = result.suite.budget_s
        remarks = [] if result.ok else ["FAILED"]
        if result.seconds > budget:
            remarks.append(f"over budget by {result.seconds - budget:.0f} s")
        line = f"{result.suite.name:10} {result.seconds:6.1f} s {budget:6d} s  {', '.join(remarks)}"
        lines.append(line.rstrip())
    total = sum(result.seconds for result in results)
    lines.append(f"{'all':10} {total:6.1f} s {sum(r.suite.budget_s for r in results):6d} s")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    names = [suite.name for suite in SUITES]
    parser = argparse.ArgumentParser(prog="make test", description="Run the test suites.")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"any of: {', '.join(names)}")
    wanted = parser.parse_args(argv).suites or names
    known = {suite.name: suite for suite in (*SUITES, FOR_EVERY_DAY)}
    for name in wanted:
        if name not in known:
            parser.error(f"there is no suite {name!r} (known: {', '.join(known)})")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # or a suite would live on alone
    chosen = [(suite, suite.commands()) for suite in known.values() if suite.name in wanted]
    results = [run(suite, commands) for suite, commands in chosen if commands]
    print("\n" + table(results), flush=True)
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
