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

    def add(self, other: "Followed") -> None:
        self.wrong += other.wrong
        self.inexact |= other.inexact


def follow_portions(rng: random.Random, portions: Sequence[History]) -> Followed:
    live, all_so_far = LiveAudit(), Followed()
    for count, portion in enumerate(portions, 1):
        if rng.random() < 0.2:
            before = live.report
            live = LiveAudit.restore(live.snapshot())
            if _plain(live.report.as_json()) != _plain(before.as_json()):
                return Followed([f"restored before portion {count}"])
        live.add(portion)
        if live.contradicted:
            live = read_again(portions[:count])
        all_so_far.add(beside_checkers(live.report.as_json(), portions[:count], f"portion {count}"))
        if all_so_far.wrong:
            break
    return all_so_far


def beside_checkers(found: dict[str, Any], portions: Sequence[History], place: str) -> Followed:
    """The report of a live audit, judged by that of all rows so far. `place` names it. Where it
    says that checks may be inexact, all else must be right."""
    return _compared(found, check_history(joined(portions)).as_json(), place)


def _compared(found: dict[str, Any], expected: dict[str, Any], place: str) -> Followed:
    found, expected = _plain(found), _plain(expected)
    inexact = set(found["truncated"]) - set(expected["truncated"])
    if inexact:
        found, expected = _without(inexact, found), _without(inexact, expected)
    forgive(found, expected)
    wrong = [
        f"{key}: {found.get(key)} instead of {expected.get(key)}"
        for key in sorted(found.keys() | expected)
        if found.get(key) != expected.get(key)
    ]
    return Followed([f"{place}: {'; '.join(wrong)}"] if wrong else [], bool(inexact))


def _without(checks: set[str], report: dict[str, Any]) -> dict[str, Any]:
    """What a report says besides these checks."""
    left = {key: value for key, value in report.items() if key != "ok"}
    for name in ("checks", "witnesses"):
        left[name] = {check: said for check, said in report[name].items() if check not in checks}
    left["truncated"] = [check for check in report["truncated"] if check not in checks]
    if "agreement" in checks:
        left["informative"] = {k: v for k, v in report["informative"].items() if k != "pending"}
    return left


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
    live, all_so_far = LiveAudit(patience=rng.choice((0, 5, 20))), Followed()
    for count, portion in enumerate(portions, 1):
        live.add(portion)
        found = live.report.as_json()
        found["witnesses"] = {}  # of rows that are gone
        expected = check_history(joined(portions[:count])).as_json()
        expected["witnesses"] = {}
        if live.contradicted:  # rows that a late event takes back are counted
            for report in (found, expected):
                for name in ("rows", "messages", "informative"):
                    report[name] = {}
        all_so_far.add(_compared(found, expected, f"portion {count}"))
        if all_so_far.wrong:
            break
    return all_so_far
