"""`python -m tools.settings`: write the cluster file that docs/operations.md shows anew."""

import re
import sys
from pathlib import Path

from ordercast.net.cluster.template import NewCluster

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operations.md"
SITES = {"a": "127.0.0.1:7101", "b": "127.0.0.1:7102"}
GROUPS = {"alpha": ["a", "b"]}
_SHOWN = re.compile(r"(?<=^```toml\n)# All sites.*?(?=^```$)", re.MULTILINE | re.DOTALL)


def page(text: str) -> str:
    """The page with the file that `ordercast init` writes."""
    found, count = _SHOWN.subn(lambda _: NewCluster("demo", SITES, GROUPS).text(), text)
    assert count == 1
    return found


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(f"written: {PAGE}", file=sys.stderr)
