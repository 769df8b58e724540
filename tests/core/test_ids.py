"""Ids of senders' own: the window, the layout that keeps it, and a small model attacks it."""

from dataclasses import replace

import pytest

from ordercast.core.epochs.changes import fold
from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.log_tail import Tail, agree
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.epochs.streams.tickets import require_ticket
from ordercast.core.ids import IdWindow, id_mark
from ordercast.core.producers import ProducerMarks, marks_in, positions_in
from ordercast.model.epochs import (
    ID_WINDOW,
    AddProducer,
    Begin,
    Edit,
    Finish,
    Included,
    RemoveProducer,
    UseProtocol,
    check_included,
)
from ordercast.model.errors import FrameError, UnknownGroup
from ordercast.model.limits import ID_WINDOWS, IDS
from ordercast.model.messages import (
    CLIENT_BYTES,
    MARK_BITS,
    Batch,
    Key,
    Placed,
    Requests,
    by_id,
    is_client,
    ticket_of,
)
from support.models.once.ids import ID_MUTANTS, IdWorld, window_of
from support.worlds.epochs import build

BEGIN = 1 << MARK_BITS
CAUGHT = {
    "HoldsRelay": 0, "RepeatsUnaccepted": 4, "RepeatsUnordered": 6, "KeepsTableWhenCut": 117,
    "LosesTableOnRestart": 2, "HandsNothing": 9, "HandsCurrentTable": 190, "DropsAtOrdering": 4,
    "ForgetsWindow": 4, "TakesOldForCopy": 1, "MarksAnew": 8, "WindowBySite": 1,
}  # fmt: skip


def batch(chosen: str, mark: int = BEGIN, group: str = "g", sender: str = "client:shop") -> Batch:
    requests = Requests(by_id(sender, chosen), ((mark, 2),))
    return Batch("a", 1, group, 1, 2, b"", requests=requests)


def test_an_id_of_a_sender_is_delivered_once_at_a_group() -> None:
    marks = ProducerMarks()
    kept = [marks.keeps(batch(chosen)) for chosen in ("x", "y", "x", "z", "y")]
    assert kept == [True, True, False, True, False]
    assert marks.keeps(batch("x", sender="client:other")), "another sender"
    assert marks.keeps(batch("x", group="h")), "another group"
    assert marks.knows(batch("x"))
    assert not marks.knows(batch("w"))


def test_a_name_and_an_id_do_not_run_into_each_other() -> None:
    assert by_id("a b", "c") != by_id("a", "b c")
    assert len(by_id("a", "b")) == CLIENT_BYTES
    assert not is_client(by_id("a", "b"))


@pytest.mark.parametrize("others", [0, 2, 3, 4])
def test_a_copy_is_known_or_expired_and_never_new(others: int) -> None:
    """However many ids stand between a message and its copy with the same mark."""
    with window_of(3):
        marks = ProducerMarks()
        assert marks.keeps(batch("first"))
        for number in range(others):
            assert marks.keeps(batch(str(number), BEGIN + number))
        assert not marks.keeps(batch("first"))
        assert marks.knows(batch("first")) == (others < 3)


def test_what_was_sent_before_the_window_begins_is_not_delivered() -> None:
    with window_of(3):
        marks = ProducerMarks()
        for number in range(5):
            assert marks.keeps(batch(str(number), BEGIN + number))
        assert not marks.keeps(batch("late", BEGIN + 1))
        assert marks.keeps(batch("in time", BEGIN + 2))


def test_a_number_is_above_every_mark_even_one_that_was_lost() -> None:
    window = IdWindow()
    assert window.keeps("+x", BEGIN + 10)
    assert window.numbers["+x"] == window.last == BEGIN + 11
    assert window.keeps("+y", BEGIN)
    assert window.last == BEGIN + 12


def test_the_settled_mark_is_the_number_of_the_last_id_that_is_settled() -> None:
    marks = ProducerMarks()
    for chosen in ("x", "y", "z"):
        marks.keeps(batch(chosen))
    assert marks.settled == {}
    marks.settle(batch("x"))
    marks.settle(batch("y"))
    assert marks.settled == {"g": BEGIN + 2}
    assert ProducerMarks(marks.all()).settled == {"g": BEGIN + 3}


def test_a_window_is_the_same_after_it_was_told() -> None:
    with window_of(3):
        marks = ProducerMarks()
        for number in range(9):
            marks.keeps(batch(str(number), BEGIN + number))
        told = marks.all()
        assert len(told) == 3
        check_included(told, "lasts")
        assert ProducerMarks(tuple(reversed(told))).all() == told
        assert marks.of(lambda group: group == "h") == ()


def test_positions_of_a_log_go_on_from_its_ids() -> None:
    log = [
        Placed(Key((0, n), "a"), n, one)
        for n, one in enumerate((batch("x"), batch("y"), batch("x")), 1)
    ]
    assert positions_in(log, ()) == [2, 2, 0]
    before = ProducerMarks()
    before.keeps(batch("y"))
    assert positions_in(log, before.all()) == [2, 0, 0]


def test_a_copy_that_the_past_lacks_takes_nothing_back() -> None:
    """The copy has no position, so nobody was shown it. What was delivered behind it stands."""
    batches = ((1, batch("x")), (3, batch("x")), (1, batch("y", group="h")))
    log = [Placed(Key((0, n), "a"), number, one) for n, (number, one) in enumerate(batches, 1)]
    tail = Tail(5, 0, 4, tuple(log), {}, (), ())
    past = agree(tail, {(5, "g"): 2, (5, "h"): 2}, {}, 1)
    assert (past.position, past.attempt, past.items) == (4, 1, ())
    assert past.log == ((5, log[0]), (5, log[2]))


