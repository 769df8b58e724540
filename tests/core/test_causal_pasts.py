"""Causal pasts are bounded: what is stable leaves them, and one that is too long is not sent."""

import re

import pytest

from ordercast.core import own_messages
from ordercast.core.engine import Engine
from ordercast.core.order import propagation
from ordercast.core.stability.registry import TRACKERS
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.errors import TooLarge
from ordercast.model.groups import GroupTable
from ordercast.model.limits import PAST, VECTOR_ENTRIES
from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.model.options import SECOND, Limits, Options
from ordercast.wire.codec import FrameEncoder, decode_frame
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import DOWN, UP, Data, DurableCounts, Frame, Relay, Settled, Submit
from support.worlds.alone import submit
from support.worlds.engines import home_engine
from support.worlds.epochs import World

BODY = pack_payloads([b"x"])
MANY = 6
GROUPS = {**{f"g{n}": "tu" for n in range(MANY)}, "link": "st", "other": "su"}


def world(stability: str) -> World:
    """u hears the others, and they do not hear u: nothing that t delivers is stable."""
    made = World(GROUPS, "stu", "stu", seed=1, deliver="agreed", causal=True, stability=stability)
    made.run(SECOND)
    assert home_engine(made.members["t"]).structure.primary("g0") == "t"
    made.deaf.update({("u", "t"), ("u", "s")})
    return made


def past_of(made: World, site: str) -> list[str]:
    return [group for group, _, _ in home_engine(made.members[site]).own.past()]


