"""The rule by which a request is delivered once, in a small world that attacks it, and rules that
look as good and are not."""

import pytest

from support.models.once.mutants import MUTANTS, RefusalNotRecorded, StampsUnstable
from support.models.once.rule import DELIVER, DUPLICATE, EXPIRED, FENCED, GAP, Request, Table
from support.models.once.world import World, judged

CAUGHT = {
    "HoldsRelay": 1, "RepeatsUnaccepted": 4, "RepeatsUnordered": 6, "PrunesSet": 13,
    "FloorOfAccepted": 1, "KeepsTableWhenCut": 117, "LosesTableOnRestart": 2, "HandsNothing": 9,
    "HandsCurrentTable": 190, "DropsAtOrdering": 48, "ResolvesListAnew": 5, "ForgetsEvicted": 19,
    "BoundsBySite": 4, "EvictsByClock": 52, "RefusesByMarkAlone": 8, "TakesOldForDuplicate": 58,
    "LooksBeforeEntry": 23_135, "AsksForItsMark": 4,
}  # fmt: skip


def request(
    number: int, prev: int = 0, *, client: str = "k", stamp: int = 0, generation: int = 1
) -> Request:
    return Request(client, generation, number, prev, stamp, "g", number)


def test_every_outcome_of_the_rule() -> None:
    table = Table(most=1)
    assert table.log(request(1)) == DELIVER
    assert table.log(request(1)) == DUPLICATE
    assert table.log(request(3, 2)) == GAP
    assert table.log(request(2, 1)) == DELIVER
    assert table.log(request(1, client="other", stamp=4)) == DELIVER  # evicts k, touched at 4
    assert table.log(request(2, 1)) == EXPIRED  # evicts the other client, touched at 5
    assert table.horizon == 6
    assert table.log(request(1)) == EXPIRED
    assert table.log(request(3, 2, stamp=4)) == EXPIRED
    assert table.log(request(4, 3, stamp=5)) == DELIVER
    assert table.log(request(1, stamp=10, generation=2)) == DELIVER
    assert table.log(request(5, 4, stamp=10)) == FENCED


@pytest.mark.parametrize("block", range(4))
def test_no_schedule_breaks_the_rule(block: int) -> None:
    for seed in range(block * 150, block * 150 + 150):
        assert World(seed).run().wrong == [], f"seed {seed}"


@pytest.mark.parametrize("name", CAUGHT)
def test_a_rule_that_is_wrong_is_caught(name: str) -> None:
    mutant = next(one for one in MUTANTS if one.__name__ == name)
    assert World(CAUGHT[name]).run().wrong == []
    assert mutant(CAUGHT[name]).run().wrong


def test_every_mutant_has_its_schedule() -> None:
    by_hand = {StampsUnstable.__name__, RefusalNotRecorded.__name__}
    assert {one.__name__ for one in MUTANTS} == {*CAUGHT, *by_hand}


@pytest.mark.parametrize(("kind", "right"), [(World, True), (RefusalNotRecorded, False)])
def test_a_number_does_not_wait_for_one_that_was_refused(kind: type[World], *, right: bool) -> None:
    table = kind(0).new_table("a")
    table.horizon = 4
    assert table.log(request(1, stamp=5)) == DELIVER
    assert table.log(request(2, 1, stamp=3)) == EXPIRED  # another daemon, which knew of less
    assert table.log(request(3, 2, stamp=5)) == (DELIVER if right else GAP)


@pytest.mark.parametrize(("kind", "right"), [(World, True), (StampsUnstable, False)])
def test_a_stamp_from_a_tail_that_is_cut_would_let_a_late_copy_pass(
    kind: type[World], *, right: bool
) -> None:
    world = kind(0)  # a table keeps one client; `agreed`
    a, b, c = world.daemons.values()
    mover, other = world.clients
    world.chance.random = lambda: 0.9  # type: ignore[method-assign]  # no lists
    world.connect(other, a)
    for _ in range(3):  # only a has logged these
        world.send(other)
        world.place(a)
        world.log_next(a)
    world.connect(mover, a)
    world.send(mover)
    world.write(a)
    world.change(apart="a")  # the tail at a is cut when it returns
    world.connect(mover, b)
    world.connect(other, c)
    for site in (b, c, c, c):
        world.place(site)
        for one in (b, c):
            world.log_next(one)
    world.change()
    world.calm()
    assert (not judged(world)) == right, judged(world)
