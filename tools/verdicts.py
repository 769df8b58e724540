"""`python -m tools.verdicts DIR`: write docs/verdicts.md from a folder of full reproductions.

Every claim of the papers with its verdict and what was measured, as the folder's index.html has
them. A claim has a number in its paper; if several figures judge it, each has a line with that
number. With `--rest` the folder may hold some reproductions only: the lines of the others stay as
the page has them, and its head says which are of this folder. Nothing is written down here: all
words come from the studies, all numbers from folders, and all counts from the lines.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ordercast.model.errors import ConfigError
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.facts import PAPERS, Paper, Section, counted, sections_of
from ordercast.studies.reproduction import CLAIM, INTERVAL, OURS, together

PAGE = Path(__file__).resolve().parent.parent / "docs" / "verdicts.md"

TOP = """\
# Every claim, its verdict and what was measured

Written by `python -m tools.verdicts DIR` from the folder of `ordercast reproduce --out DIR`, in
full, on Spark or with `--engine processes`, which gives the same rows; nothing here is written by
hand. {origin}

{headline} A claim that several figures judge counts once, and has a line for each here, with the
same number. *Partly*: at some points and not at others. What the words mean:
[sweeps.md](sweeps.md#what-the-words-of-a-verdict-mean); what is wrong in the papers:
[errata.md](errata.md); where everything is: [papers.md](papers.md).
"""
ONE_FOLDER = "All lines are of one folder."
SEVERAL = "Of the last folder are the lines of {names}; the others are of earlier ones."
_NAMES = re.compile(re.escape(SEVERAL).replace(r"\{names\}", "(.+?)"))
_LINE = re.compile(r"^\| `([\w-]+)` \| (\w+) \| (.+?) \| (\w+) \| (.+) \|$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Line:
    """`claim`: what tells it from other claims of the paper; `ours` or `interval` if it is none."""

    name: str
    claim: str
    says: str
    verdict: str
    measured: str

    @property
    def is_claim(self) -> bool:
        return self.claim not in (OURS, INTERVAL)

    def __str__(self) -> str:
        return f"| `{self.name}` | {self.claim} | {self.says} | {self.verdict} | {self.measured} |"


def lines_of(page: str) -> list[Line]:
    return [Line(*match) for match in _LINE.findall(page)]


def last_of(page: str) -> list[str]:
    """The reproductions of the last folder, if there were several."""
    found = _NAMES.search(page)
    return re.findall(r"`([\w-]+)`", found[1]) if found else []


def lines_from(section: Section, before: Sequence[Line] = ()) -> list[Line]:
    """Of a section that was run in full. A claim that the page has already keeps its number there.
    Raises ConfigError: for one that was not."""
    name = section.reproduction.name
    if not section.told or section.told.get("quick"):
        raise ConfigError(f"{name}: was not run in full")
    if section.told.get("failed"):
        raise ConfigError(f"{name}: {section.told['failed']} runs failed")
    known = [x for x in before if x.is_claim and _paper_of(x.name) == _paper_of(name)]
    here = {line.says: line.claim for line in known if line.name == name}
    there = {line.says: line.claim for line in known}
    found, numbers = [], dict[str, str]()
    for each in section.findings:
        says = _escaped(each.statement)
        claim = each.claim or each.statement
        if each.kind == CLAIM:
            number = here.get(says) or there.get(_escaped(claim))
            kind = numbers.setdefault(claim, number or claim)
        else:
            kind = each.kind
        found.append(Line(name, kind, says, each.verdict, _escaped(each.measured)))
    return found


def page(lines: Sequence[Line], last: Sequence[str] = ()) -> str:
    """`last`: the reproductions of the last folder, unless all are of one."""
    numbered = {paper: _numbered([x for x in lines if _is_of(x, paper)]) for paper in PAPERS}
    verdicts = {paper: _verdicts(own) for paper, own in numbered.items()}
    rest = [line for line in lines if not line.is_claim]
    kinds = [line.claim for line in rest]
    every = [verdict for own in verdicts.values() for verdict in own]
    told = (
        f"The papers’ claims, measured in full: {counted(every)}."
        f" Not counted: {kinds.count(OURS)} of our own, {kinds.count(INTERVAL)} on the width of"
        " intervals."
    )
    names = ", ".join(f"`{name}`" for name in last)
    origin = SEVERAL.format(names=names) if last else ONE_FOLDER
    parts = [TOP.format(origin=origin, headline=told)]
    for paper, own in numbered.items():
        parts += [f"## [{paper.key}] {paper.title}", "", f"{counted(verdicts[paper])}.", ""]
        parts += [*_table("claim", own), ""]
    parts += ["## Our own statements", "", "And how wide the intervals are.", ""]
    parts += _table("kind", rest)
    return "\n".join(parts) + "\n"


def _numbered(lines: Sequence[Line]) -> list[Line]:
    """Claims have numbers in the order in which they come."""
    numbers = dict[str, str]()
    return [
        replace(line, claim=numbers.setdefault(line.claim, str(len(numbers) + 1))) for line in lines
    ]


def _verdicts(lines: Sequence[Line]) -> list[str]:
    found = dict[str, list[str]]()
    for line in lines:
        found.setdefault(line.claim, []).append(line.verdict)
    return [together(each) for each in found.values()]


def _paper_of(name: str) -> str:
    return CATALOGUE[name].source.partition(" ")[0]


def _is_of(line: Line, paper: Paper) -> bool:
    return line.is_claim and _paper_of(line.name) == f"[{paper.key}]"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _table(column: str, lines: Sequence[Line]) -> Iterator[str]:
    yield f"| by | {column} | says | verdict | measured |"
    yield "|---|---|---|---|---|"
    yield from map(str, lines)


def main(arguments: Sequence[str]) -> int:
    keep = "--rest" in arguments
    folders = [each for each in arguments if each != "--rest"]
    if len(folders) != 1:
        print("usage: python -m tools.verdicts DIR [--rest]", file=sys.stderr)
        return 2
    before = lines_of(PAGE.read_text(encoding="utf-8")) if keep else []
    lines, last = list[Line](), list[str]()
    try:
        for section in sections_of(Path(folders[0]), CATALOGUE):
            kept = [line for line in before if line.name == section.reproduction.name]
            if section.told or not kept:
                lines += lines_from(section, before)
                last.append(section.reproduction.name)
            else:
                lines += kept
    except ConfigError as error:
        print(f"verdicts: {error}", file=sys.stderr)
        return 2
    several = len(last) < len({line.name for line in lines})
    PAGE.write_text(page(lines, last if several else ()), encoding="utf-8")
    print(f"written: {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
