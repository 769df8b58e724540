"""Write the hashed requirement locks: `make lock`, the only use of uv.

Locks are universal (every system and every Python from the oldest on) and name no host and no
path: where packages come from is the business of whoever installs them. Pins stay as they are
unless pyproject.toml asks for something else or `--upgrade` is given. The standard library
suffices here; uv is taken from PATH or `.venv`, or put into a temporary environment.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
OLDEST = "3.11"

LOCKS = {  # name: what goes into it, as options of `uv pip compile`
    "core": (),
    "all": ("--all-extras",),
    "dev": ("--all-extras", "--group=dev"),  # the tests run every part of it
    "java": ("--group=java", "--no-annotate"),  # a runtime for machines that have none
}
FOREIGN = re.compile(r"\w+://|--(?:extra-)?index-url|--find-links|--trusted-host|@ |^\s*(?:-e|/)")


def scratch_python(scratch: Path) -> Path:
    """A Python with a pip of its own, whatever the one that runs this has."""
    venv.create(scratch / "venv", with_pip=True)
    return scratch / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"


def uv(python: Path) -> str:
    """A uv to run: the one that is there, or one installed for this occasion."""
    here = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".venv" / "bin"))
    if here:
        return here
    print("no uv on PATH: installing one for this run", file=sys.stderr)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "uv"], check=True)
    return str(python.with_name("uv"))


def write_lock(tool: str, name: str, upgrade: bool) -> None:
    lock = REQUIREMENTS / f"{name}.txt"
    subprocess.run(
        [
            tool, "pip", "compile", "pyproject.toml", "--quiet", "--universal", "--generate-hashes",
            f"--python-version={OLDEST}", "--custom-compile-command=make lock", "--no-config",
            f"--output-file={lock.relative_to(ROOT)}", *LOCKS[name], *["--upgrade"][:upgrade],
        ],
        cwd=ROOT,
        check=True,
    )  # fmt: skip
    foreign = [line for line in lock.read_text().splitlines() if FOREIGN.search(line)]
    if foreign:
        raise SystemExit(f"lock: {lock.name} names a place: {foreign[0].strip()}")


def note_download_size(python: Path, name: str, target: Path) -> None:
    """Measure what installing the lock here downloads, for set-up to say beforehand."""
    lock = REQUIREMENTS / f"{name}.txt"
    subprocess.run(
        [
            python, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes",
            "--disable-pip-version-check", "-r", lock, "-d", target,
        ],
        check=True,
    )  # fmt: skip
    megabytes = sum(file.stat().st_size for file in target.iterdir()) / 1e6
    machine = f"{platform.system()} {platform.machine()}"
    note = f"# Download: about {megabytes:.0f} MB on {machine}\n"
    lines = lock.read_text(encoding="utf-8").splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    lock.write_text("".join([*lines[:first], note, *lines[first:]]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make lock", description=__doc__.splitlines()[0])
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions allowed")
    options = parser.parse_args()
    REQUIREMENTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            python = scratch_python(Path(scratch))
            tool = uv(python)
            for name in LOCKS:
                write_lock(tool, name, options.upgrade)
            note_download_size(python, "dev", Path(scratch) / "dev")
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"lock: {Path(error.cmd[0]).name} failed ({error})") from None


if __name__ == "__main__":
    main()
