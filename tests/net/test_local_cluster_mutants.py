"""The judge of random schedules is itself judged: sites that break a promise are found out."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordercast.core.epochs.admission import Admission
from ordercast.net.site.running_site import RunningSite
from ordercast.net.site.stream import Stream
from ordercast.net.store.box import StoreBox
from ordercast.net.store.store import Store
from support.clusters.campaigns import local_kills
from support.clusters.campaigns.local_kills import Case, run_case
from support.judges.applog import judge

Mutant = Callable[[pytest.MonkeyPatch], None]


def reveals_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements, deliveries and receipts do not wait for the store."""

    def write(self: Store, box: StoreBox, then: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(then)
        loop.call_later(0.03, lambda: self._closed or real(self, box, None))

    real = Store.write
    patch.setattr(Store, "write", write)


def confirms_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    async def confirm(self: RunningSite, position: int, attempt: int | None = None) -> None:
        self.stream.confirm(position, attempt)

    patch.setattr(RunningSite, "confirm", confirm)


def forgets_what_it_has_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    """After a restart a reader begins behind what was delivered."""

    def begin(self: Stream, start: int | None) -> int:
        return self.delivered if start is None else start - 1

    patch.setattr(Stream, "_begin", begin)


def gives_seqs_anew_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Receipts name another message than the one that was sent."""

    def reserve(self: Admission, group: str, *words: Any, **options: Any) -> Any:
        self._last.setdefault(group, 0)
        return real(self, group, *words, **options)

    real = Admission.reserve_batch
    patch.setattr(Admission, "reserve_batch", reserve)


MUTANTS: list[Mutant] = [
    reveals_before_it_is_durable,
    confirms_before_it_is_durable,
    forgets_what_it_has_not_confirmed,
    gives_seqs_anew_after_a_restart,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_site_that_breaks_a_promise_is_found_out(
    mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    monkeypatch.setattr(local_kills, "QUIET_S", 3.0)  # some never come to rest
    for seed in range(1, 9):
        case = Case(seed=2 * seed, kills=12, messages=25, unread=(100_000,))
        try:
            found = run_case(case, tmp_path / f"{seed}")
        except Exception as error:  # a site that stumbles over its own lie is found out too
            print(f"{case}: {error}")
            return
        if found.wrong:
            print(f"{case}: {found.wrong[0][:200]}")
            return
    pytest.fail("eight schedules found nothing")


def test_the_judge_of_an_application_knows_right_from_wrong() -> None:
    def saw(position: int, seq: int | None = None) -> tuple[Any, ...]:
        return "saw", position, "alpha", "a", 1, seq or position, 7

    opened, confirmed = ("open",), [("confirming", 2), ("confirmed", 2)]
    right = [opened, saw(1), saw(2), saw(3), *confirmed, opened, saw(3), saw(4)]
    maybe = [opened, saw(1), saw(2), ("confirming", 2)]
    assert judge("s", right) == []
    assert judge("s", [*maybe, opened, saw(1), saw(2)]) == []
    assert judge("s", [*maybe, opened, saw(3)]) == []
    assert judge("s", [*maybe, opened, saw(2), saw(3)]) == []
    for wrong in (
        [opened, saw(1), saw(3)],
        [opened, saw(2)],
        [opened, saw(1), saw(1)],
        [opened, saw(1), saw(2), saw(3), *confirmed, opened, saw(2), saw(3)],
        [opened, saw(1), saw(2), saw(3), *confirmed, opened, saw(4)],
        [opened, saw(1), opened, saw(1, 9)],
        [*maybe, opened, saw(2), opened, saw(1)],
    ):
        assert judge("s", wrong), wrong
