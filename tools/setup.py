#!/usr/bin/env python3
"""Set up the checkout and run its targets, with nothing but the standard library.

The Makefile only calls this file, so `python3 tools/setup.py demo` works without make. Any Python
from 3.8 on gets far enough to look for one that is new enough and hand over to it; from there on
everything happens in `.venv`, which is stamped with what it was made from: a second run is
instant, a changed lock makes it anew, a half-made one has no stamp.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
SCRIPTS = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = SCRIPTS / ("python.exe" if os.name == "nt" else "python")
STAMP = VENV / "stamp.json"
LOG = VENV / "install.log"
LOCK = ROOT / "requirements" / "dev.txt"
JAVA_LOCK = ROOT / "requirements" / "java.txt"
PROJECT = ROOT / "pyproject.toml"

OLDEST = (3, 11)
SUCCESSORS = ("python3.14", "python3.13", "python3.12", "python3.11")
SYSTEM = {  # a command that tests need: the packages of Debian
    "chromium": ["chromium"],
    "fish": ["fish"],
    "gcc": ["gcc", "libc6-dev"],
    "groff": ["groff-base"],
    "ip": ["iproute2"],
    "systemd-analyze": ["systemd"],
    "zsh": ["zsh"],
}
DISK_MB = 4000  # .venv takes under half of it; pip builds Spark's package in the rest
CACHES = (
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    "build",
    "dist",
)


class Trouble(Exception):
    """Set-up cannot go on; the message is the one line that the user reads."""


def say(text: str) -> None:
    """Set-up's own words go to standard error: `demo` and `bench` own standard output."""
    print(text, file=sys.stderr, flush=True)


# --- Finding a Python ---------------------------------------------------------------------------


def usable(python: str) -> bool:
    """Whether this command is a Python that is new enough and can make environments.

    It is asked, not trusted: a version manager's shim exists for versions that are not selected.
    """
    question = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] < {OLDEST})"
    try:
        answer = subprocess.run([python, "-c", question], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def successor() -> str | None:
    """The newest usable Python on PATH under its versioned name."""
    found = (shutil.which(name) for name in SUCCESSORS)
    return next((python for python in found if python and usable(python)), None)


def hand_over(why: str, otherwise: str) -> None:
    """Run this same command with a better Python, or say what to install."""
    better = successor()
    if better is None:
        raise Trouble(otherwise)
    say(f"{why}; going on with {better}")
    replace_by([better, str(Path(__file__).resolve()), *sys.argv[1:]])


def require_new_python() -> None:
    if sys.version_info[:2] >= OLDEST:
        return
    mine = ".".join(map(str, sys.version_info[:2]))
    oldest = ".".join(map(str, OLDEST))
    why = f"ordercast needs Python {oldest} or newer, this is {mine}"
    hand_over(why, f"{why}, and PATH has no {' or '.join(reversed(SUCCESSORS))}: install one")


def require_ensurepip() -> None:
    """Debian and its kin ship `venv` without the part that brings pip."""
    if usable(sys.executable):
        return
    version = ".".join(map(str, sys.version_info[:2]))
    why = f"Python {version} at {sys.executable} lacks venv or ensurepip"
    if Path("/etc/debian_version").exists():
        remedy = f"install them with: apt install python{version}-venv"
    else:
        remedy = "install your system's package for them (often python3-venv or python3-pip)"
    hand_over(why, f"{why}; {remedy}")


# --- Set-up: steps in order, each of them quick when its work is done already -------------------


def setup() -> None:
    """Make `.venv` what the lock and pyproject.toml say, and see to a Java for Spark.

    Each step has its own entry in the stamp.
    """
    wanted = {
        "lock": digest(LOCK),
        "project": digest(PROJECT),
        "root": str(ROOT),  # commands in .venv name it: a moved checkout needs a new one
    }
    have = stamp()
    begun = time.monotonic()
    if any(have.get(key) != wanted[key] for key in ("lock", "root")):
        require_disk()
        make_venv()
        install_packages()
        have = {"lock": wanted["lock"], "root": wanted["root"]}
        write_stamp(have)
    if have.get("project") != wanted["project"]:
        install_project()
        provide_java()
        write_stamp(wanted)
        say(f"ready in {time.monotonic() - begun:.0f} s: {relative(SCRIPTS)}")


def digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise Trouble(f"{relative(path)}: cannot be read ({error.strerror})") from None


def stamp() -> dict[str, str]:
    """What `.venv` was made from; empty when it is not there, half-made or its Python has gone."""
    try:
        found = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict) or found.get("python") != interpreter():
        return {}
    return found


