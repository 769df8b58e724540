"""The bounds in docs/sweeps.md are those of the code, and none of the code's is left out."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STUDIES = ROOT / "src" / "ordercast" / "studies"
BOUND = re.compile(r"^(\w+) = ([\d.]+)  # .*(?:counts? as|at most|at least|power|knee|long one)")
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
