"""Arrow groups below the core of `hybrid:N:M`: how they are cut, what a message costs, restarts,
and what a peer may not say of marks."""

import copy
from dataclasses import replace
from random import Random

import pytest
from msgspec.structs import replace as replaced

from ordercast.core.engine import Engine
from ordercast.core.order.arrow_groups import GroupSwap
from ordercast.core.order.hybrid import HybridSwap
from ordercast.core.order.kept_states import ResumedReduction
from ordercast.core.order.reduction import Reduction
from ordercast.core.order.swaps import SendMark, TellMark
from ordercast.core.outbox import Checkpoint, Record
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Batch, pack_payloads
from ordercast.model.options import MILLISECOND, Options, Timing
from ordercast.sim.schedules import schedule
from ordercast.sim.simulate import simulate
from ordercast.wire.frames import UP, Data, Item
from ordercast.wire.swap import ChainMark, MarkValue, Swap
from support.cases.schedules import deep
from support.worlds.alone import submit
from support.worlds.swap_trees import (
    Network,
    Parents,
    depth,
    name,
    random_parents,
    require_order,
    tops_below,
)

LINE: Parents = {"r": None, "a": "r", "b": "a", "c": "b", "d": "c"}
TABLE = GroupTable(tuple("abcdr"), {"all": tuple("abcdr")})
STRUCTURE = Structure(1, TABLE, Forest("given", dict(LINE), {"all": "r"}))
THREE = (
    "hybrid:1:3"  # on the line: the core is r, a group is a, b, c, with a as its top; d is alone
)


# --- groups ---------------------------------------------------------------------------------------


def test_groups_are_connected_and_no_larger_than_asked_for() -> None:
    for seed in range(300):
        rng = Random(seed)
        parents = random_parents(rng, rng.randint(1, 14))
        core, size = rng.randint(1, 5), rng.randint(1, 5)
        tops = tops_below(core, size, parents)
        assert len(tops) == max(0, len(parents) - core)
        for site, top in tops.items():
            assert tops[top] == top
            assert site == top or tops[parents[site] or ""] == top
            assert list(tops.values()).count(top) <= size
            if site == top and parents[site] in tops:  # its parent's group is full
                assert list(tops.values()).count(tops[parents[site] or ""]) == size


def test_groups_follow_from_the_forest_alone_whatever_order_it_is_written_in() -> None:
    parents = random_parents(Random(7), 14)
    backwards = dict(reversed(list(parents.items())))
    assert tops_below(2, 3, parents) == tops_below(2, 3, backwards)


def engine(
    site: str,
    protocol: str = THREE,
    records: tuple[Record, ...] | list[Record] = (),
    *,
    boot: int = 1,
    checkpoint: Checkpoint | None = None,
    hold: int = 0,
) -> Engine:
    options = Options(deliver="agreed", on_failure="wait", timing=Timing(hold=hold))
    made = Engine(
        site, STRUCTURE, options, protocol=protocol, records=records, boot=boot,
        checkpoint=checkpoint,
    )  # fmt: skip
    made.start(0)
    return made


def swaps_of(made: Engine) -> object:
    assert isinstance(made.ordering, Reduction)
    return made.ordering.swaps


def test_a_group_of_one_site_is_a_node_of_the_combining_tree() -> None:
    kinds = {site: type(swaps_of(engine(site))) for site in LINE}
    assert kinds == {
        "r": HybridSwap, "a": GroupSwap, "b": GroupSwap, "c": GroupSwap, "d": HybridSwap,
    }  # fmt: skip
    assert {type(swaps_of(engine(site, "hybrid:1:1"))) for site in LINE} == {HybridSwap}


def test_groups_of_one_site_do_the_same_as_none() -> None:
    for seed in range(1, 4):
        config = deep(schedule)("hybrid:2", seed)
        plain, same = (simulate(replace(config, protocol=f"hybrid:2{m}"), seed) for m in ("", ":1"))
        assert plain.ok
        assert plain.history is not None
        assert same.history is not None
        assert plain.events == same.events
        assert plain.history.deliveries == same.history.deliveries


# --- what it costs --------------------------------------------------------------------------------


def test_a_message_alone_takes_the_way_through_its_group_three_times() -> None:
    """As docs/swap.md says: to the mark at the top, the next mark behind it, and the answer."""
    for seed in range(20):
        parents = random_parents(Random(seed), 10)
        tops = tops_below(1, 4, parents)
        for site in parents:
            network, marks = Network.of("hybrid:1:4", parents), 0
            network.issue(site)
            while True:
                for waiting, at in network.objects.items():
                    if at.waiting():
                        network.turn(waiting)
                ready = network.under_way()
                if not ready:
                    break
                marks += isinstance(network.links[ready[0]][0], (SendMark, TellMark))
                network.deliver(*ready[0])
            inside = sum(up != tops.get(up, up) for up in ancestors(parents, site))
            assert marks == 2 * inside
            assert network.hops[name(site)] == depth(parents, site)


def ancestors(parents: Parents, site: str) -> list[str]:
    above = parents[site]
    return [site] if above is None else [site, *ancestors(parents, above)]


# --- every interleaving ---------------------------------------------------------------------------


FORK: Parents = {"r": None, "a": "r", "b": "a", "c": "a"}


