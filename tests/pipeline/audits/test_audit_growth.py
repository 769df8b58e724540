"""What grows with a history, and what must not: the rows around cuts, what the driver is told, what
every task brings along."""

import pickle

import numpy as np
import pytest

from ordercast.history.rows import END, Delivered, EpochRow, Event, GroupRow, History, Sent
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits import numbers
from ordercast.pipeline.audits.cuts import (
    close,
    place_sections,
    plan_sections,
    settle,
    share,
    windows,
)
from ordercast.pipeline.audits.evidence import Evidence, encode
from ordercast.pipeline.audits.glossary import Contents, number_names, split_small, translation
from ordercast.pipeline.audits.numbers import Columns, Ints, id_of
from ordercast.pipeline.audits.tasks import JudgingTask
from support.judges.parts import Loop, audit_in_loop, cuts_after, gathered

SITES, MEMBERS, PER_PART, EVERY = 12, 3, 2_000, 8


def delivered(messages: int) -> Columns:
    """Messages in one order everywhere, each to some sites: rows by site and position."""
    rng = np.random.default_rng(7)
    site = rng.permuted(np.tile(np.arange(SITES), (messages, 1)), axis=1)[:, :MEMBERS].ravel()
    message = np.repeat(np.arange(messages), MEMBERS)
    order = np.lexsort((message, site))
    site, message = site[order], message[order]
    position = np.arange(len(site)) - np.searchsorted(site, site) + 1
    return {"site": site, "position": position, "message": message}


def taken(columns: Columns, rows: Ints) -> Columns:
    return {name: column[rows] for name, column in columns.items()}


def search(messages: int, size: int) -> tuple[int, int, Ints]:
    """Parts, rows around cuts, and how many messages cross each cut; sections of so many parts."""
    columns, sites_run = delivered(messages), np.zeros(SITES, np.int64)
    shares = share([len(columns["site"])], sites_run, PER_PART)
    sample = taken(columns, np.flatnonzero(columns["message"] % EVERY == 0))
    sections = plan_sections(shares, sites_run, size)
    if sections.count.max() > 1:
        thin = taken(sample, np.flatnonzero(sample["message"] % (8 * EVERY) == 0))
        sections = place_sections(sections, thin, sites_run)
    divided = sections.divide(sample)
    guesses = []
    for section in np.unique(divided["section"]).tolist():
        own = taken(divided, np.flatnonzero(divided["section"] == section))
        order = np.lexsort((own["position"], own["site"]))
        guesses.append(sections.guess(taken(own, order), section))
    looked = windows(shares, guesses)
    near = looked.around(columns)
    closed = looked.guess.copy()
    for cut in np.unique(near["cut"]).tolist():
        closed[:, cut] = close(taken(near, np.flatnonzero(near["cut"] == cut)), looked, cut)
    cuts = settle(shares, looked, closed)
    part = cuts.part_of(columns["site"], columns["position"])
    low, high = np.full(messages, cuts.parts), np.zeros(messages, np.int64)
    np.minimum.at(low, columns["message"], part)
    np.maximum.at(high, columns["message"], part)
    assert np.bincount(part).max() < 2 * PER_PART
    return cuts.parts, len(near["cut"]), high - low


@pytest.mark.parametrize("size", [32, 8])
def test_the_rows_around_cuts_grow_as_the_history_does(size: int) -> None:
    few, around, crossing = search(20_000, size)
    assert not crossing.any()
    more, all_around, crossing = search(80_000, size)
    assert not crossing.any()
    assert (few, more) == (30, 120)
    assert all_around / around <= 1.1 * more / few


def many_streams(rounds: int, streams: int = 300) -> History:
    """Every round each stream has a message, delivered by both members."""
    history = History(groups=[GroupRow(1, "g", site) for site in "ab"])
    history.epochs = [EpochRow(1, "d", "safe", "exclude", "none", "start", 0)]
    position = 0
    for seq in range(1, rounds + 1):
        for stream in range(streams):
            position += 1
            history.sent.append(Sent(f"o{stream}", 1, "g", seq, 0, 0, position, 1))
            for site in "ab":
                own = (1, 1, "g", f"o{stream}", 1, seq, position)
                history.deliveries.append(Delivered(site, position, *own))
    history.events = [Event(site, 1, END, position, 1, 1, 0) for site in "ab"]
    return history


def told_to_driver(rounds: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Bytes, where every round is a part."""
    sizes: list[int] = []
    run = Loop.run

    def watched(loop: Loop, task: JudgingTask) -> list[Evidence]:
        found = run(loop, task)
        sizes.append(sum(len(encode(evidence)) for evidence in found))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "run", watched)
        cuts = cuts_after([[300 * cut for cut in range(1, rounds)]] * 302)  # an origin is a site
        assert audit_in_loop(many_streams(rounds), where=cuts, causal=True).report["ok"]
    assert len(sizes) == 1
    return sizes[0]


def test_the_driver_is_told_no_stream_of_any_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """What each part adds is its own few numbers, not one for each of the 300 streams in it."""
    added = told_to_driver(8, monkeypatch) - told_to_driver(4, monkeypatch)
    assert added < 4 * 8 * 300


def test_a_task_brings_the_streams_along_once_however_many_rows_there_are() -> None:
    sizes = []
    for rounds, batches in ((2, 1), (8, 9)):
        history = many_streams(rounds, streams=1_000)
        rows = gathered(history, 2, batches)
        contents = Contents(rows.glossaries())
        named = number_names(
            split_small(history.groups, [], history.epochs, contents.runs), contents
        )
        legend = translation(named, contents)
        sizes.append(len(pickle.dumps(legend)) / 1_000)
        again = pickle.loads(pickle.dumps(legend))
        for name, column in vars(named.arrays).items():
            assert (getattr(again.streams, name) == column).all()
    assert sizes[1] < 1.1 * sizes[0] < 45


def test_an_id_is_made_of_the_names_alone_and_stays_for_ever() -> None:
    assert id_of(None, "sales", "ada", 1) == 4128593795120968606
    assert id_of("r1", "ada") == -6595828342554795514
    history = many_streams(2, streams=5)
    contents = Contents(gathered(history, 2, 3).glossaries())
    named = zip(*(contents.streams.column(c).to_pylist() for c in numbers.STREAM), strict=True)
    assert [id_of(*name) for name in named] == contents.streams.column("id").to_pylist()


@pytest.mark.parametrize("batches", [1, 200])
def test_two_streams_with_one_id_are_refused(batches: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one batch, or in batches of their own."""
    monkeypatch.setattr(numbers, "name_hash", lambda _: 1)
    with pytest.raises(ConfigError, match="have the same id: rename one"):
        audit_in_loop(many_streams(1, streams=100), batches=batches)
