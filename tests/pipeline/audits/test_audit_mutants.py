"""The audit broken on purpose: each mutant must judge some fuzzed history otherwise than memory.

A mutant is the source of a module with one piece of text exchanged, put in the place of the real
one everywhere in the room.
"""

import importlib
import random
import sys
from collections.abc import Iterator

import pytest

import ordercast.pipeline.audits as room
from ordercast.check.report import check_history
from ordercast.history.rows import Delivered, GroupRow, History, Sent
from support.cases.faults import any_history
from support.cases.fuzz import named, together
from support.cases.known import DATA, known_cases
from support.judges import parts
from support.mutants.sources import SourceMutant, plant

SPARK_ONLY = ("face", "frames", "spark_work")  # nothing of them runs here
HISTORIES = 250


MUTANTS = (
    SourceMutant(
        "steps",
        "messages that cross cuts are left to the parts",
        "if len(crossing.part):",
        "if False:",
    ),
    SourceMutant(
        "steps",
        "nothing is carried over a border",
        "if carries := borders.carries(total):",
        "if carries := {}:",
    ),
    SourceMutant(
        "steps",
        "causal order is judged in parts that do not allow it",
        "*causal.ranges_to_merge(total), *_crossed(total)",
        "",
    ),
    SourceMutant(
        "steps",
        "crossing messages do not matter to causal order",
        "*causal.ranges_to_merge(total), *_crossed(total)",
        "*causal.ranges_to_merge(total)",
    ),
    SourceMutant(
        "steps",
        "what nobody looked at is let go",
        'if len(total.table("open", 1)[0]) or len(total.table("open_lost", 1)[0]):',
        "if False:",
    ),
    SourceMutant("steps", "crossing messages are not counted", "if len(tangled):", "if False:"),
    SourceMutant(
        "borders",
        "positions are not compared over borders",
        "new[1:] = low[1:] > values[reached[:-1]] + 1",
        "new[1:] = False",
    ),
    SourceMutant(
        "borders",
        "a part is carried only its predecessor's highest",
        "highest = np.maximum.accumulate(np.where(is_highest, np.arange(len(key)), 0))",
        "highest = np.arange(len(key))",
    ),
    SourceMutant(
        "borders",
        "the borders of one family are folded in several places",
        "bucket = mix(arrays[0].view(np.uint64)) % np.uint64(buckets)",
        "bucket = np.arange(len(arrays[0])).view(np.uint64) % np.uint64(buckets)",
    ),
    SourceMutant(
        "borders", "an exit is not the next entry", "nodes(target, 1)", "nodes(target, 0)"
    ),
    SourceMutant(
        "by_part",
        "a tangle is not entered from the part before",
        "[target, node[heads[by_entry]], exit_hub,",
        "[target, entry_hub, exit_hub,",
    ),
    SourceMutant(
        "by_part",
        "a tangle does not go on into the next part",
        "[source, entry_hub, node[tails[by_exit]],",
        "[source, entry_hub, exit_hub,",
    ),
    SourceMutant(
        "by_part",
        "crossing messages are not compared with those of other parts",
        "if crossing is not None:\n        here",
        "if False:\n        here",
    ),
    SourceMutant(
        "by_part",
        "gaps explain every hole",
        "np.flatnonzero(np.concatenate(([True], ~same | (position[1:] > position[:-1] + 1))))",
        "np.flatnonzero(np.concatenate(([True], ~same)))",
    ),
    SourceMutant(
        "rows",
        "delivered_ns says which delivery was first",
        '"ns", "epoch", "attempt", "position", "key"',
        '"epoch", "attempt", "position", "ns", "key"',
    ),
    SourceMutant(
        "rows", "what was rolled back counts", "attempts[own] < attempt", "attempts[own] < 0"
    ),
    SourceMutant(
        "rows",
        "rows of a cut-off site count for the order",
        "found[own] = np.isin(epochs[own], facts.unagreed[site])",
        "pass",
    ),
    SourceMutant(
        "by_message",
        "everything in doubt is excused",
        "excused |= below",
        "excused |= below | open_",
    ),
    SourceMutant(
        "by_message",
        "a base covers its own epoch",
        "below |= own & (missing.epoch < epoch)",
        "below |= own & (missing.epoch <= epoch)",
    ),
    SourceMutant(
        "by_message",
        "a base covers what is shown to be above it",
        "hits = there & first.before(deliveries.place.take(found))",
        "hits = there & False",
    ),
    SourceMutant(
        "by_message",
        "a base covers later epochs",
        "rows = rows[missing.epoch[rows] <= known.first_epoch[base]]",
        "pass",
    ),
    SourceMutant(
        "by_message",
        "going on in the group obliges nobody",
        "hits = there & deliveries.place.take(found).before(last)",
        "hits = there & False",
    ),
    SourceMutant(
        "by_message",
        "anybody's gap hides a loss from those that stayed",
        "if not may_lack or s in end.always",
        "if not may_lack",
    ),
    SourceMutant(
        "survey",
        "only the first common message counts",
        '_tell(evidence, "last_common", last_places(',
        '_tell(evidence, "last_common", first_places(',
    ),
    SourceMutant(
        "survey",
        "a base forgets what lies above",
        "if not known or message < self.lowest[at]:",
        "if not known:",
    ),
    SourceMutant(
        "causal",
        "sends may be out of order",
        "found = [*_out_of_order(part, key, np.stack(times[:4], 1), np.stack(times[4:], 1))]",
        "found = []",
    ),
    SourceMutant(
        "causal",
        "a send may know of later parts",
        'yield from zip(*(column.tolist() for column in total.table("knew", 2)), strict=True)',
        "pass",
    ),
    SourceMutant(
        "glossary",
        "the same message may be in two shares",
        "return mix(hashes[stream] + seq.astype(np.uint64))",
        "return np.arange(len(seq)).astype(np.uint64)",
    ),
    SourceMutant(
        "requests",
        "requests of what was rolled back count",
        'rows = rows[(columns["kind"][rows] != DELIVERED) | is_live(facts, *place)]',
        "pass",
    ),
    SourceMutant(
        "requests",
        "requests of sends do not count",
        '(columns["kind"][rows] != DELIVERED) | is_live(facts, *place)',
        '(columns["kind"][rows] == DELIVERED) & is_live(facts, *place)',
    ),
    SourceMutant(
        "requests",
        "a request may be in two shares",
        'mixed = (hashes[own["client"]] + own["request"].astype(np.uint64)) * _MIX',
        'mixed = own["message"].astype(np.uint64) * _MIX',
    ),
    SourceMutant(
        "requests",
        "requests of all runs are compared",
        'own["run"] = streams.run[streams.of(own["message"])]',
        'own["run"] = np.zeros(len(own["message"]), np.int64)',
    ),
    SourceMutant(
        "requests",
        "the parts of a request are one",
        'by = ("run", *REQUEST)',
        'by = ("run", *REQUEST[:2])',
    ),
    SourceMutant(
        "requests",
        "every piece numbers its clients anew",
        "number = self._known.setdefault(name, len(self.names))",
        "number = len(self.names)",
    ),
    SourceMutant(
        "numbers",
        "incarnations are not in order",
        "order = np.lexsort((incarnation, origin, group, run))",
        "order = np.lexsort((-incarnation, origin, group, run))",
    ),
)