def test_every_interleaving_of_a_few_messages_makes_one_chain() -> None:
    """All orders in which sites issue, links deliver, and bursts end."""
    parents, senders = FORK, "cbc"
    issued = {site: senders.count(site) for site in set(senders)}
    seen: set[str] = set()
    ends = 0
    left = [(Network.of("hybrid:1:3", parents), 0)]
    while left:
        network, sent = left.pop()
        steps: list[tuple[str, ...]] = list(network.under_way())
        steps += [(site,) for site, at in network.objects.items() if at.waiting()]
        if sent < len(senders):
            steps.append(())
        if not steps:
            require_order(network.chain(), issued)
            ends += 1
        for step in steps:
            after = copy.deepcopy(network)
            if len(step) == 2:
                after.deliver(*step)
            elif step:
                after.turn(*step)
            else:
                origin = senders[sent]
                after.issue(origin, senders[: sent + 1].count(origin))
            told = sent + (not step)
            state = repr((told, [at.state(lambda batch: batch) for at in after.objects.values()],
                          sorted(after.found.items()), sorted(after.links.items())))  # fmt: skip
            if state not in seen:
                seen.add(state)
                left.append((after, told))
    assert ends


# --- restart --------------------------------------------------------------------------------------


def test_a_restored_site_has_the_same_chains_from_a_checkpoint_as_from_notes() -> None:
    """Whatever was lost on the way, and wherever a mark is."""
    sites = {site: engine(site, hold=2 * MILLISECOND) for site in LINE}
    kept: dict[str, list[Record]] = {site: [] for site in sites}
    rng, seen = Random(5), set()
    for step in range(120):
        now = step * MILLISECOND
        for site, one in sites.items():
            if step % 7 == 0:
                submit(one, now, "all", [b"%d" % step])
            one.alarm(now)
            box = one.drain()
            kept[site] += box.persist
            for to, frame in (*box.send, *box.then_send):
                if to in sites and rng.random() < 0.8:
                    sites[to].receive(now, site, frame)
        for site, one in sites.items():
            kept[site] += one.drain().persist
            swaps = swaps_of(one)
            if step % 10 or not isinstance(swaps, GroupSwap):
                continue
            seen.add((swaps._open is not None, swaps._begun is not None, swaps._mark > 0))
            fresh = engine(site, records=kept[site], boot=2)
            folded = engine(site, boot=2, checkpoint=one.retention.whole())
            noted, stated = [
                replaced(state, debts=replaced(state.debts, requests=(), headers=(), answers=()))
                for state in (fresh.ordering.journal(), folded.ordering.journal())
                if isinstance(state, ResumedReduction)
            ]
            assert noted == stated
    assert {(True, False, True), (True, True, True), (False, False, True)} <= seen


# --- what a peer may say --------------------------------------------------------------------------

LAST = ("c", 1, "all", 1)


def batch(origin: str) -> Batch:
    return Batch(origin, 1, "all", 1, 1, pack_payloads([b"x"]))


def mistakes(taker: Engine, peer: str, *items: Item) -> list[str]:
    """What the site says of the next items of the lane; if it says anything, nothing changes."""
    before = taker.ordering.journal()
    number = taker.link(peer).incoming[UP].got + 1
    taker.receive(0, peer, Data(1, 1, UP, number, items))
    box = taker.drain()
    if box.mistakes:
        assert not box.persist
        assert taker.ordering.journal() == before
    return [why for who, why in box.mistakes if who == peer]


@pytest.mark.parametrize(
    ("taker", "peer", "lie", "why"),
    [
        ("a", "b", ChainMark(1, 1), "a mark from below"),
        ("a", "r", ChainMark(1, 1), "no neighbour in the arrow group"),  # r is above the top
        ("c", "d", ChainMark(1, 1), "no neighbour in the arrow group"),
        ("c", "a", ChainMark(1, 1), "no neighbour in the arrow group"),  # two steps away
        ("b", "a", ChainMark(1, 1), "a mark where none can pass"),  # against the arrow
        ("b", "a", MarkValue(1, 1, LAST), "it answers a mark from above"),
        ("a", "b", MarkValue(1, 1, LAST), "it answers mark 1, which is not open"),
        ("b", "c", MarkValue(1, 1, LAST), "it answers mark 1, which is not open"),
        ("r", "a", ChainMark(1, 1), "is not of this protocol"),
        ("d", "c", MarkValue(1, 1, LAST), "is not of this protocol"),
        ("a", "r", Swap(1, batch("r"), ("r", 1, "all", 1), "r"), "it sends a request down"),
        ("d", "c", Swap(1, batch("c"), LAST, "c"), "it sends a request down"),
    ],
)
def test_what_only_others_may_say_of_marks_is_refused(
    taker: str, peer: str, lie: Item, why: str
) -> None:
    (said,) = mistakes(engine(taker), peer, lie)
    assert why in said


def begun() -> Engine:
    """a, the top, which has heard of c's message and has sent its first mark down to b."""
    top = engine("a")
    assert not mistakes(top, "b", Swap(1, batch("c"), LAST, "c"))
    return top


def test_the_top_takes_one_answer_and_for_the_mark_that_is_open() -> None:
    top = begun()
    assert mistakes(top, "b", MarkValue(2, 2, LAST))
    top.links["b"].incoming[UP].got = 1
    assert not mistakes(top, "b", MarkValue(2, 1, LAST))
    assert mistakes(top, "b", MarkValue(3, 1, LAST))


def test_an_answer_that_is_told_again_after_a_restart_is_no_mistake() -> None:
    top = begun()
    assert not mistakes(top, "b", MarkValue(2, 1, LAST))
    assert not mistakes(top, "b", MarkValue(2, 1, LAST))
    assert not mistakes(top, "b", Swap(1, batch("c"), LAST, "c"))


def test_a_second_mark_is_refused_while_one_is_on_its_way() -> None:
    middle = engine("b")
    assert not mistakes(middle, "c", Swap(1, batch("c"), LAST, "c"))  # it passes, to a
    assert not mistakes(middle, "a", ChainMark(1, 1))
    assert mistakes(middle, "a", ChainMark(2, 2))
