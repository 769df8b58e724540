"""docs/papers.md names files, tests, verbs and reproductions that exist, and all of the latter."""

import re
from pathlib import Path

import pytest

from ordercast.cli import VERBS
from ordercast.studies.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
KINDS = ("faithful", "repaired", "simplified", "replaced", "not built", "ours")


def places() -> list[str]:
    """What stands in the last column."""
    return [name for row in ROWS for name in re.findall(r"`([^`]+)`", row.split(" | ")[-1])]


@pytest.mark.parametrize("name", sorted(set(places())))
def test_what_the_page_names_exists(name: str) -> None:
    if name in CATALOGUE:
        return
    path, _, test = name.partition("::")
    assert (ROOT / path).is_file(), f"neither a file nor a reproduction: {name}"
    if test:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_every_file_named_anywhere_on_the_page_exists() -> None:
    """Also outside the last column, and behind links."""
    named = re.findall(r"`((?:src|tests|docs|tools|examples)/[^`:]+)", PAGE)
    linked = [f"docs/{page}" for page in re.findall(r"\]\(([\w-]+\.md)", PAGE)]
    assert len(named) > 80
    assert linked
    assert [name for name in (*named, *linked) if not (ROOT / name).is_file()] == []


def test_every_verb_that_the_page_names_is_one() -> None:
    verbs = {verb.name for verb in VERBS}
    named = set(re.findall(r"`ordercast (\w+)", PAGE))
    assert named
    assert named <= verbs
    (alone,) = re.findall(r"in `(\w+)` and `(\w+)`; a cluster file", PAGE)
    assert set(alone) <= verbs


def test_every_reproduction_is_on_the_page() -> None:
    assert set(CATALOGUE) - set(places()) == set()


def test_every_row_says_how_it_is_here_and_where() -> None:
    for row in ROWS:
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        if cells[0] == "section":
            continue
        assert len(cells) == 4, row
        assert cells[2].startswith(KINDS), row
        assert cells[3].strip("| ") or cells[2].startswith("not built"), row


def test_every_number_of_an_erratum_is_one_of_the_errata() -> None:
    errata = "".join(
        (ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("errata.md", "stability.md")
    )
    for number in sorted(set(re.findall(r"\b(?:GS|TOM|SWAP|STAB|OTHER)-\d+", PAGE))):
        assert f"| {number} |" in errata, number


def test_every_erratum_of_a_paper_is_on_the_page() -> None:
    errata = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    told = set(re.findall(r"\b((?:GS|TOM|SWAP|OTHER)-\d+)", PAGE)) | ranges()
    known = re.findall(r"^\| ((?:GS|TOM|SWAP|OTHER)-\d+) \|", errata, re.MULTILINE)
    assert [number for number in known if number not in told] == []


def ranges() -> set[str]:
    """`GS-1 to GS-4` names four."""
    return {
        f"{paper}-{number}"
        for paper, first, last in re.findall(r"(\w+)-(\d+) to \1-(\d+)", PAGE)
        for number in range(int(first), int(last) + 1)
    }
