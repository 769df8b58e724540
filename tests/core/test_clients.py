"""Clients that a group remembers: the window, the layout that keeps it, and a small model that
attacks it."""

from dataclasses import replace

import pytest

from ordercast.core.clients import ClientWindow
from ordercast.core.epochs.changes import fold
from ordercast.core.epochs.layout import Layout, first_layout
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.producers import ProducerMarks, marks_in, positions_in
from ordercast.model.epochs import (
    CLIENT_WINDOW,
    ID_WINDOW,
    AddProducer,
    Begin,
    Edit,
    Finish,
    Included,
    RemoveProducer,
    check_included,
)
from ordercast.model.errors import FrameError
from ordercast.model.features import LISTS
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import CLIENT_WINDOWS, CLIENTS, LIST_WINDOWS
from ordercast.model.messages import (
    CLIENT_BYTES,
    MARK_BITS,
    Batch,
    Key,
    Placed,
    Requests,
    is_client,
    once,
    stamp_in,
    ticket_of,
)
from support.models.once.clients import CLIENT_MUTANTS, ClientWorld, clients_of
from support.worlds.epochs import build

BEGIN = 1 << MARK_BITS
CAUGHT = {
    "RepeatsUnaccepted": 1, "RepeatsUnordered": 1, "KeepsTableWhenCut": 66,
    "LosesTableOnRestart": 2, "HandsNothing": 9, "HandsCurrentTable": 190, "DropsAtOrdering": 1,
    "ResolvesListAnew": 5, "HoldsRequests": 0, "ForgetsClients": 4, "TakesOldForCopy": 0,
    "TakesLaterForIt": 288, "ForgetsInTurn": 145, "StampsAnew": 12,
    "BoundsBySite": 8, "EvictsByClock": 17,
}  # fmt: skip


def asked(client: str, number: int, stamp: int = BEGIN) -> Requests:
    name, at = once(client.encode(), number, stamp)
    return Requests(name, ((at, 2),))


def batch(client: str, number: int, stamp: int = BEGIN) -> Batch:
    return Batch("a", 1, "g", number, 2, b"", requests=asked(client, number, stamp))


# --- the window -----------------------------------------------------------------------------------


def test_a_number_at_or_below_the_last_one_is_a_copy() -> None:
    window = ClientWindow()
    assert [window.keeps(asked("x", number)) for number in (1, 5, 5, 4, 6)] == [1, 1, 0, 0, 1]
    assert window.keeps(asked("y", 1)), "another client"
    assert window.knows(asked("x", 4))
    assert not window.knows(asked("x", 7))


def test_what_is_stamped_before_all_that_are_remembered_is_not_delivered() -> None:
    with clients_of(2):
        window = ClientWindow()
        assert window.keeps(asked("x", 1, BEGIN + 1))
        assert window.keeps(asked("y", 1, BEGIN + 4))
        assert window.keeps(asked("x", 2, BEGIN + 5))
        assert window.keeps(asked("z", 1, BEGIN + 5)), "y is forgotten: its value is the least"
        assert window.horizon == BEGIN + 6
        assert not window.keeps(asked("y", 1, BEGIN + 4)), "it was delivered"
        assert not window.knows(asked("y", 1, BEGIN + 4)), "but that is not known any more"
        assert not window.keeps(asked("y", 2, BEGIN + 5)), "nor what became of this"
        assert window.keeps(asked("y", 3, BEGIN + 6)), "this is new"


def test_a_busy_client_moves_no_marks_of_its_own_stamp() -> None:
    window = ClientWindow()
    for number in range(1, 100):
        assert window.keeps(asked("x", number, BEGIN + 7))
    assert window.last == BEGIN + 8


def test_a_new_window_knows_nothing_of_the_one_before() -> None:
    window = ClientWindow()
    assert window.keeps(asked("x", 9))
    again = 2 << MARK_BITS
    assert window.keeps(asked("y", 1, again))
    assert not window.keeps(asked("x", 10)), "it is of the window before"
    assert window.keeps(asked("x", 1, again))
    assert len(window.entries) == 2


def test_marks_make_the_same_window() -> None:
    with clients_of(3):
        window = ClientWindow()
        for step in range(40):
            window.keeps(asked("wxyz"[step * 7 % 4], step + 1, max(BEGIN, window.last - step % 2)))
            same = ClientWindow(window.marks())
            assert (same.entries, same.horizon) == (window.entries, window.horizon)


def test_the_marks_of_logs_that_are_beginnings_of_one_another_are_those_of_the_longest() -> None:
    with clients_of(3):
        log = [
            asked("stuvwxyz"[step * 5 % 8], step + 1, BEGIN + max(0, step - step * 7 % 3))
            for step in range(60)
        ]
        for cut in range(0, 60, 7):
            shorter, longer = ClientWindow(), ClientWindow()
            for place, one in enumerate(log):
                longer.keeps(one)
                if place < cut:
                    shorter.keeps(one)
            both = ClientWindow([*longer.marks(), *shorter.marks()])
            assert (both.entries, both.horizon) == (longer.entries, longer.horizon)


def test_many_clients_at_once_are_a_crowd() -> None:
    with clients_of(4):
        window = ClientWindow()
        for one in "abcd":
            assert not window.is_crowded()
            window.keeps(asked(one, 1, BEGIN + 5))
        assert window.is_crowded()
        for number, one in enumerate("abc", 6):
            window.keeps(asked(one, 2, BEGIN + number))
        assert not window.is_crowded()


