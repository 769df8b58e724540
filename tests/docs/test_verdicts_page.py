"""docs/verdicts.md: of full runs of every reproduction, with the words of the studies."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.facts import PAPERS, Section, sections_of
from ordercast.studies.reproduction import CLAIM, OURS, Finding
from tools import verdicts
from tools.verdicts import PAGE, Line, last_of, lines_from, lines_of, main, page

ROW = re.compile(
    r"^\| `([\w-]+)` \| (\d+|ours|interval) \| .+ \| (agrees|partly|differs|measured) \| .+ \|$"
)


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


def test_counts_and_numbers_are_those_of_the_lines() -> None:
    """So nobody has written any of them by hand."""
    written = PAGE.read_text(encoding="utf-8")
    assert page(lines_of(written), last_of(written)) == written


def all_lines() -> list[Line]:
    return [line for section in sections() for line in lines_from(section)]


def test_claims_are_by_paper_and_what_is_ours_apart() -> None:
    written = page(all_lines())
    papers, _, ours = written.partition("\n## Our own statements\n")
    of_papers = [s for s in CATALOGUE.values() if s.source.startswith("[")]
    assert papers.count(r"| 1 | a \| b | agrees | 7 |") == len(of_papers)
    assert "claims, measured in full: 4 agree." in papers
    assert ours.count("| ours | more | measured | 8 |") == len(CATALOGUE)
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
    first, *_ = sections()
    with pytest.raises(ConfigError, match=f"gs-table1: {line}"):
        lines_from(replace(first, told=told))


def test_a_folder_without_them_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [s.told for s in sections_of(tmp_path, CATALOGUE)] == [{}] * len(CATALOGUE)
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == "verdicts: gs-table1: was not run in full\n"


def test_the_lines_of_what_a_folder_does_not_hold_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that is judged elsewhere as well keeps its number, and counts once."""
    name, other, *_ = CATALOGUE
    kept, found = tmp_path / "verdicts.md", [Finding("a | b", "differs", "9")]
    kept.write_text(page(all_lines()), encoding="utf-8")
    changed = Section(CATALOGUE[name], found, {"quick": False, "failed": 0})
    empty = [Section(each, [], {}) for each in CATALOGUE.values() if each.name != name]
    monkeypatch.setattr(verdicts, "PAGE", kept)
    monkeypatch.setattr(verdicts, "sections_of", lambda *_: [changed, *empty])
    assert main([str(tmp_path), "--rest"]) == 0
    written = kept.read_text(encoding="utf-8")
    assert rf"| `{name}` | 1 | a \| b | differs | 9 |" in written
    assert rf"| `{other}` | 1 | a \| b | agrees | 7 |" in written
    assert "claims, measured in full: 3 agree, 1 partly." in written
    assert f"Of the last folder are the lines of `{name}`; the others are of earlier" in written
    assert last_of(written) == [name]


def test_a_page_of_one_folder_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "PAGE", tmp_path / "verdicts.md")
    monkeypatch.setattr(verdicts, "sections_of", lambda *_: sections())
    assert main([str(tmp_path)]) == 0
    written = (tmp_path / "verdicts.md").read_text(encoding="utf-8")
    assert "All lines are of one folder." in written
    assert last_of(written) == []


def test_what_was_measured_and_not_judged_is_counted() -> None:
    told = [Line("gs-table1", "1", "a", "agrees", "7"), Line("gs-setup", "2", "b", "measured", "8")]
    assert "claims, measured in full: 1 agree, 1 measured only." in page(told)
