"""`Stages`: who waits for a stage is told when it is reached, in any order, cancelled or not."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.epochs.records import REFUSED
from ordercast.core.outbox import StageReached
from ordercast.model.errors import Error, UnknownGroup
from ordercast.model.messages import STAGES
from ordercast.net.site.receipts import Receipt, ReceiptSource, Stages
from support.clusters.sites import turns
from support.harness import loops

GROUPS = ["alpha", "beta"]
WHERE = st.tuples(st.sampled_from(STAGES), st.sampled_from(GROUPS))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), WHERE, st.integers(1, 12)),
        st.tuples(st.just("reach"), WHERE, st.integers(1, 4)),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(st.just("turn")),
    ),
    max_size=40,
)


@given(STEPS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_each_waiter_is_told_once_its_message_is_there_and_not_before(
    steps: list[Any], close: bool
) -> None:
    async def run() -> None:
        stages = Stages()
        last = {(stage, group): 0 for stage in STAGES for group in GROUPS}
        waiting: list[tuple[tuple[str, str], int, asyncio.Task[None]]] = []
        cancelled = set()
        for step in steps:
            if step[0] == "wait":
                _, where, seq = step
                stage, group = where
                waiting.append((where, seq, asyncio.create_task(stages.wait(stage, group, seq))))
            elif step[0] == "reach":
                _, where, count = step
                stage, group = where
                news = stages.update([StageReached(stage, group, last[where] + 1, count)])
                assert news == (stage == "stable")
                last[where] += count
                assert stages.reached(stage, group, last[where])
            elif step[0] == "cancel" and step[1] < len(waiting):
                if not waiting[step[1]][2].done():
                    cancelled.add(step[1])
                waiting[step[1]][2].cancel()
            else:
                await turns()
                for n, (where, seq, task) in enumerate(waiting):
                    assert task.done() == (n in cancelled or seq <= last[where])
        await turns()
        left = sum(not task.done() for _, _, task in waiting)
        assert sum(len(queue) for queue in stages._waiting.values()) == left
        if close:
            stages.close("the end")
        for where, seq, task in waiting:
            if not close and not task.done():
                task.cancel()
            [end] = await asyncio.gather(task, return_exceptions=True)
            if seq > last[where] and close:
                assert isinstance(end, Error | asyncio.CancelledError)
        assert not stages._waiting

    loops.run(run())


def test_what_is_refused_raises_at_once_and_later_and_other_messages_go_on() -> None:
    async def run() -> None:
        stages = Stages()
        first = ReceiptSource(stages.wait)
        receipts = [Receipt(first, "alpha", seq) for seq in (1, 2, 3)]
        stages.update(
            [StageReached("accepted", "alpha", 1, 3), StageReached("ordered", "alpha", 1, 1)]
        )
        waiting = [asyncio.ensure_future(receipt.ordered()) for receipt in receipts[1:]]
        other = asyncio.ensure_future(Receipt(first, "beta", 1).ordered())
        await turns()
        second = first.refuse([("alpha", range(2, 9))])
        stages.cut("alpha", 2)
        assert stages.update([StageReached(REFUSED, "alpha", 2, 2)])
        await turns()
        for task in waiting:
            assert isinstance(task.exception(), UnknownGroup)
        assert not other.done()
        await receipts[0].ordered()
        stages.update([StageReached("accepted", "alpha", 2, 1)])  # the group was added again
        again = Receipt(second, "alpha", 2)
        await again.accepted()
        assert not stages.reached("accepted", "alpha", 3)
        with pytest.raises(UnknownGroup, match="message 2 to alpha was not sent"):
            await receipts[1].accepted()
        third = second.refuse([("beta", range(1, 9))])
        with pytest.raises(UnknownGroup):
            await Receipt(first, "beta", 1).ordered()
        stages.update([StageReached("ordered", "beta", 1, 1)])
        await Receipt(third, "beta", 1).ordered()
        await other

    loops.run(run())


def test_behind_a_refused_batch_others_go_on_and_it_never_counts_as_sent() -> None:
    async def run() -> None:
        stages = Stages()
        source = ReceiptSource(stages.wait)
        receipts = [Receipt(source, "alpha", seq) for seq in (1, 2, 3, 4)]
        stages.update([StageReached("accepted", "alpha", 1, 4)])
        waiting = [asyncio.ensure_future(receipt.stable()) for receipt in receipts]
        await turns()
        waiting[3].cancel()
        later = source.refuse([("alpha", range(2, 3))])  # its producer was removed
        stages.refuse("alpha", range(2, 3))
        stages.update([StageReached(REFUSED, "alpha", 2, 1)])
        await turns()
        assert [task.done() for task in waiting] == [False, True, False, True]
        assert isinstance(waiting[1].exception(), UnknownGroup)
        await Receipt(later, "alpha", 3).accepted()
        for stage in ("ordered", "stable"):
            stages.update([StageReached(stage, "alpha", 1, 1), StageReached(stage, "alpha", 3, 2)])
        await asyncio.gather(waiting[0], waiting[2])
        with pytest.raises(UnknownGroup):
            await receipts[1].stable()
        assert not stages._waiting

    loops.run(run())


def test_thousands_may_wait_for_the_same_group_in_any_order_and_nobody_is_looked_through() -> None:
    """A client of a daemon may ask about many messages at once, and the site has other work."""
    compared = 0

    class Seq(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int.__lt__(self, other)

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return int.__eq__(self, other)

        __hash__ = int.__hash__

    async def run() -> None:
        stages = Stages()
        for seq in (7, 3, 5):
            tasks = [
                asyncio.ensure_future(stages.wait("stable", "alpha", Seq(seq + n % 2)))
                for n in range(1_000)
            ]
            await turns()
            for task in tasks[::-2]:
                task.cancel()
            await turns()
        stages.update([StageReached("stable", "alpha", 1, 9)])
        assert not stages._waiting

    loops.run(run())
    assert compared < 3_000 * 1.5 * 4 * 12  # each looks at the logarithm of those that wait