def test_positions_of_a_log_go_on_from_its_clients() -> None:
    batches = batch("x", 1), batch("x", 1), batch("y", 1), batch("x", 2)
    log = [Placed(Key((0, n), "a"), n, one) for n, one in enumerate(batches, 1)]
    assert positions_in(log, ()) == [2, 0, 2, 2]
    marks = ProducerMarks()
    assert marks.keeps(batches[0])
    assert positions_in(log, marks.all()) == [0, 0, 2, 2]
    check_included(marks.all(), "marks")


def test_a_request_with_a_stamp_is_one_request_to_one_group() -> None:
    name, number = once(b"c" * CLIENT_BYTES, 7, BEGIN + 3)
    assert not is_client(name)
    assert (stamp_in(name, number), ticket_of(name, number)) == (BEGIN + 3, 1)
    for wrong in ((7, 1),), ((number, 1), (number + 1, 1)), ((BEGIN, 1),):
        with pytest.raises(FrameError):
            Requests(name, wrong).check_against(len(wrong))
    full, at = once(b"c" * CLIENT_BYTES, 7, (2 << MARK_BITS) - 1)
    with pytest.raises(FrameError, match="is no number with a stamp"):
        Requests(full, ((at, 1),)).check_against(1)
    Batch(
        "a", 1, implicit_group("a"), 1, 1, b"", members=("a",),
        requests=Requests(name, ((number, 1),)),
    ).check()  # fmt: skip


# --- the layout -----------------------------------------------------------------------------------


def layout(groups: int = 1) -> Layout:
    named = {f"g{n or ''}": ("a", "b") for n in range(groups)}
    return first_layout("ab", "a", named, "greedy", "propagation", build)


def changed(before: Layout, name: str, *edits: Edit, lasts: Included = ()) -> Layout:
    return fold(fold(before, Begin(name, edits, ""), build), Finish(name, lasts), build)


def told(clients: range, number: int) -> Included:
    marks = ProducerMarks()
    for client in clients:
        marks.keeps(batch(f"c{client}", number, BEGIN + client * number))
    return marks.all()


def test_a_layout_keeps_the_last_clients_of_each_group_once() -> None:
    there = changed(layout(), "c", AddProducer(CLIENT_WINDOW, "g"))
    full = changed(there, "d", AddProducer("p", "g"), lasts=told(range(CLIENTS), 1))
    assert len(marks_in(full.lasts, ["g"])) == CLIENTS
    later = told(range(1_000, CLIENTS + 5), 2)
    more = changed(full, "e", AddProducer("q", "g"), lasts=later)
    marks = marks_in(more.lasts, ["g"])
    assert len(marks) == CLIENTS
    assert set(later) <= set(marks)
    assert unpack_layout(pack_layout(more), build) == more
    again = changed(more, "f", RemoveProducer(CLIENT_WINDOW, "g"))
    assert again.producers == {("p", "g"): 2, ("q", "g"): 3}


def test_so_many_groups_remember_clients() -> None:
    wide = layout(CLIENT_WINDOWS + 1)
    full = changed(wide, "c", *(AddProducer(CLIENT_WINDOW, g) for g in list(wide.groups)[:-1]))
    assert full.outcomes == {"c": ""}
    after = changed(full, "d", AddProducer(CLIENT_WINDOW, list(wide.groups)[-1]))
    assert f"{CLIENT_WINDOWS} groups remember clients, which is the limit" in after.outcomes["d"]


def test_so_many_lists_remember_clients() -> None:
    names = [implicit_group([f"s{n}"]) for n in range(LIST_WINDOWS + 1)]
    known = replace(layout(), features=(LISTS,))
    full = changed(known, "c", *(AddProducer(CLIENT_WINDOW, name) for name in names[:-1]))
    assert full.outcomes == {"c": ""}
    assert unpack_layout(pack_layout(full), build) == full
    after = changed(full, "d", AddProducer(CLIENT_WINDOW, names[-1]))
    assert f"{LIST_WINDOWS} lists of sites remember clients" in after.outcomes["d"]
    for producer in ("p", ID_WINDOW):
        with pytest.raises(FrameError, match="is a list of sites, not a group"):
            AddProducer(producer, names[0]).check()
    refused = changed(layout(), "e", AddProducer(CLIENT_WINDOW, names[0]))
    assert "knows lists" in refused.outcomes["e"]
    gone = changed(full, "f", RemoveProducer(CLIENT_WINDOW, names[0]))
    assert len(gone.producers) == LIST_WINDOWS - 1


# --- the small model ------------------------------------------------------------------------------


@pytest.mark.parametrize("block", range(2))
def test_no_schedule_delivers_a_request_twice_or_out_of_order(block: int) -> None:
    for seed in range(block * 150, block * 150 + 150):
        assert ClientWorld(seed).run().wrong == [], f"seed {seed}"


@pytest.mark.parametrize("name", CAUGHT)
def test_a_window_that_is_kept_wrong_is_caught(name: str) -> None:
    mutant = next(one for one in CLIENT_MUTANTS if one.__name__ == name)
    assert ClientWorld(CAUGHT[name]).run().wrong == []
    assert mutant(CAUGHT[name]).run().wrong


def test_every_mutant_has_its_schedule() -> None:
    assert {one.__name__ for one in CLIENT_MUTANTS} == set(CAUGHT)
