"""docs/security.md: every line names tests, and they are there."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PARTIES = (
    "A stranger on the network",
    "A user of the same machine",
    "A client on the socket",
    "A client on another machine",
    "A site's certificate",
    "A retired site's certificate",
    "A voter's certificate",
    "Whoever has ca.key",
)


@cache
def named_in(file: str) -> set[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def test_every_line_names_tests_that_are_there() -> None:
    lines = re.findall(r"^\| (?:can|cannot) \| .+ \|$", PAGE, re.MULTILINE)
    assert len(lines) == len(re.findall(r"^\| can", PAGE, re.MULTILINE)) > 30
    for line in lines:
        what, shown_by = line.strip("| ").rsplit(" | ", 1)
        named = NAMED.findall(shown_by)
        assert named, what
        assert NAMED.sub("", shown_by).strip(", ") == "", what
        for file, name in named:
            assert name.startswith("test_")
            assert name in named_in(file), f"{file}::{name}"


def test_each_party_has_its_table_and_the_page_is_linked() -> None:
    titles = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert tuple(titles) == PARTIES
    for part in PAGE.split("\n## ")[1:]:
        assert "\n| can" in part
    assert "](docs/security.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](security.md)" in (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
