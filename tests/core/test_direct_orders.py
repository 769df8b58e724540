"""`two_phase` and `symmetric` step by step: numbers, promises, what is told again."""

from collections.abc import Sequence

import pytest

from ordercast.core.engine import Engine
from ordercast.core.observation import holders
from ordercast.core.outbox import Decided, EngineBox, Promised, Record, opening
from ordercast.core.states import CLOSED
from ordercast.core.structure import Structure
from ordercast.forest.greedy import build_greedy
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Batch
from ordercast.model.options import Options
from ordercast.wire.frames import Data, Final, Item, Null, Offer, Proposal, Timed, Wanted
from support.worlds.alone import submit

TABLE = GroupTable.of({"alpha": ["a", "b"], "beta": ["b", "c"]}, sites=["a", "b", "c", "x"])
STRUCTURE = Structure(1, TABLE, build_greedy(TABLE))
WAIT = Options(deliver="agreed", on_failure="wait")


def site(name: str, protocol: str, records: Sequence[Record] = (), boot: int = 1) -> Engine:
    made = Engine(name, STRUCTURE, WAIT, protocol=protocol, records=records, boot=boot)
    made.start(0)
    return made


def items(box: EngineBox, peer: str) -> list[Item]:
    """What the outbox sends a peer, acknowledgements and reports left out."""
    kinds = (Offer, Proposal, Final, Timed, Null, Wanted)
    return [
        item
        for to, frame in (*box.send, *box.then_send)
        if to == peer and isinstance(frame, Data)
        for item in frame.items
        if isinstance(item, kinds)
    ]


def carry(box: EngineBox, peer: Engine, source: str) -> None:
    for to, frame in (*box.send, *box.then_send):
        if to == peer.name:
            peer.receive(0, source, frame)


def test_members_propose_and_the_origin_fixes_the_highest() -> None:
    x, a, b = site("x", "two_phase"), site("a", "two_phase"), site("b", "two_phase")
    submit(b, 0, "beta", [b"earlier"])  # so b's clock is ahead
    b.drain()
    submit(x, 0, "alpha", [b"m"])
    offered = x.drain()
    for member in (a, b):
        carry(offered, member, "x")
        carry(member.drain(), x, member.name)
    fixed = x.drain()
    assert items(fixed, "a") == items(fixed, "b") == [Final(1, "alpha", 1, 2, "b")]
    carry(fixed, a, "x")
    (delivered,) = a.drain().deliver
    assert delivered.placed.key == ((2,), "b")


def test_what_is_numbered_lower_is_waited_for() -> None:
    """b has proposed 1 for one batch; another, fixed at 2, passes only after it."""
    b, a, x = site("b", "two_phase"), site("a", "two_phase"), site("x", "two_phase")
    submit(a, 0, "alpha", [b"first"])
    carry(a.drain(), b, "a")
    first = b.drain()
    submit(x, 0, "beta", [b"second"])
    c = site("c", "two_phase")
    offered = x.drain()
    for member in (b, c):
        carry(offered, member, "x")
        carry(member.drain(), x, member.name)
    carry(x.drain(), b, "x")
    assert not b.drain().deliver
    carry(first, a, "b")
    carry(a.drain(), b, "a")
    assert [batch.payloads for batch in b.drain().deliver] == [[b"first"], [b"second"]]


def test_a_proposal_is_kept_through_a_restart_and_told_again() -> None:
    x, b = site("x", "two_phase"), site("b", "two_phase")
    submit(x, 0, "alpha", [b"m"])
    carry(x.drain(), b, "x")
    box = b.drain()
    assert [type(record) for record in box.persist] == [Promised]
    again = site("b", "two_phase", box.persist, boot=2)
    assert items(again.drain(), "x") == items(box, "x") == [Proposal(1, "alpha", 1, 1)]


def test_a_number_is_durable_before_it_is_told() -> None:
    x, a, b = site("x", "two_phase"), site("a", "two_phase"), site("b", "two_phase")
    submit(x, 0, "alpha", [b"m"])
    offered = x.drain()
    kept = list(offered.persist)
    for member in (a, b):
        carry(offered, member, "x")
        carry(member.drain(), x, member.name)
    fixed = x.drain()
    kept += fixed.persist
    assert not fixed.send
    assert isinstance(kept[-1], Decided)
    again = site("x", "two_phase", kept, boot=2)
    assert Final(1, "alpha", 1, 1, "b") in items(again.drain(), "a")


def test_a_restarted_root_tells_the_number_of_the_close_again() -> None:
    """It had passed the Close itself, and told nobody."""
    structure = STRUCTURE
    sites = ("a", "b", "c")

    def engine(name: str, records: Sequence[Record] = (), boot: int = 1) -> Engine:
        start = opening(0, (), {}, ())
        made = Engine(
            name, structure, WAIT, protocol="two_phase", checkpoint=start, records=records,
            boot=boot,
        )  # fmt: skip
        made.start(0)
        return made

    root, *others = (engine(name) for name in ("b", "a", "c"))
    root.close(0, sites)
    offered = root.drain()
    kept = list(offered.persist)
    for member in others:
        carry(offered, member, "b")
        carry(member.drain(), root, member.name)
    kept += root.drain().persist  # and nothing of it is sent
    assert root.epoch_state is CLOSED
    again = engine("b", kept, boot=2)
    assert again.epoch_state is CLOSED
    carry(again.drain(), others[0], "b")
    assert others[0].epoch_state is CLOSED


def test_who_is_silent_is_asked_once_and_nulls_are_not_answered() -> None:
    a, b, c = (site(name, "symmetric") for name in "abc")
    submit(a, 0, "alpha", [b"m"])
    sent = a.drain()
    assert items(sent, "b") == [Timed(_batch(sent), 1), Wanted(1, "a")]
    assert items(sent, "c") == [Wanted(1, "a")]
    carry(sent, b, "a")
    asked = b.drain()
    assert items(asked, "a") == [Null(2)]  # a asked; b has heard a, and asks c alone
    assert items(asked, "c") == [Wanted(1, "a")]
    assert not asked.deliver
    carry(asked, c, "b")
    answer = c.drain()
    assert items(answer, "b") == [Null(2)]
    carry(answer, b, "c")
    box = b.drain()
    assert [batch.payloads for batch in box.deliver] == [[b"m"]]
    assert not items(box, "c")


def _batch(box: EngineBox) -> Batch:
    for _, frame in box.then_send:
        if isinstance(frame, Data) and isinstance(frame.items[0], Timed):
            return frame.items[0].batch
    raise AssertionError("nothing was stamped")


def test_a_timestamp_is_never_given_twice() -> None:
    """After a restart all timestamps are above those that were promised, batches' and nulls'."""
    a, c = site("a", "symmetric"), site("c", "symmetric")
    submit(a, 0, "alpha", [b"m"])
    carry(a.drain(), c, "a")
    told = c.drain()
    (null,) = items(told, "a")
    again = site("c", "symmetric", told.persist, boot=2)
    submit(again, 0, "beta", [b"n"])
    (stamped,) = (i for i in items(again.drain(), "b") if isinstance(i, Timed))
    assert isinstance(null, Null)
    assert stamped.clock > null.clock


@pytest.mark.parametrize("protocol", ["two_phase", "symmetric"])
def test_whose_word_is_missing_is_named(protocol: str) -> None:
    a = site("a", protocol)
    submit(a, 0, "alpha", [b"m"])
    a.drain()
    assert holders(a) == (["b"] if protocol == "two_phase" else ["b", "c"])
