"""Commands that tests run: of the system (`make setup` installs them where it is root), and Python
under other hash seeds."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def needed(name: str) -> str:
    """The path of a command. Without it the test is skipped; where CI is true it must be there."""
    found = shutil.which(name)
    if found is None:
        why = f"there is no {name}: 'make setup' installs it where it is root"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return found


def with_support() -> dict[str, str]:
    """The environment of a program that imports the support modules."""
    paths = [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def under_hash_seeds(*arguments: str) -> list[str]:
    """What Python prints with these arguments, once under each of two hash seeds."""
    env = with_support()
    return [
        subprocess.run(
            [sys.executable, *arguments],
            env={**env, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
