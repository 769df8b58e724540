"""docs/store.md: its programs run, and print what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "store.md").read_text("utf-8")


def test_the_programs_of_the_store_page_print_what_it_shows(tmp_path: Path) -> None:
    shown = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
    assert len(shown) == PAGE.count("```python\n") == 2
    for program, output in shown:  # the second one reads the stores of the first
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == output
