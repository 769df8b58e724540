"""Named producers: the marks, the tickets, and the small model that attacks them."""

import pytest

from ordercast.core.epochs.changes import fold
from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.producers import ProducerMarks, marks_in, positions_in
from ordercast.model.epochs import (
    PRODUCERS,
    AddGroup,
    AddProducer,
    Begin,
    Edit,
    Finish,
    RemoveGroup,
    RemoveProducer,
    UseProtocol,
)
from ordercast.model.errors import FrameError
from ordercast.model.limits import GENERATIONS, LARGEST_NUMBER, PRODUCER_NUMBERS, TICKETS
from ordercast.model.messages import (
    CLIENT_BYTES,
    Batch,
    Key,
    Placed,
    Requests,
    in_generation,
    numbered,
    producer_id,
    ticket_in,
)
from support.models.once.producers import (
    GENERATION_MUTANTS,
    PRODUCER_MUTANTS,
    GenerationWorld,
    ProducerWorld,
)
from support.worlds.epochs import build

CAUGHT = {
    "HoldsRelay": 0, "RepeatsUnaccepted": 4, "RepeatsUnordered": 6, "KeepsTableWhenCut": 117,
    "LosesTableOnRestart": 2, "HandsNothing": 9, "HandsCurrentTable": 190, "DropsAtOrdering": 6,
}  # fmt: skip

FENCED_WRONGLY = {"FencedAreCopies": 4, "NumbersAlone": 0, "MarksApart": 4}


def batch(number: int, ticket: int = 1, group: str = "g", count: int = 2) -> Batch:
    requests = Requests(producer_id(ticket), ((number, count),))
    return Batch("a", 1, group, number, count, b"", requests=requests)


def placed(*batches: Batch) -> list[Placed]:
    return [Placed(Key((0, n), "a"), n, one) for n, one in enumerate(batches, 1)]


def test_a_number_at_or_below_the_mark_is_a_copy() -> None:
    marks = ProducerMarks()
    assert [marks.keeps(batch(number)) for number in (1, 5, 5, 4, 6)] == [1, 1, 0, 0, 1]
    assert marks.keeps(batch(1, ticket=2)), "another producer"
    assert marks.keeps(batch(1, group="h")), "another group"
    assert marks.all() == ((PRODUCERS, 1, "g", 6), (PRODUCERS, 2, "g", 1), (PRODUCERS, 1, "h", 1))


def test_what_no_producer_has_sent_is_no_copy() -> None:
    marks = ProducerMarks()
    client = Batch("a", 1, "g", 1, 1, b"", requests=Requests(b"c" * CLIENT_BYTES, ((1, 1),)))
    plain = Batch("a", 1, "g", 2, 1, b"")
    assert all(marks.keeps(one) for one in (client, client, plain, plain))
    assert marks.all() == ()


def test_behind_a_later_generation_an_earlier_one_is_fenced_and_no_copy() -> None:
    marks = ProducerMarks()
    old, new = batch(in_generation(1, 7)), batch(in_generation(2, 3))
    assert [marks.keeps(one) for one in (old, old, new, old, new)] == [1, 0, 1, 0, 0]
    assert marks.knows(new)
    assert not marks.knows(old)
    assert not marks.keeps(batch(in_generation(1, 8)))
    assert marks.all() == ((PRODUCERS, 1, "g", in_generation(2, 3)),)
    assert numbered(in_generation(2, 3)) == "3 of generation 2"
    assert in_generation(GENERATIONS, PRODUCER_NUMBERS) < LARGEST_NUMBER


def test_positions_of_a_log_go_on_from_its_marks() -> None:
    log = placed(batch(3), batch(4), batch(4), batch(5))
    assert positions_in(log, ()) == [2, 2, 0, 2]
    assert positions_in(log, ((PRODUCERS, 1, "g", 4),)) == [0, 0, 0, 2]


def test_a_producers_batch_is_one_request_to_one_group() -> None:
    assert ticket_in(producer_id(77)) == 77
    assert not ticket_in(b"p" * CLIENT_BYTES)
    several = Requests(producer_id(1), ((1, 1), (2, 1)))
    with pytest.raises(FrameError, match="2 of a producer, or with ids, in one batch"):
        Batch("a", 1, "g", 1, 2, b"", requests=several).check()
    listed = Requests(producer_id(1), ((1, 1),))
    with pytest.raises(FrameError, match="to no list of sites"):
        Batch("a", 1, "@" + "0" * 16, 1, 1, b"", members=("a",), requests=listed).check()


# --- tickets --------------------------------------------------------------------------------------