def test_a_batch_with_an_id_is_one_request_to_one_group_and_has_a_mark() -> None:
    several = Requests(by_id("a", "x"), ((BEGIN, 1), (BEGIN + 1, 1)))
    with pytest.raises(FrameError, match="with ids, in one batch"):
        Batch("a", 1, "g", 1, 2, b"", requests=several).check()
    one = Requests(by_id("a", "x"), ((BEGIN, 1),))
    with pytest.raises(FrameError, match="to no list of sites"):
        Batch("a", 1, "@" + "0" * 16, 1, 1, b"", members=("a",), requests=one).check()
    with pytest.raises(FrameError, match="5 is no mark of ids"):
        Batch("a", 1, "g", 1, 1, b"", requests=Requests(by_id("a", "x"), ((5, 1),))).check()
    with pytest.raises(FrameError, match="lasts"):
        check_included((("+nonsense", 1, "g", 1),), "lasts")


# --- windows of a layout --------------------------------------------------------------------------


def layout() -> Layout:
    groups = {"g": ("a", "b"), "h": ("b",)}
    return first_layout("ab", "a", groups, "greedy", "propagation", build)


def changed(before: Layout, name: str, *edits: Edit, lasts: Included = ()) -> Layout:
    return fold(fold(before, Begin(name, edits, ""), build), Finish(name, lasts), build)


def ids(first: int, count: int, ticket: int = 1) -> Included:
    base = ticket << MARK_BITS
    return tuple(
        (id_mark(by_id("s", str(n))), ticket, "g", base + n) for n in range(first, first + count)
    )


def test_a_layout_keeps_the_last_ids_of_each_group() -> None:
    there = changed(layout(), "c", AddProducer(ID_WINDOW, "g"))
    assert there.outcomes == {"c": ""}
    full = changed(there, "d", AddProducer("p", "g"), lasts=ids(1, IDS))
    more = changed(full, "e", AddProducer("q", "g"), lasts=ids(IDS - 4, 10))
    assert sorted(marks_in(more.lasts, ["g"])) == sorted(ids(6, IDS))
    assert unpack_layout(pack_layout(more), build) == more


def test_a_full_window_takes_no_more_of_the_layout_than_docs_ids_says() -> None:
    """36 bytes and the group's name for each id, however long the windows have gone on."""
    group, ticket = "g" * 64, 1 << 13
    there = first_layout("ab", "a", {group: ("a", "b")}, "greedy", "propagation", build)
    there = changed(there, "c", AddProducer(ID_WINDOW, group))
    base = (ticket + 1) << MARK_BITS
    lasts = tuple((id_mark(by_id("s", str(n))), ticket, group, base - IDS + n) for n in range(IDS))
    full = replace(there, lasts={(name, at, g): number for name, at, g, number in lasts})
    more = len(pack_layout(full)) - len(pack_layout(there))
    assert IDS * 90 < more <= IDS * (36 + len(group))


def test_a_window_that_is_removed_takes_its_ids_along() -> None:
    there = changed(layout(), "c", AddProducer(ID_WINDOW, "g"))
    full = changed(there, "d", AddProducer("p", "g"), lasts=ids(1, 5))
    name = by_id("s", "x"), BEGIN
    require_ticket(full, "g", *name)
    gone = changed(full, "e", RemoveProducer(ID_WINDOW, "g"))
    assert marks_in(gone.lasts, ["g"]), "an absent site begins the open epoch with them"
    assert marks_in(changed(gone, "f", UseProtocol("propagation")).lasts, ["g"]) == ()
    with pytest.raises(UnknownGroup, match="the window was removed"):
        require_ticket(gone, "g", *name)
    again = changed(gone, "f", AddProducer(ID_WINDOW, "g"))
    late, new = batch("x"), batch("y", again.producers[ID_WINDOW, "g"] << MARK_BITS)
    assert new.requests is not None
    ticket = ticket_of(new.requests.client, new.requests.numbers[0][0])
    assert ticket == again.producers[ID_WINDOW, "g"]
    marks = ProducerMarks()
    assert marks.keeps(new)
    assert not marks.keeps(late), "it is of the window before"


def test_so_many_groups_remember_ids() -> None:
    groups = {f"g{n}": ("a", "b") for n in range(ID_WINDOWS + 1)}
    wide = first_layout("ab", "a", groups, "greedy", "propagation", build)
    full = changed(wide, "c", *(AddProducer(ID_WINDOW, f"g{n}") for n in range(ID_WINDOWS)))
    assert full.outcomes["c"] == ""
    after = fold(full, Begin("d", (AddProducer(ID_WINDOW, f"g{ID_WINDOWS}"),), ""), build)
    assert f"{ID_WINDOWS} groups remember ids, which is the limit" in after.outcomes["d"]


# --- the small model ------------------------------------------------------------------------------


def test_no_schedule_breaks_the_window() -> None:
    for seed in range(400):
        assert IdWorld(seed).run().wrong == [], f"seed {seed}"


@pytest.mark.parametrize("mutant", ID_MUTANTS, ids=lambda one: one.__name__)
def test_windows_that_are_kept_wrong_are_caught(mutant: type) -> None:
    assert mutant(CAUGHT[mutant.__name__]).run().wrong
