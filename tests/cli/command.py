"""Running the command: in this process or in one of its own, as its users do."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples" / "groups"
COMMAND = (sys.executable, "-m", "ordercast.cli")


def run(
    *arguments: str, code: str | None = None, at: Path | None = None, **environment: str
) -> "Finished":
    """Run `ordercast` with the arguments, or `code` before it, in a process of its own, `at` a
    working directory."""
    command = [*COMMAND, *arguments]
    if code is not None:
        script = f"{code}\nfrom ordercast.cli import main\nraise SystemExit(main())"
        command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(
        command,
        cwd=at,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


Finished = subprocess.CompletedProcess[str]