def write_stamp(made_from: dict[str, str]) -> None:
    text = json.dumps({**made_from, "python": interpreter()}, indent=1)
    STAMP.write_text(text + "\n", encoding="utf-8")


def interpreter() -> str | None:
    """The Python that `.venv` leads to, through all links: an upgrade of the system changes it."""
    return os.path.realpath(PYTHON) if PYTHON.exists() else None


def require_disk() -> None:
    free = shutil.disk_usage(ROOT).free // 1_000_000
    if free < DISK_MB:
        raise Trouble(f"{ROOT} has {free} MB free; set-up needs {DISK_MB} MB")


def make_venv() -> None:
    require_ensurepip()
    remove(VENV)
    say(f"making .venv with Python {'.'.join(map(str, sys.version_info[:3]))}")
    made = subprocess.run(
        [sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True, errors="replace"
    )
    if made.returncode:
        last = (made.stderr + made.stdout).strip().splitlines()[-1:]
        raise Trouble(": ".join(["making .venv failed", *last]))


def install_packages() -> None:
    lock = LOCK.read_text(encoding="utf-8")
    count = len({line.split("==")[0] for line in lock.splitlines() if re.match(r"\w\S*==", line)})
    size = re.search(r"^# Download: about (\d+ MB)", lock, re.MULTILINE)
    about = f", about {size.group(1)}" if size else ""
    say(f"downloading at most {count} packages{about} (hashes checked: {relative(LOCK)})")
    pip("install", "--require-hashes", "-r", str(LOCK), what=relative(LOCK), count=count)


def install_project() -> None:
    arguments = ("--no-deps", "--no-build-isolation", "--no-index", "-e", str(ROOT))
    pip("install", *arguments, what="the project itself")


def provide_java() -> None:
    """Say which Java Spark will use; bring one along only when none that is new enough answers."""
    if not (java := ask_java()):
        say(f"no Java for Spark answers: downloading one, about 60 MB ({relative(JAVA_LOCK)})")
        pip("install", "--require-hashes", "-r", str(JAVA_LOCK), what=relative(JAVA_LOCK))
        java = ask_java()
    if not java:
        raise Trouble("Spark needs Java 17 or newer, and the one that was installed does not run")
    say(f"Spark uses {java}")


def ask_java() -> str:
    """The project's own answer (`ordercast.pipeline.java`); empty when there is none."""
    command = [str(PYTHON), "-m", "ordercast.pipeline.java"]
    answer = subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=ROOT)
    return answer.stdout.strip() if answer.returncode == 0 else ""


def provide_system_packages() -> None:
    """Install what tests need of the system, if it is missing and this is root on Debian or kin.
    Elsewhere those tests are skipped and say why; where CI is true they must run."""
    missing = [
        package
        for command, packages in SYSTEM.items()
        if shutil.which(command) is None
        for package in packages
    ]
    if not missing:
        return
    told = " ".join(missing)
    apt = shutil.which("apt-get")
    if apt is not None and hasattr(os, "geteuid") and os.geteuid() == 0:
        say(f"installing packages of the system that tests need: {told}")
        if apt_install(apt, missing):
            return
        why = f"apt-get could not install {told} (all of it: {relative(LOG)})"
    else:
        why = f"{told} is missing, and only root can install it with apt-get"
    if os.environ.get("CI") == "true":
        raise Trouble(why)
    say(f"{why}: tests that need it are skipped")


