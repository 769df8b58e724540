"""The live audit judged: after every portion beside the checkers of all rows so far.

It is stored and restored at random places, and reads all again when events contradict what it has
condensed, as whoever follows a folder does.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ordercast.check.live import LiveAudit
from ordercast.check.report import check_history
from ordercast.history.rows import History
from support.cases.portions import joined


@dataclass
class Followed:
    """What was wrong, and whether the audit said that it may be."""

    wrong: list[str] = field(default_factory=list)
    inexact: bool = False


def follow_portions(rng: random.Random, portions: Sequence[History]) -> Followed:
    live = LiveAudit()
    for count, portion in enumerate(portions, 1):
        if rng.random() < 0.2:
            before = live.report
            live = LiveAudit.restore(live.snapshot())
            if _plain(live.report.as_json()) != _plain(before.as_json()):
                return Followed([f"restored before portion {count}"])
        live.add(portion)
        if live.contradicted:
            live = read_again(portions[:count])
        judged = beside_checkers(live.report.as_json(), portions[:count], f"portion {count}")
        if judged != Followed():
            return judged
    return Followed()


def beside_checkers(found: dict[str, Any], portions: Sequence[History], place: str) -> Followed:
    """The report of a live audit, judged by that of all rows so far. `place` names it."""
    found = _plain(found)
    expected = _plain(check_history(joined(portions)).as_json())
    if found["truncated"] != expected["truncated"]:
        return Followed(inexact=True)
    forgive(found, expected)
    wrong = [
        f"{key}: {found.get(key)} instead of {expected.get(key)}"
        for key in sorted(found.keys() | expected)
        if found.get(key) != expected.get(key)
    ]
    return Followed([f"{place}: {'; '.join(wrong)}"] if wrong else [])


def read_again(portions: Sequence[History]) -> LiveAudit:
    """The small tables first."""
    live = LiveAudit()
    whole = joined(portions)
    live.add(History(groups=whole.groups, events=whole.events, epochs=whole.epochs))
    for portion in portions:
        live.add(History(sent=portion.sent, deliveries=portion.deliveries))
    return live


def forgive(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """The fields of witnesses that docs/follow.md excepts: they are about rows that are gone."""
    ours, theirs = (report["witnesses"].get("integrity", {}) for report in (found, expected))
    if "repeated" in ours.get("reasons", ()) and "repeated" in theirs.get("reasons", ()):
        for witness in (ours, theirs):
            witness["reasons"] = [r for r in witness["reasons"] if r != "another digest"]
    ours, theirs = (report["witnesses"].get("resent", {}) for report in (found, expected))
    if "site" not in ours:
        for name in ("site", "positions"):
            theirs.pop(name, None)


def _plain(report: dict[str, Any]) -> dict[str, Any]:
    del report["seconds"]
    return report


def count_portions(rng: random.Random, portions: Sequence[History]) -> Followed:
    """With next to no patience: counts are right as long as they are not said to be inexact."""
    live = LiveAudit(patience=rng.choice((0, 5, 20)))
    for count, portion in enumerate(portions, 1):
        live.add(portion)
        found = live.report.as_json()
        expected = check_history(joined(portions[:count])).as_json()
        if live.contradicted or found["truncated"] != expected["truncated"]:
            return Followed(inexact=True)
        names = ("ok", "rows", "sites", "messages", "checks", "informative")
        wrong = [f"{key}: {found[key]} instead of {expected[key]}" for key in names
                 if found[key] != expected[key]]  # fmt: skip
        if wrong:
            return Followed([f"portion {count}: {'; '.join(wrong)}"])
    return Followed()
