"""The contents of a folder of reproductions, for every page about it: the four papers, their claims
in our words, the measurements here, and the verdicts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ordercast.model.version import __version__
from ordercast.pipeline.sweeps.results import Results, read_results
from ordercast.pipeline.sweeps.store import write_whole
from ordercast.studies.reproduction import (
    AGREES,
    CLAIM,
    DIFFERS,
    MEASURED,
    PARTLY,
    SEED,
    Finding,
    Reproduction,
    together,
)

ROWS = "rows"
_TOLD = Path(ROWS) / "reproduced.json"  # how each figure in the folder came about


@dataclass(frozen=True, slots=True)
class Paper:
    """`key` is what the docs call it."""

    key: str
    title: str
    authors: str
    where: str


PAPERS = (
    Paper("GS", "Ordered and Reliable Multicast Communication", "H. Garcia-Molina and A. Spauster",
          "Princeton University, CS-TR-184-88, 1988"),
    Paper("TOM", "Ordered End-to-End Multicast for Distributed Multimedia Systems",
          "H.-P. Dommel and J. J. Garcia-Luna-Aceves", ""),
    Paper("SWAP", "Ordered Multicast and Distributed Swap",
          "M. Herlihy, S. Tirthapura and R. Wattenhofer", "2000"),
    Paper("STAB", "Hierarchical Message Stability Tracking Protocols",
          "K. Guo, R. van Renesse, W. Vogels and K. Birman", "Cornell University"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Section:
    """A reproduction with its findings. `told`: how many points and runs, how long they took,
    whether quick or in full, and the parameters of a quick run that differ; empty if it was not
    run. `results`: the numbers, if there are any."""

    reproduction: Reproduction
    findings: Sequence[Finding]
    told: Mapping[str, Any]
    results: Results | None = None

    @property
    def verdict(self) -> str:
        return summary([self])


def of_paper(each: Reproduction, paper: Paper) -> bool:
    """Also what goes beyond the paper."""
    return f"[{paper.key}]" in each.source


def claims(sections: Sequence[Section]) -> dict[tuple[str, str], str]:
    """Paper and claim, with the verdict of all places where it is judged."""
    found: dict[tuple[str, str], list[str]] = {}
    for section in sections:
        paper = section.reproduction.source.partition(" ")[0]
        for each in section.findings:
            if each.kind == CLAIM:
                found.setdefault((paper, each.claim or each.statement), []).append(each.verdict)
    return {claim: together(verdicts) for claim, verdicts in found.items()}


def summary(sections: Sequence[Section]) -> str:
    """`3 agree, 1 partly, 2 differ, 1 measured only`: of the papers' claims, each counted once."""
    return counted(list(claims(sections).values()))


def counted(verdicts: Sequence[str]) -> str:
    told = {AGREES: "agree", PARTLY: "partly", DIFFERS: "differ", MEASURED: "measured only"}
    counts = [(verdicts.count(verdict), word) for verdict, word in told.items()]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "no claims"


def sections_of(folder: Path | None, known: Mapping[str, Reproduction]) -> list[Section]:
    """One section for each reproduction, in order. Reproductions that the folder does not have get
    no findings."""
    done = told_of(folder)
    return [_section(each, folder, done.get(name)) for name, each in known.items()]


def _section(each: Reproduction, folder: Path | None, told: Any) -> Section:
    file = None if folder is None else folder / f"{each.name}.parquet"
    if file is None or not isinstance(told, dict) or not file.is_file():
        return Section(each, [], {})
    results = read_results(file)
    return Section(each, each.find(results), told, results)


def told_of(folder: Path | None) -> dict[str, Any]:
    """How each figure in the folder came about."""
    if folder is None:
        return {}
    try:
        found = json.loads((folder / _TOLD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def remember(folder: Path, name: str, how: Mapping[str, Any]) -> None:
    told = told_of(folder)
    told[name] = {**how, "version": __version__, "seed": SEED}
    write_whole(folder / _TOLD, json.dumps(told, indent=1) + "\n")