def one_site(*messages: tuple[str, int]) -> History:
    """One site, in two groups, delivers these; an origin sent to `g` first, then to `h`."""
    history = History(groups=[GroupRow(1, group, "a") for group in "gh"])
    for group, seqs in (("g", range(1, 6)), ("h", range(1, 6))):
        for seq in seqs:
            time = len(history.sent)
            history.sent.append(Sent("o", 1, group, seq, 0, 0, time, 1))
    for position, (group, seq) in enumerate(messages, 1):
        history.deliveries.append(Delivered("a", position, 1, 1, group, "o", 1, seq, 0))
    return history


CRAFTED = (
    (one_site(("g", 5), ("g", 1), ("g", 3)), (1, 2)),  # what is highest stays so over two borders
    (one_site(("h", 1), ("g", 1)), (1,)),  # sent later, delivered in an earlier part
)
KNOWN = [case.history for path in sorted(DATA.glob("*.txt")) for case in known_cases(path.stem)]


def judges() -> Iterator[bool]:
    """Whether the audit agrees with memory, history by history."""
    for seed in range(60):
        yield agrees(any_history(seed), random.Random(seed))
    for history, after in CRAFTED:
        yield agrees(history, random.Random(1), after)
    for history in KNOWN:
        yield agrees(history, random.Random(1))
    yield agrees(
        together(named(any_history(seed), f"r{seed}") for seed in range(9)), random.Random(1)
    )
    for seed in range(60, HISTORIES):
        yield agrees(any_history(seed), random.Random(seed))


def agrees(history: History, rng: random.Random, after: tuple[int, ...] = ()) -> bool:
    expected = check_history(history, causal=True).as_json()
    try:
        cuts, shares = rng.choice((0, 2, 3)), rng.choice((1, 2))
        audited = parts.audit_in_loop(history, cuts=cuts, shares=shares, rng=rng, after=after)
    except Exception:  # a mutant that falls over is found out too
        return False
    found = audited.report
    return all(found[key] == expected[key] for key in ("checks", "informative", "messages"))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.module}: {m.breaks}")
def test_a_broken_audit_is_found_out(mutant: SourceMutant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(mutant, room, monkeypatch, left_out=SPARK_ONLY, also=[parts])
    name = f"{room.__name__}.steps"
    steps = sys.modules.get(f"{name}_mutant") or importlib.import_module(name)
    monkeypatch.setattr(steps, "MOST_OVER", 1_000_000)
    assert not all(judges())


def test_the_audit_itself_is_not_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module(f"{room.__name__}.steps"), "MOST_OVER", 1_000_000)
    assert all(judges())
