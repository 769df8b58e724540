"""`python -m tools.verdicts DIR`: write docs/verdicts.md from a folder of full reproductions.

Every claim of the papers with its verdict and what was measured, as the folder's index.html has
them; a claim that several figures judge has a line for each. Nothing is written down here: all
words come from the studies, all numbers from the folder.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ordercast.model.errors import ConfigError
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.facts import PAPERS, Section, sections_of, summary
from ordercast.studies.page import headline
from ordercast.studies.reproduction import CLAIM, Finding

PAGE = Path(__file__).resolve().parent.parent / "docs" / "verdicts.md"

TOP = """\
# Every claim, its verdict and what was measured

Written by `python -m tools.verdicts DIR` from the folder of `ordercast reproduce --out DIR`, in
full, on Spark; nothing here is written by hand. {headline} A claim that several figures judge
counts once, and has a line for each here. *Partly*: at some points and not at others. What the
words mean: [sweeps.md](sweeps.md#what-the-words-of-a-verdict-mean); what is wrong in the papers:
[errata.md](errata.md); where everything is: [papers.md](papers.md).
"""


def page(sections: Sequence[Section]) -> str:
    """Of sections that were run in full. Raises ConfigError: for one that was not."""
    for section in sections:
        name = section.reproduction.name
        if not section.told or section.told.get("quick"):
            raise ConfigError(f"{name}: was not run in full")
        if section.told.get("failed"):
            raise ConfigError(f"{name}: {section.told['failed']} runs failed")
    lines = [TOP.format(headline=headline(sections))]
    for paper in PAPERS:
        its = [s for s in sections if s.reproduction.source.startswith(f"[{paper.key}]")]
        lines += [f"## [{paper.key}] {paper.title}", "", f"{summary(its)}.", ""]
        lines += [*_table(its, claims=True), ""]
    lines += ["## Our own statements", "", "And how wide the intervals are.", ""]
    lines += [*_table(sections, claims=False)]
    return "\n".join(lines) + "\n"


def _table(sections: Sequence[Section], *, claims: bool) -> Iterator[str]:
    yield "| by | says | verdict | measured |"
    yield "|---|---|---|---|"
    for section in sections:
        for each in section.findings:
            if (each.kind == CLAIM) == claims:
                yield _line(section.reproduction.name, each)


def _line(name: str, found: Finding) -> str:
    words = (f"`{name}`", found.statement, found.verdict, found.measured)
    return f"| {' | '.join(text.replace('|', chr(92) + '|') for text in words)} |"


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m tools.verdicts DIR", file=sys.stderr)
        return 2
    try:
        written = page(sections_of(Path(arguments[0]), CATALOGUE))
    except ConfigError as error:
        print(f"verdicts: {error}", file=sys.stderr)
        return 2
    PAGE.write_text(written, encoding="utf-8")
    print(f"written: {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
