"""docs/verdicts.md: of full runs of every reproduction, with the words of the studies."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.facts import PAPERS, Section, sections_of
from ordercast.studies.reproduction import CLAIM, OURS, Finding
from tools.verdicts import PAGE, main, page

ROW = re.compile(r"^\| `([\w-]+)` \| .+ \| (agrees|partly|differs|measured) \| .+ \|$")


def sections() -> list[Section]:
    """All run in full, each with a claim and a statement of ours."""
    return [
        Section(
            each,
            [Finding("a | b", "agrees", "7"), Finding("more", "measured", "8", kind=OURS)],
            {"quick": False, "failed": 0},
        )
        for each in CATALOGUE.values()
    ]


def test_the_page_has_every_reproduction_and_nothing_else() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    matches = [match for row in rows if (match := ROW.fullmatch(row))]
    assert len(matches) == len(rows)
    assert {match[1] for match in matches} == set(CATALOGUE)


def test_claims_are_by_paper_and_what_is_ours_apart() -> None:
    written = page(sections())
    papers, _, ours = written.partition("\n## Our own statements\n")
    of_papers = [s for s in CATALOGUE.values() if s.source.startswith("[")]
    assert papers.count(r"| a \| b | agrees | 7 |") == len(of_papers)
    assert ours.count("| more | measured | 8 |") == len(CATALOGUE)
    assert [line[4:].partition("]")[0] for line in papers.splitlines() if line[:4] == "## ["] == [
        paper.key for paper in PAPERS
    ]
    assert all(s.findings[0].kind == CLAIM for s in sections())


@pytest.mark.parametrize(
    ("told", "line"),
    [
        ({}, "was not run in full"),
        ({"quick": True}, "was not run in full"),
        ({"quick": False, "failed": 3}, "3 runs failed"),
    ],
)
def test_what_is_not_of_a_whole_run_is_refused(told: dict[str, object], line: str) -> None:
    first, *rest = sections()
    with pytest.raises(ConfigError, match=f"gs-table1: {line}"):
        page([replace(first, told=told), *rest])


def test_a_folder_without_them_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [s.told for s in sections_of(tmp_path, CATALOGUE)] == [{}] * len(CATALOGUE)
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == "verdicts: gs-table1: was not run in full\n"
