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


PRINTED = {
    "GS": (("Figure", 10), ("Table", 2), ("Graph", 5)),
    "TOM": (("Figure", 5), ("Table", 1)),
    "SWAP": (("Figure", 9),),
    "STAB": (("Figure", 10), ("Table", 4)),
}
"""How many of each a paper has, numbered from 1."""

SECTIONS = {
    "GS": "1 2 3 3.1 3.2 4.1 4.2 4.3 5.1 5.2.1 5.2.2 5.2.3 6",
    "TOM": "1 2 3 3.1 3.2 4 4.1.1 4.1.2 4.1.3 4.2.1 4.2.2 4.3 5 6",
    "SWAP": "1 2 3 4 5 6.1 6.2 6.3 6.4",
    "STAB": "1 2.1 2.2 3.1 3.2 3.3 4.1 4.2 4.3 5.1 5.2 5.3.1 5.4.1 5.4.2 6 6.1 7",
}
"""The numbered sections that have text of their own, beside those below them."""

TECHNIQUES = {
    "GS": ("exponential sizes", "no additional messages", "elimination of extra nodes"),
    "TOM": ("four kinds of reliability", "several sources", "processing with losses"),
    "SWAP": ("virtual root", "gaps", "redundant links"),
    "STAB": ("piggybacking", "changed numbers", "share a series", "four bytes", "wide areas"),
}
"""What a paper only mentions, often several in one section: easily left out."""

NOTHING_TO_BUILD = {"TOM": "1 5", "SWAP": "6.4", "STAB": "1"}
"""Introductions, related work and conclusions that claim nothing which a section does not."""


def rows_of(paper: str) -> list[str]:
    (part,) = re.findall(rf"^## \[{paper}\].*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return [line.strip("| ") for line in part.splitlines() if line[:2] == "| "]


def named_by(paper: str) -> tuple[set[str], set[str]]:
    """The sections, and the figures and tables, that the first column has of a paper."""
    sections, numbered = set[str](), set[str]()
    for cell in (row.split(" | ")[0] for row in rows_of(paper)):
        for low, high in re.findall(r"§(\d[\d.]*)(?: to §(\d[\d.]*))?", cell):
            sections |= set(between(low, high or low))
        for kind, numbers in re.findall(r"(Figure|Table|Graph)s? ([\d, andto]*\d)", cell):
            for low, high in re.findall(r"(\d+)(?: to (\d+))?", numbers):
                numbered |= {f"{kind} {n}" for n in range(int(low), int(high or low) + 1)}
    return sections, numbered


def between(low: str, high: str) -> list[str]:
    """`4.1.1` and `4.1.3`: three; they differ in the last number alone."""
    above, _, first = low.rpartition(".")
    same, _, last = high.rpartition(".")
    assert above == same, f"§{low} to §{high}"
    return [f"{above}.{n}".lstrip(".") for n in range(int(first), int(last) + 1)]


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


@pytest.mark.parametrize("paper", list(PRINTED))
def test_every_figure_and_table_of_a_paper_has_a_row(paper: str) -> None:
    _, named = named_by(paper)
    printed = {f"{kind} {n}" for kind, most in PRINTED[paper] for n in range(1, most + 1)}
    assert sorted(printed - named) == [], "have no row"
    assert sorted(named - printed) == [], "are not in the paper"


@pytest.mark.parametrize("paper", list(SECTIONS))
def test_every_section_of_a_paper_has_a_row(paper: str) -> None:
    named, _ = named_by(paper)
    printed, without = SECTIONS[paper].split(), NOTHING_TO_BUILD.get(paper, "").split()
    assert [section for section in printed if section not in {*named, *without}] == []
    above = {section.rpartition(".")[0] for section in printed}
    assert sorted(named - {*printed, *above}) == [], "are not in the paper"
    assert set(without) <= set(printed) - named, "has a row after all"


@pytest.mark.parametrize("paper", list(TECHNIQUES))
def test_what_a_paper_only_mentions_has_a_row(paper: str) -> None:
    rows = [row.split(" | ")[1] for row in rows_of(paper)]
    assert [each for each in TECHNIQUES[paper] if not any(each in row for row in rows)] == []


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
