"""Commands of the system that tests run; `make setup` installs them where it is root."""

import os
import shutil

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
