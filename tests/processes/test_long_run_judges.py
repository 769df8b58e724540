"""The judges of long runs find what is lost, doubled, out of order, or growing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from ordercast.core.epochs.records import EpochOpened
from ordercast.model.messages import Batch, DeliveredBatch, Key, Placed, pack_payloads
from ordercast.net.client.client import Client
from support.clusters import applications
from support.clusters.applications import Applications, Pace
from support.judges.flatness import Sample, judge_flatness
from support.judges.running_judge import Message, RunningJudge

MEMBERS = {"g": "ab", "h": "ab"}
GOOD: list[Message] = [("a", "g", 1), ("a", "h", 1), ("b", "g", 1), ("a", "g", 2), ("b", "h", 1)]


def judged(at_a: list[Message], at_b: list[Message], **options: Message) -> list[str]:
    judge = RunningJudge(MEMBERS)
    for message in GOOD:
        if message != options.get("refused"):
            judge.stable(message)
    if "refused" in options:
        judge.refused(options["refused"])
    if "joined" in options:
        judge.joined("b", [options["joined"][1]], "ab")
    for site, stream in (("a", at_a), ("b", at_b)):
        for position, message in enumerate(stream, 1):
            judge.delivered(site, position, message, now=float(position))
    judge.end()
    return judge.wrong


def without(*numbers: int) -> list[Message]:
    return [message for number, message in enumerate(GOOD) if number not in numbers]


def test_equal_streams_are_good() -> None:
    assert judged(GOOD, GOOD) == []


@pytest.mark.parametrize(
    ("at_b", "complaint"),
    [
        (without(0), "('a', 'g', 1) is stable and not at b"),
        (without(3), "b has g of a up to 1, stable is 2"),
        ([*GOOD, GOOD[2]], "behind number 1"),
        ([GOOD[1], GOOD[0], *GOOD[2:]], "differ in order"),
        ([*GOOD[:3], GOOD[4], GOOD[3]], "differ in order"),
        ([GOOD[3], GOOD[1], GOOD[2], GOOD[0], GOOD[4]], "behind number 2"),
    ],
)
def test_whatever_differs_is_found(at_b: list[Message], complaint: str) -> None:
    assert any(complaint in what for what in judged(GOOD, at_b))


def test_a_number_may_be_missing_where_it_was_refused_or_the_site_joined_later() -> None:
    refused = GOOD[0]
    assert judged(without(0), without(0), refused=refused) == []
    assert any("refused and is at" in what for what in judged(GOOD, without(0), refused=refused))
    assert judged(GOOD, without(0), joined=GOOD[0]) == []


def test_messages_are_kept_while_a_lasting_member_is_behind() -> None:
    judge = RunningJudge(MEMBERS, keep_s=1.0)
    judge.delivered("a", 1, GOOD[0], now=0.0)
    judge.delivered("a", 2, GOOD[1], now=0.0)
    judge.forget(5.0)
    assert judge.kept == 2
    judge.delivered("b", 1, GOOD[1], now=6.0)
    judge.delivered("b", 2, GOOD[0], now=6.0)
    assert any("differ in order" in what for what in judge.wrong)
    judge.forget(9.0)
    assert judge.kept == 0


def samples(**slopes: float) -> list[Sample]:
    """Two hours, a sample each minute, after ten minutes in which the memory doubles."""
    found = []
    for minute in range(120):
        warm = 20.0 + 2 * min(minute, 10) + (minute % 7) / 2
        values = {"rss_mb": warm, "descriptors": 25 + minute % 3, "threads": 6, "store_mb": 5.0}
        for name, slope in slopes.items():
            values[name] += slope * minute / 60
        found.append(
            Sample(
                minute * 60.0, "a", 1, values["rss_mb"], round(values["descriptors"]),
                round(values["threads"]), values["store_mb"], 0.0,
            )
        )  # fmt: skip
    return found


def test_a_process_that_has_warmed_up_and_stays_so_is_flat() -> None:
    assert judge_flatness(samples()) == []


@pytest.mark.parametrize(
    ("name", "slope"), [("rss_mb", 3.0), ("descriptors", 3.0), ("threads", 2.0), ("store_mb", 5.0)]
)
def test_whatever_grows_is_found(name: str, slope: float) -> None:
    assert any(name in what for what in judge_flatness(samples(**{name: slope})))


def test_growth_since_the_last_restart_is_found() -> None:
    before = [Sample(s, "a", 7, 60.0, 25, 6, 5.0, 0.0) for s in range(-7200, 0, 60)]
    wrong = judge_flatness([*before, *samples(rss_mb=20.0)])
    assert any(what.startswith("a since its restart: rss_mb") for what in wrong)


class Reader:
    """A client with this stream; it is settled when all of it was read."""

    def __init__(self, items: list[DeliveredBatch | EpochOpened]) -> None:
        self._items = items
        self.confirmed = asyncio.Event()

    async def batches(self) -> AsyncIterator[DeliveredBatch | EpochOpened]:
        for item in self._items:
            yield item
        await asyncio.Event().wait()

    async def status(self) -> dict[str, int]:
        return {"settled": self._items[-1].position}

    async def confirm(self, _position: int) -> None:
        self.confirmed.set()


def numbered(position: int, number: int) -> DeliveredBatch:
    batch = Batch("b", 1, "g", number, 1, pack_payloads([b"b g %d ." % number]))
    return DeliveredBatch(position, 1, Placed(Key((0, number), "b"), number, batch), 1)


@pytest.mark.parametrize("joined", [("g",), ()])
def test_a_site_that_left_and_joined_again_lacks_what_came_between_and_no_other(
    joined: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where what it had before is judged after it was read that it has joined."""
    monkeypatch.setattr(applications, "CONFIRM_EVERY_S", 0.001)
    opened = EpochOpened(2, 1, "", "", ("g",), joined, (), (1,))

    async def run() -> list[str]:
        reader = Reader([numbered(1, 1), opened, numbered(2, 5)])
        watched: Any = Applications(lambda _: cast(Client, reader), {"g": "b"}, Pace(1.0, 1))
        watched.clients["b"] = reader
        tasks = [asyncio.ensure_future(watched._read("b"))]
        await asyncio.sleep(0)
        tasks.append(asyncio.ensure_future(watched._settle("b")))
        await reader.confirmed.wait()
        for task in tasks:
            task.cancel()
        watched.judge.end()
        return list(watched.judge.wrong)

    assert bool(asyncio.run(run())) == (not joined)
