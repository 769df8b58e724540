"""A site within one epoch: sealed by the Close, also after a restart from a checkpoint."""

from ordercast.core.engine import Engine
from ordercast.core.states import CLOSED
from ordercast.core.structure import Structure
from ordercast.forest.greedy import build_greedy
from ordercast.model.groups import GroupTable
from ordercast.model.options import Options
from support.worlds.alone import submit

TABLE = GroupTable.of({"g": ["a"]})
STRUCTURE = Structure(1, TABLE, build_greedy(TABLE))


def sealed() -> Engine:
    engine = Engine("a", STRUCTURE, Options(deliver="agreed"))
    submit(engine, 0, "g", [b"before"])
    engine.close(0, ("a",))
    engine.drain()
    return engine


def test_what_is_sent_after_the_close_is_accepted_and_not_placed() -> None:
    engine = sealed()
    assert engine.epoch_state is CLOSED
    assert submit(engine, 1, "g", [b"after"]) == 2
    box = engine.drain()
    assert [receipt.stage for receipt in box.receipts] == ["accepted"]
    assert box.deliver == ()
    assert [batch.seq for batch in engine.unplaced()] == [2]
    assert ("a", 1, "g", 1) in engine.ordering.placed_here()


def test_a_restart_from_any_checkpoint_is_sealed_again() -> None:
    whole = sealed().retention.whole()
    again = Engine("a", STRUCTURE, Options(deliver="agreed"), boot=2, checkpoint=whole)
    assert again.epoch_state is CLOSED


def test_the_close_is_placed_once() -> None:
    engine = sealed()
    engine.close(1, ("a",))
    assert list(engine.drain().persist) == []


def test_the_end_gives_both_receipts_to_what_is_final_and_not_known_to_be_placed() -> None:
    """A restarted origin may hear of the first, and is sealed before it asks about the second."""
    table = GroupTable.of({"g": ["a", "b"]})
    structure = Structure(1, table, build_greedy(table))
    other = "b" if structure.primary("g") == "a" else "a"
    engine = Engine(other, structure, Options())
    submit(engine, 0, "g", [b"x"])
    engine.own.stable("g", 1)
    engine.drain()
    engine.end({"g": 1})
    assert [receipt.stage for receipt in engine.drain().receipts] == ["ordered", "stable"]
    assert engine.own.unstable == 0
    assert engine.unplaced() == []