@pytest.mark.parametrize("stability", [name for name in TRACKERS if name != "plain"])
def test_a_round_clears_the_past_at_sites_that_are_no_members(stability: str) -> None:
    """s is in none of the groups: only the rounds of the domain tell it what is stable there."""
    made = world(stability)
    for n in range(MANY):
        made.submit("t", f"g{n}", b"cause %d" % n)
    made.submit("t", "link", b"link")
    made.run(made.now + SECOND // 10)
    assert past_of(made, "s") == [*(f"g{n}" for n in range(MANY)), *past_of(made, "s")[MANY:]]
    made.deaf.clear()
    made.run(made.now + 5 * SECOND)
    assert past_of(made, "s") == []


def test_a_message_whose_past_is_too_long_is_refused_until_some_of_it_is_stable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (own_messages, propagation):
        monkeypatch.setattr(module, "PAST", 4)
    made = world("s_coordp")
    t = made.members["t"]
    for n in range(5):
        made.submit("st"[n % 2], f"g{n}", b"cause %d" % n)
    made.run(made.now + SECOND // 10)
    why = "t has delivered messages of 5 groups and lists that it does not know to be stable"
    with pytest.raises(TooLarge, match=re.escape(why)):
        t.submit(made.now, "link", [b"link"])
    with pytest.raises(TooLarge):
        t.admission.reserve("link", b"link")
    made.deaf.clear()
    made.run(made.now + 5 * SECOND)
    made.submit("t", "link", b"link")
    made.run(made.now + SECOND)
    assert [payload for *_, payload in made.seen["s"]] == [b"link"]


def test_what_is_under_way_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The primary adds it to the past of the next message. The fifth batch waits for a round."""
    for module in (own_messages, propagation):
        monkeypatch.setattr(module, "PAST", 4)
    made = world("s_coordp")
    for n in range(5):
        made.submit("s", f"g{n}", b"cause %d" % n)
    made.run(made.now + SECOND)
    assert len(made.seen["t"]) == 4
    made.deaf.clear()
    made.run(made.now + 5 * SECOND)
    assert [payload for *_, payload in made.seen["u"]] == [b"cause %d" % n for n in range(5)]


def test_what_is_reserved_waits_while_the_past_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The past may grow between the application's call and the end of the burst."""
    made = world("s_coordp")
    t = made.members["t"]
    for n in range(5):
        t.submit(made.now, f"g{n}", [b"cause %d" % n])
        made.drain("t")
    assert t.admission.reserve("link", b"link") == 1
    with monkeypatch.context() as patch:
        patch.setattr(own_messages, "PAST", 4)
        t.admission.hand_over(made.now)
        made.drain("t")
        assert len(t.admission.queue) == 1
    t.admission.hand_over(made.now)
    assert not t.admission.queue
    made.drain("t")
    made.deaf.clear()
    made.run(made.now + 5 * SECOND)
    assert [payload for *_, payload in made.seen["s"]] == [b"link"]


def engine(name: str, groups: int, **options: object) -> Engine:
    """Site p orders everything: very many groups of t and u, and `link`."""
    named = {f"g{n:05}": ["t", "u"] for n in range(groups)}
    table = GroupTable.of({**named, "link": ["p", "s", "t"]}, sites=["p", "s", "t", "u"])
    forest = Forest(
        "greedy", {"p": None, "s": "p", "t": "p", "u": "p"}, dict.fromkeys(table.groups, "p")
    )
    given = {"deliver": "agreed", "on_failure": "wait", "causal": True, **options}
    made = Engine(name, Structure(1, table, forest), Options(**given))  # type: ignore[arg-type]
    made.start(0)
    return made


def placed(number: int, groups: range, origin: str = "t") -> Placed:
    """A message to `link`, whose past is of these groups."""
    past = tuple((f"g{n:05}", 1, ()) for n in groups)
    batch = Batch(origin, 1, "link", number, 1, BODY, past)
    return Placed(Key((0, number), "p"), number, batch)


def legal(frames: list[tuple[str, Frame]]) -> list[Data]:
    """The frames as a peer decodes them."""
    encoder = FrameEncoder()
    found = []
    for _, frame in frames:
        decoded = decode_frame(encoder.encode([InEpoch(1, frame)])[0])
        assert isinstance(decoded, InEpoch)
        if isinstance(decoded.frame, Data):
            found.append(decoded.frame)
    return found


def items_of(made: Engine, kind: type) -> list[object]:
    box = made.drain()
    assert not box.mistakes
    frames = legal([*box.send, *box.then_send])
    return [item for frame in frames for item in frame.items if isinstance(item, kind)]


def test_the_longest_past_is_taken_by_peers_and_one_more_is_not_sent() -> None:
    s, p = engine("s", PAST + 1), engine("p", PAST + 1)
    # The message itself is one of its past.
    s.receive(0, "p", Data(1, 1, DOWN, 1, (Relay(placed(1, range(PAST - 1))),)))
    submit(s, 0, "link", [b"answer"])
    (sent,) = items_of(s, Submit)
    assert isinstance(sent, Submit)
    assert len(sent.batch.past) == PAST
    p.receive(0, "s", Data(1, 1, UP, 1, (sent,)))
    assert not p.drain().mistakes
    s.receive(0, "p", Data(1, 1, DOWN, 2, (Relay(placed(2, range(PAST - 1, PAST + 1))),)))
    with pytest.raises(TooLarge, match=f"{PAST + 2:,} groups and lists"):
        s.own.require_past("s")
    assert not s.may_accept("link", ())


def test_a_primary_adds_no_more_than_a_frame_carries() -> None:
    """An origin has very many messages under way; the last one is to go to `link`, and carries all
    of them, besides the longest past."""
    limits = Limits(window_messages=4 * PAST, link_items=4 * PAST, held_batches=8 * PAST)
    o = engine("u", 2 * PAST, limits=limits)
    for n in range(PAST, 2 * PAST):
        submit(o, 0, f"g{n:05}", [b"x"])
    submit(o, 0, "link", [b"last"])
    assert (o.own.left, o.own.unstable) == (PAST, PAST + 1)  # it waits until one of them is stable
    p = engine("p", 2 * PAST, limits=limits)
    past = placed(1, range(PAST - 1)).batch.past
    p.ordering._given["u"] = {f"g{n:05}": (1, ()) for n in range(PAST, 2 * PAST)}  # type: ignore[attr-defined]
    p.ordering._numbers = {f"g{n:05}": 1 for n in range(2 * PAST)}  # type: ignore[attr-defined]
    p.ordering._numbers["link"] = 1  # type: ignore[attr-defined]
    p.receive(0, "u", Data(1, 1, UP, 1, (Submit(Batch("u", 1, "link", 1, 1, BODY, past)),)))
    relays = items_of(p, Relay)
    assert relays
    assert all(len(r.placed.batch.past) == 2 * PAST - 1 <= VECTOR_ENTRIES for r in relays)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("past", "why"),
    [
        ((("nosuch", 1, ()),), "'nosuch' in a causal past is no group of this epoch"),
        ((("@0123456789abcdef", 1, ("s", "t")),), "no group of this epoch"),
        (tuple((f"g{n:05}", 1, ()) for n in range(PAST + 1)), f"a causal past of {PAST + 1:,}"),
    ],
    ids=["unknown", "list", "long"],
)
def test_a_past_that_no_honest_site_has_is_a_mistake(
    past: tuple[tuple[str, int, tuple[str, ...]], ...], why: str
) -> None:
    p = engine("p", PAST + 1)
    p.receive(0, "s", Data(1, 1, UP, 1, (Submit(Batch("s", 1, "link", 1, 1, BODY, past)),)))
    ((peer, told),) = p.drain().mistakes
    assert peer == "s"
    assert why in told


def test_reports_of_very_many_groups_go_in_parts() -> None:
    """A site that has restarted is told all of them."""
    u = engine("u", VECTOR_ENTRIES + 10, stability="plain")
    for n in range(VECTOR_ENTRIES + 10):
        u.stability.logged(f"g{n:05}", 1, ())
    u.stability.restarted("t")
    counts = items_of(u, DurableCounts)
    sizes = [len(item.counts) for item in counts]  # type: ignore[attr-defined]
    assert sizes == [VECTOR_ENTRIES, 10] * (len(sizes) // 2)
    assert sizes
    u._tell_settled("t", [(f"g{n:05}", 1) for n in range(VECTOR_ENTRIES + 10)])
    told = items_of(u, Settled)
    assert [len(item.seqs) for item in told] == [VECTOR_ENTRIES, 10]  # type: ignore[attr-defined]
