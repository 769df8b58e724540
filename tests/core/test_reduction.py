"""The reduction of [SWAP] §3 step by step: headers to the domain, what is durable and bounded."""

from collections.abc import Sequence
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from ordercast.core.engine import Engine
from ordercast.core.observation import holders
from ordercast.core.order.kept_states import ResumedReduction
from ordercast.core.order.reduction import Reduction
from ordercast.core.outbox import Checkpoint, EngineBox, Record, SwapNote, Turned
from ordercast.core.structure import Structure
from ordercast.forest.greedy import build_greedy
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, Limits, Options, Timing
from ordercast.wire.frames import Data, Item
from ordercast.wire.swap import NOBODY, Follows, Swap
from support.worlds.alone import submit

TABLE = GroupTable.of({"alpha": ["a", "b"], "beta": ["b", "c"]}, sites=["a", "b", "c", "x"])
STRUCTURE = Structure(1, TABLE, build_greedy(TABLE))  # b is the root, a and c its children
FAMILY = ("arrow", "combining", "hybrid", "arrow_counting", "combining_counting")


def options(hold: int = 0, checkpoint: int = 1_000) -> Options:
    limits = Limits(checkpoint_batches=checkpoint)
    timing = Timing(hold=hold)
    return Options(deliver="agreed", on_failure="wait", limits=limits, timing=timing)


def site(
    name: str,
    protocol: str = "arrow",
    records: Sequence[Record] = (),
    boot: int = 1,
    *,
    checkpoint: Checkpoint | None = None,
    like: Options | None = None,
) -> Engine:
    made = Engine(
        name, STRUCTURE, like or options(), protocol=protocol, records=records, boot=boot,
        checkpoint=checkpoint,
    )  # fmt: skip
    made.start(0)
    return made


def items(box: EngineBox, peer: str, *kinds: type) -> list[Item]:
    return [
        item
        for to, frame in (*box.send, *box.then_send)
        if to == peer and isinstance(frame, Data)
        for item in frame.items
        if isinstance(item, kinds)
    ]


ROUND = 500 * MILLISECOND


def exchange(*sites: Engine, start: int = 0) -> dict[str, list[bytes]]:
    """Frames among these go to and fro until there are none; what was delivered meanwhile. What is
    for others is lost."""
    by_name = {one.name: one for one in sites}
    delivered: dict[str, list[bytes]] = {name: [] for name in by_name}
    for now in range(start, start + ROUND, 10 * MILLISECOND):
        boxes = []
        for one in sites:
            one.alarm(now)
            boxes.append((one.name, one.drain()))
        for source, box in boxes:
            delivered[source] += [p for batch in box.deliver for p in batch.payloads]
            for to, frame in (*box.send, *box.then_send):
                if to in by_name:
                    by_name[to].receive(now, source, frame)
    return delivered


def test_the_sink_multicasts_headers_to_the_domain_and_bodies_to_members() -> None:
    a, b = site("a"), site("b")
    submit(a, 0, "alpha", [b"m"])
    asked = a.drain()
    (swap,) = items(asked, "b", Swap)
    assert isinstance(swap, Swap)
    assert swap.batch.body
    for to, frame in asked.then_send:
        if to == "b":
            b.receive(0, "a", frame)
    found = b.drain()
    (to_a,), (to_c,) = items(found, "a", Follows), items(found, "c", Follows)
    assert isinstance(to_a, Follows)
    assert isinstance(to_c, Follows)
    assert to_a.after == to_c.after == NOBODY
    assert to_a.batch == swap.batch
    assert not to_c.batch.body


def test_what_passes_is_durable_before_it_goes_on_and_told_again_after_a_restart() -> None:
    a, b, c = site("a"), site("b"), site("c")
    submit(a, 0, "alpha", [b"first"])
    exchange(a, b, c)  # now a is the sink
    submit(c, 0, "alpha", [b"second"])
    asked = c.drain()
    b_records: list[Record] = []
    for to, frame in asked.then_send:
        if to == "b":
            b.receive(0, "c", frame)
    box = b.drain()
    b_records += box.persist
    assert not box.send
    (request,) = items(box, "a", Swap)
    assert [r.peer for r in b_records if isinstance(r, SwapNote)] == ["c"]
    again = site("b", records=b_records, boot=2, checkpoint=b.retention.whole())
    assert items(again.drain(), "a", Swap) == [request]


