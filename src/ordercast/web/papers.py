"""The Papers page: what each paper prints, and what its reproduction measured, if there is one."""

import json
from pathlib import Path
from typing import Any

from ordercast.model.errors import ConfigError
from ordercast.studies.catalogue import CATALOGUE
from ordercast.studies.reproduction import Reproduction

_TOLD = Path("rows") / "reproduced.json"


def listed(folder: Path | None) -> dict[str, Any]:
    """`folder`: where `ordercast reproduce` wrote, or None."""
    done = _done(folder)
    return {
        "folder": "" if folder is None else str(folder),
        "papers": [_told(each, folder, done.get(name)) for name, each in CATALOGUE.items()],
    }


def figure(folder: Path | None, name: str) -> Path:
    """Only figures of the catalogue: a name leads to no other file."""
    if folder is None or name not in CATALOGUE or not (folder / f"{name}.png").is_file():
        raise ConfigError(f"there is no figure {name!r}")
    return folder / f"{name}.png"


def has_reproductions(folder: Path) -> bool:
    return (folder / _TOLD).is_file()


def _done(folder: Path | None) -> dict[str, Any]:
    if folder is None:
        return {}
    try:
        found = json.loads((folder / _TOLD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _told(each: Reproduction, folder: Path | None, done: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": each.name,
        "title": each.title,
        "source": each.source,
        "says": list(each.says),
        "how": each.how,
        "findings": [],
        "figure": False,
        "run": "",
    }
    if folder is None or not isinstance(done, dict):
        return told
    told["figure"] = (folder / f"{each.name}.png").is_file()
    kind = "a quick run, with other parameters" if done.get("quick") else "in full"
    told["run"] = f"{done.get('points', 0):,} points, {done.get('runs', 0):,} runs, {kind}"
    told["findings"] = _findings(each, folder)
    return told


def _findings(each: Reproduction, folder: Path) -> list[dict[str, str]]:
    from ordercast.pipeline.sweeps.results import read_results

    file = folder / f"{each.name}.parquet"
    if not file.is_file():
        return []
    return [
        {"verdict": one.verdict, "statement": one.statement, "measured": one.measured}
        for one in each.find(read_results(file))
    ]
