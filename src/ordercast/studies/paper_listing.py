"""The reproductions as a page lists them: the paper's values, and the measured ones if it was
run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.facts import Section, sections_of, told_of


@dataclass(frozen=True, slots=True)
class PaperListing:
    """`folder`: where `ordercast reproduce` wrote, or None."""

    folder: Path | None

    def listed(self) -> dict[str, Any]:
        return {
            "folder": "" if self.folder is None else str(self.folder),
            "papers": [_told(each, self.folder) for each in sections_of(self.folder, CATALOGUE)],
        }

    def figure(self, name: str) -> Path:
        """Only figures of the catalogue: a name leads to no other file."""
        file = None if self.folder is None else self.folder / f"{name}.png"
        if file is None or name not in CATALOGUE or not file.is_file():
            raise ConfigError(f"there is no figure {name!r}")
        return file


def has_reproductions(folder: Path) -> bool:
    return bool(told_of(folder))


def _told(section: Section, folder: Path | None) -> dict[str, Any]:
    each, done = section.reproduction, section.told
    kind = "a quick run, with other parameters" if done.get("quick") else "in full"
    run = f"{done.get('points', 0):,} points, {done.get('runs', 0):,} runs, {kind}"
    return {
        "name": each.name,
        "title": each.title,
        "source": each.source,
        "says": list(each.says),
        "how": each.how,
        "findings": [
            {"verdict": one.verdict, "statement": one.statement, "measured": one.measured}
            for one in section.findings
        ],
        "figure": bool(done) and folder is not None and (folder / f"{each.name}.png").is_file(),
        "run": run if done else "",
    }