def layout() -> Layout:
    groups = {"g": ("a", "b"), "h": ("b",)}
    return first_layout("ab", "a", groups, "greedy", "propagation", build)


def changed(before: Layout, name: str, *edits: Edit) -> Layout:
    begun = fold(before, Begin(name, edits, ""), build)
    lasts = ((PRODUCERS, 1, "g", 9), (PRODUCERS, 2, "h", 4), ("a", 1, "g", 3))
    return fold(begun, Finish(name, lasts), build)


def test_a_producer_has_a_ticket_for_each_group_and_closes_no_epoch() -> None:
    done = changed(layout(), "c", AddProducer("sink", "g"), AddProducer("sink", "h"))
    assert done.outcomes == {"c": ""}
    assert done.producers == {("sink", "g"): 1, ("sink", "h"): 2}
    assert list(done.domains) == list(layout().domains)
    again = changed(done, "d", AddProducer("sink", "g"))
    assert (again.outcomes["d"], again.producers) == ("", done.producers)
    assert marks_in(again.lasts, ["g"]) == ((PRODUCERS, 1, "g", 9),)
    assert unpack_layout(pack_layout(again), build) == again


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        (AddProducer("sink", "k"), "there is no group 'k'"),
        (AddProducer("Sink", "g"), "producer 'sink' is there already"),
        (AddProducer("s k", "g"), "is no name"),
        (RemoveProducer("sing"), "there is no producer 'sing' (did you mean 'sink'?)"),
        (RemoveProducer("sink", "h"), "there is no producer 'sink' at group 'h'"),
    ],
)
def test_an_impossible_edit_says_why(edit: Edit, why: str) -> None:
    there = changed(layout(), "c", AddProducer("sink", "g"))
    after = fold(there, Begin("d", (edit,), ""), build)
    assert why in after.outcomes["d"]
    assert after.producers == there.producers


def test_a_removed_producer_takes_its_marks_along_and_no_ticket_is_given_twice() -> None:
    there = changed(layout(), "c", AddProducer("sink", "g"), AddProducer("sink", "h"))
    gone = changed(there, "d", RemoveProducer("sink", "g"))
    assert gone.producers == {("sink", "h"): 2}
    assert (PRODUCERS, 1, "g") in gone.lasts, "an absent site begins the open epoch with it"
    closed = changed(gone, "close", UseProtocol("propagation"))
    marks = [stream for stream in closed.lasts if stream[0] == PRODUCERS]
    assert marks == [(PRODUCERS, 2, "h")]
    back = changed(gone, "e", AddProducer("sink", "g"))
    assert back.producers["sink", "g"] == 3
    none = changed(back, "f", RemoveProducer("sink"))
    assert (none.producers, none.last_ticket) == ({}, 3)


def test_a_removed_group_takes_its_producers_along() -> None:
    there = changed(layout(), "c", AddProducer("sink", "h"))
    gone = changed(there, "d", RemoveGroup("h"))
    assert gone.producers == {}
    again = changed(gone, "e", AddGroup("h", ("b",)))
    assert changed(again, "f", AddProducer("sink", "h")).producers == {("sink", "h"): 2}


def test_there_are_so_many_tickets() -> None:
    many = tuple(AddProducer(f"p{n}", "g") for n in range(1_024))
    full = layout()
    for n in range(TICKETS // 1_024):
        edits = tuple(AddProducer(f"{n}{edit.producer}", "g") for edit in many)
        full = changed(full, f"c{n}", *edits)
    assert len(full.producers) == TICKETS
    after = fold(full, Begin("more", (AddProducer("more", "g"),), ""), build)
    assert f"{TICKETS:,} is the limit" in after.outcomes["more"]


# --- the small model ------------------------------------------------------------------------------


def test_no_schedule_breaks_the_marks() -> None:
    for seed in range(300):
        assert ProducerWorld(seed).run().wrong == [], f"seed {seed}"


def test_no_schedule_breaks_the_generations() -> None:
    for seed in range(200):
        assert GenerationWorld(seed).run().wrong == [], f"seed {seed}"


@pytest.mark.parametrize("mutant", GENERATION_MUTANTS, ids=lambda one: one.__name__)
def test_generations_that_are_nearly_right_are_caught(mutant: type) -> None:
    assert mutant(FENCED_WRONGLY[mutant.__name__]).run().wrong


@pytest.mark.parametrize("mutant", PRODUCER_MUTANTS, ids=lambda one: one.__name__)
def test_marks_that_are_kept_wrong_are_caught(mutant: type) -> None:
    assert mutant(CAUGHT[mutant.__name__]).run().wrong
