"""The bounds in docs/sweeps.md are those of the code, and none of the code's is left out."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "src" / "ordercast" / "studies"
BOUND = re.compile(r"^(\w+) = ([\d.]+)  # .*(?:counts? as|at most|at least|power|knee|long one)")
WORD = re.compile(
    r"\b(?:(?:very|much|far|almost|relatively) [a-z]+|[a-z]{3,}ly|comparable|competitive|similar"
    r"|reasonable|infrequent|close to 2|low in general|in most cases)\b"
)
NONE = {"only", "possibly", "early", "hardly"}
"""Say no measure: what is served early is measured, and not judged; where groups hardly meet is
the end of an axis."""
ROW = re.compile(r"^\|.*`(\w+) = ([\d.]+)`.*\| `([\w/]+\.py)` \|$", re.MULTILINE)


def told() -> set[tuple[str, str, str]]:
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    return {(file, name, value) for name, value, file in ROW.findall(page)}


def written() -> set[tuple[str, str, str]]:
    """Constants of the modules with findings that say what still counts as a word."""
    found = set()
    for path in STUDIES.glob("*/*.py"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if (bound := BOUND.match(line)) and "QUICK" not in line:
                found.add((str(path.relative_to(STUDIES)), bound[1], bound[2]))
    return found


def test_every_bound_of_a_verdict_is_told_with_its_value() -> None:
    assert len(told()) > 15
    assert written() - told() == set()


def test_every_bound_that_is_told_is_in_the_code() -> None:
    for file, name, value in told():
        lines = (STUDIES / file).read_text(encoding="utf-8").splitlines()
        assert any(line.startswith(f"{name} = {value} ") for line in lines), (file, name)


def claims() -> Iterator[str]:
    """The statements of the papers' claims: on the page of verdicts, and as the studies have them,
    so that one which was not measured yet counts as well."""
    for line in (ROOT / "docs" / "verdicts.md").read_text(encoding="utf-8").splitlines():
        if re.match(r"\| `[\w-]+` \| \d+ \|", line):
            yield line.split(" | ")[2]
    for paper in ("gs", "tom", "swap", "stab"):
        for path in (STUDIES / paper).glob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding":
                    yield from _said(node)


def _said(finding: ast.Call) -> Iterator[str]:
    ours = [key for key in finding.keywords if key.arg == "kind"]
    first = finding.args[0]
    parts = first.values if isinstance(first, ast.JoinedStr) else [first]
    said = [str(each.value) for each in parts if isinstance(each, ast.Constant)]
    if not ours:
        yield "".join(said)


def test_every_word_of_a_claim_that_needs_a_bound_has_one() -> None:
    """The first column of the table has the word as the claim has it."""
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    table = page.partition("### What the words of a verdict mean")[2].partition("\n### ")[0]
    told = " ".join(line.split("|")[1] for line in table.splitlines() if line[:2] == "| ")
    words = {word for claim in claims() for word in WORD.findall(claim)} - NONE
    assert {"comparable", "very low", "dramatically", "slightly"} <= words
    assert [word for word in sorted(words) if f'"{word}"' not in told] == []
