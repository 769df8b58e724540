"""The judge of changing clusters is itself judged: nodes that are careless with epochs are found
out."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ordercast.core.epochs.admission import Admission
from ordercast.net.site.driver import NodeDriver
from ordercast.net.store.events import OpenedEpochs
from support.clusters.campaigns import local_kills
from support.clusters.campaigns.changing_campaigns import run_changing
from support.clusters.campaigns.local_kills import Case

Mutant = Callable[[pytest.MonkeyPatch], None]


def forgets_epochs_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """They are told once, and are not in the store."""
    all_of_them = property(lambda _: 1 << 60, lambda *_: None)
    patch.setattr(NodeDriver, "last_opened", all_of_them, raising=False)


def tells_epochs_too_early(patch: pytest.MonkeyPatch) -> None:
    """Before the last message of the epoch that was closed."""

    def add(self: OpenedEpochs, opened: Any) -> bool:
        return real(self, replace(opened, position=max(0, opened.position - 1)))

    real = OpenedEpochs.add
    patch.setattr(OpenedEpochs, "add", add)


def keeps_numbers_of_removed_groups(patch: pytest.MonkeyPatch) -> None:
    """What is sent to a group that is gone, or to one of the same name, is taken as before."""

    def follow(self: Admission) -> dict[str, int]:
        self._followed = self._origin.layout.lasts
        return {}

    patch.setattr(Admission, "follow", follow)


MUTANTS: list[Mutant] = [
    forgets_epochs_at_a_restart,
    tells_epochs_too_early,
    keeps_numbers_of_removed_groups,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_node_that_is_careless_with_epochs_is_found_out(
    mutant: Mutant,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    mutant(monkeypatch)
    monkeypatch.setattr(local_kills, "QUIET_S", 3.0)  # some never come to rest
    for seed in range(1, 7):
        case = Case(seed=2 * seed, kills=8, messages=25, unread=(100_000,))
        try:
            found, _ = run_changing(case, tmp_path / f"{seed}", changes=12)
        except Exception as error:  # a site that stumbles over its own lie is found out too
            print(f"{case}: {error}")
            return
        stumbled = [record for record in caplog.records if record.levelno >= logging.ERROR]
        if found.wrong or stumbled:
            print(f"{case}: {found.wrong[:1]} {stumbled[:1]}")
            return
    pytest.fail("six schedules found nothing")
