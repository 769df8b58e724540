"""The Papers page: what each paper prints, and what its reproduction measured, if there is one."""

from pathlib import Path
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.facts import Section, sections_of, told_of


def listed(folder: Path | None) -> dict[str, Any]:
    """`folder`: where `ordercast reproduce` wrote, or None."""
    return {
        "folder": "" if folder is None else str(folder),
        "papers": [_told(section, folder) for section in sections_of(folder, CATALOGUE)],
    }


def figure(folder: Path | None, name: str) -> Path:
    """Only figures of the catalogue: a name leads to no other file."""
    if folder is None or name not in CATALOGUE or not (folder / f"{name}.png").is_file():
        raise ConfigError(f"there is no figure {name!r}")
    return folder / f"{name}.png"


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