def apt_install(apt: str, packages: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["install", "-y", "--no-install-recommends", *packages]
    with LOG.open("a", encoding="utf-8") as log:
        for words in (["update"], install):
            done = subprocess.run(
                [apt, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
            if done.returncode and words is install:
                return False
    return True


def pip(*arguments: str, what: str, count: int = 0) -> None:
    """Run pip with its chatter in a log; on a terminal, count the packages as they come."""
    options = ("--no-input", "--disable-pip-version-check", "--progress-bar=off")
    command = [str(PYTHON), "-m", "pip", *arguments, *options]
    seen, complaint = 0, ""
    with LOG.open("a", encoding="utf-8") as log, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=ROOT, text=True,
        encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            if line.startswith("Collecting "):
                seen += 1
                if sys.stderr.isatty():
                    print(f"\r  {seen} of {count}", end="", file=sys.stderr, flush=True)
            elif line.startswith("ERROR: ") and not complaint:
                complaint = ": " + line[len("ERROR: ") :].strip().rstrip(":")
    if seen and sys.stderr.isatty():
        print("\r" + " " * 20 + "\r", end="", file=sys.stderr, flush=True)
    if process.returncode:
        raise Trouble(f"pip could not install {what}{complaint} (all of it: {relative(LOG)})")


# --- Targets ------------------------------------------------------------------------------------


def run_demo(arguments: list[str]) -> None:
    replace_by([str(SCRIPTS / "ordercast"), "demo", *arguments])


def run_test(arguments: list[str]) -> None:
    provide_system_packages()
    run_module("tools.suites", arguments)


def run_quick(arguments: list[str]) -> None:
    if arguments:
        raise Trouble(f"quick takes no argument, not {arguments[0]!r}")
    run_module("tools.suites", ["quick"])


def run_lint(arguments: list[str]) -> None:
    run_module("tools.suites", ["static", *arguments])


def run_soak(arguments: list[str]) -> None:
    os.environ.setdefault("ORDERCAST_PURE", "1")  # campaigns put classes of their own in places
    run_module("tools.soak", arguments)


def run_bench(arguments: list[str]) -> None:
    """Run one benchmark by name with what follows the name, or list them."""
    known = sorted(path.stem for path in (ROOT / "bench").glob("[!_]*.py"))
    if not arguments:
        print("benchmarks:", *(known or ["none yet"]))
        return
    name, *rest = arguments
    if name not in known:
        raise Trouble(f"there is no benchmark {name!r} (known: {', '.join(known) or 'none yet'})")
    replace_by([str(PYTHON), str(ROOT / "bench" / f"{name}.py"), *rest])


def run_bench_quick(arguments: list[str]) -> None:
    run_bench(["quick", *arguments])


def run_compiled(arguments: list[str]) -> None:
    run_module("tools.compiled", arguments)


def run_lock(arguments: list[str]) -> None:
    replace_by([sys.executable, "-m", "tools.lock", *arguments])


def run_clean(arguments: list[str]) -> None:
    """Remove what set-up and the tools made. Results (`out/`, `.soak/`) stay."""
    if arguments:
        raise Trouble(f"clean takes no argument, not {arguments[0]!r}")
    remove(VENV)
    for name in CACHES:
        remove(ROOT / name)
    for top in ("src", "tests", "tools", "bench"):
        for cache in sorted((ROOT / top).rglob("__pycache__")):
            remove(cache)


def run_setup(arguments: list[str]) -> None:
    if arguments:
        raise Trouble(f"setup takes no argument, not {arguments[0]!r}")
    provide_system_packages()


TARGETS = {  # name: (what runs, whether .venv comes first, what it does)
    "setup": (run_setup, True, "make .venv, or bring it up to date"),
    "demo": (run_demo, True, "show what ordercast does"),
    "test": (run_test, True, "run all suites, or those named, with their times and budgets"),
    "quick": (run_quick, True, "run the static checks and the tests that find most"),
    "lint": (run_lint, True, "formatting, lint, types and import contracts only"),
    "soak": (run_soak, True, "run any number of seeded cases; --help says more"),
    "bench": (run_bench, True, "run a benchmark by name, or list them"),
    "bench-quick": (run_bench_quick, True, "a few ratios beside the recorded ones"),
    "compiled": (
        run_compiled,
        True,
        "compile the core into .venv: faster, not needed",
    ),
    "lock": (run_lock, False, "write requirements/*.txt anew from pyproject.toml"),
    "clean": (run_clean, False, "remove .venv and caches"),
}


# --- Small parts --------------------------------------------------------------------------------


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def run_module(module: str, arguments: list[str]) -> None:
    replace_by([str(PYTHON), "-m", module, *arguments])


def replace_by(command: list[str]) -> None:
    """Become this command, so that Ctrl-C and the exit code are its own."""
    os.chdir(ROOT)
    sys.stdout.flush()
    if os.name == "nt":  # exec would return to the prompt at once there
        sys.exit(subprocess.run(command).returncode)
    os.execv(command[0], command)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="setup.py",
        description="Set up this checkout in .venv and run its targets.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(f"  {name:11} {text}" for name, (_, _, text) in TARGETS.items()),
    )
    parser.add_argument("target", choices=TARGETS, help="what to do; all but lock and clean set up")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="handed on to the target")
    options = parser.parse_args(argv)
    run, needs_setup, _ = TARGETS[options.target]
    try:
        require_new_python()
        if needs_setup:
            setup()
        run(options.arguments)
    except Trouble as trouble:
        say(f"setup: {trouble}")
        return 1
    except KeyboardInterrupt:
        say("setup: interrupted; run it again")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