@pytest.mark.parametrize("protocol", FAMILY)
def test_a_restored_site_has_the_same_state_from_a_checkpoint_as_from_notes(protocol: str) -> None:
    sites = {name: site(name, protocol, like=options(hold=20 * MILLISECOND)) for name in "abc"}
    kept: dict[str, list[Record]] = {name: [] for name in sites}
    for number in range(6):
        for name, one in sites.items():
            submit(one, number, "alpha" if number % 2 else "beta", [b"%d" % number])
            box = one.drain()
            kept[name] += box.persist
            for to, frame in (*box.send, *box.then_send):
                if to in sites and number % 3:
                    sites[to].receive(number, name, frame)
    for name, one in sites.items():
        kept[name] += one.drain().persist
        fresh = site(name, protocol, kept[name], boot=2)
        folded = site(name, protocol, (), boot=2, checkpoint=one.retention.whole())
        assert isinstance(fresh.ordering, Reduction)
        noted, stated = [
            replace(state, debts=replace(state.debts, requests=(), headers=(), answers=()))
            for state in (fresh.ordering.journal(), folded.ordering.journal())
            if isinstance(state, ResumedReduction)
        ]  # what was acknowledged is not noted, and told once more
        assert noted == stated


def test_that_requests_were_combined_is_noted() -> None:
    a = site("a", "combining", like=options(hold=MILLISECOND))
    for payload in (b"1", b"2"):
        submit(a, 0, "alpha", [payload])
    held = a.drain()
    assert not items(held, "b", Swap, Follows)
    assert held.epochs_alarm == MILLISECOND
    a.alarm(MILLISECOND)
    turned = a.drain()
    assert [r for r in turned.persist if isinstance(r, Turned)] == [Turned()]
    (swap,) = items(turned, "b", Swap)
    (second,) = items(turned, "b", Follows)
    assert isinstance(swap, Swap)
    assert isinstance(second, Follows)
    assert (swap.batch.seq, swap.last[3], second.batch.seq, second.after[3]) == (1, 2, 2, 1)


@pytest.mark.parametrize("protocol", FAMILY)
def test_nobody_runs_far_ahead_of_a_site_that_is_no_member(protocol: str) -> None:
    """Four are under way that c has not chained; c alone, no member, makes room."""
    with patch.object(Reduction, "ahead", 4), patch.object(Reduction, "every", 2):
        a, b, c = (site(name, protocol) for name in "abc")
        for number in range(10):
            submit(a, 0, "alpha", [b"%d" % number])
        seen = exchange(a, b)
        assert seen["b"] == seen["a"] == [b"0", b"1", b"2", b"3"]
        assert holders(a) == ["c"]
        for number in range(1, 9):
            more = exchange(a, b, c, start=number * ROUND)
            for name in "ab":
                seen[name] += more[name]
        assert seen["b"] == seen["a"] == [b"%d" % number for number in range(10)]


def test_headers_alone_make_checkpoints_so_that_a_store_stays_small() -> None:
    like = options(checkpoint=8)
    a, b, c = (site(name, like=like) for name in "abc")
    records, most, made = 0, 0, 0
    for number in range(60):
        submit(a, number, "alpha", [b"m"])
        for _ in range(3):
            for one in (a, b, c):
                box = one.drain()
                if one is c:
                    records = 0 if box.forget is not None else records + len(box.persist)
                    made += box.forget is not None
                    most = max(most, records)
                for to, frame in (*box.send, *box.then_send):
                    {"a": a, "b": b, "c": c}[to].receive(number, one.name, frame)
    assert made >= 3
    assert most <= 32


def test_a_message_from_outside_goes_through_the_root_and_is_answered() -> None:
    a, b, c, x = (site(name) for name in "abcx")
    submit(x, 0, "alpha", [b"from afar"])
    seen = exchange(a, b, c, x)
    assert seen["a"] == seen["b"] == [b"from afar"]
    assert x.quiet()
    assert not x.own.unstable
