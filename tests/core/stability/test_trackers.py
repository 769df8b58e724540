"""The trackers by rounds in sites that talk to each other: small cases, each with its reason."""

from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest

from ordercast.core.engine import Engine
from ordercast.core.observation import holders
from ordercast.core.stability.by_rounds import ByRounds
from ordercast.core.stability.paths import BRANCHING, MOST_CHILDREN, paths_of
from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, NEVER, SECOND, Options
from ordercast.plan.advice import advise
from support.judges.stability_truth import BY_ROUNDS
from support.worlds.alone import submit

GROUPS = {"all": ["a", "b", "c", "d", "e"], "low": ["d", "e"], "lone": ["c"]}
DELAY = MILLISECOND // 10


class Sites:
    """Sites on a quick network with disks that never wait; those in `deaf` hear nothing."""

    def __init__(self, tracker: str, deliver: str = "safe", builder: str = "greedy") -> None:
        table = GroupTable.of(GROUPS)
        self.structure = Structure(1, table, advise(table, builder).forest)
        options = Options(stability=tracker, deliver=deliver, on_failure="wait")
        self.sites = {name: Engine(name, self.structure, options) for name in table.sites}
        self.deaf: set[str] = set()
        self.now = 0
        self.frames = 0
        self.receipts: list[tuple[str, str]] = []
        self.delivered: dict[str, int] = dict.fromkeys(table.sites, 0)
        self._heap: list[tuple[int, int, str, Any]] = []
        self._tick = count().__next__
        for name, site in self.sites.items():
            site.start(0)
            self._drain(name)

    @property
    def root(self) -> str:
        (root,) = (s for s, above in self.structure.forest.parent.items() if above is None)
        return root

    def tracker(self, name: str) -> ByRounds:
        found = self.sites[name].stability
        assert isinstance(found, ByRounds)
        return found

    def send(self, name: str, group: str) -> None:
        submit(self.sites[name], self.now, group, [b"x"])
        self._drain(name)

    def call(self, name: str, method: str, **given: Any) -> None:
        getattr(self.sites[name], method)(self.now, **given)
        self._drain(name)

    def run(self, for_ns: int) -> None:
        end = self.now + for_ns
        while self._heap and self._heap[0][0] <= end:
            self.now, _, name, what = heappop(self._heap)
            if what is None:
                self.sites[name].alarm(self.now)
            elif name in self.deaf:
                continue
            else:
                self.sites[name].receive(self.now, *what)
            self._drain(name)
        self.now = end

    def _drain(self, name: str) -> None:
        box = self.sites[name].drain()
        for peer, frame in (*box.send, *box.then_send):
            self.frames += 1
            heappush(self._heap, (self.now + DELAY, self._tick(), peer, (name, frame)))
        if box.epochs_alarm < NEVER:
            at = max(box.epochs_alarm, self.now + 1)
            heappush(self._heap, (at, self._tick(), name, None))
        self.delivered[name] += sum(d.placed.batch.count for d in box.deliver)
        self.receipts += [(receipt.stage, receipt.group) for receipt in box.receipts]


@pytest.mark.parametrize("deliver", ["safe", "agreed"])
@pytest.mark.parametrize("tracker", BY_ROUNDS)
def test_a_lone_message_becomes_stable_though_the_root_is_silent(
    tracker: str, deliver: str
) -> None:
    sites = Sites(tracker, deliver)
    assert sites.root not in GROUPS["low"]
    sites.send("e", "low")
    sites.run(SECOND)
    assert ("stable", "low") in sites.receipts
    assert [sites.delivered[name] for name in "de"] == [1, 1]
    for name, site in sites.sites.items():
        assert site.quiet(), name
        assert site.retention.held() == 0
        assert site.stability.progress().unstable == 0
    before = sites.frames
    sites.run(60 * SECOND)
    assert sites.frames == before  # nothing is left to do, and nobody does anything


@pytest.mark.parametrize("tracker", BY_ROUNDS)
def test_a_group_of_one_does_not_wait_for_a_round(tracker: str) -> None:
    sites = Sites(tracker)
    sites.deaf.update("abde")
    sites.send("c", "lone")
    sites.run(MILLISECOND)
    assert sites.delivered["c"] == (1 if sites.structure.primary("lone") == "c" else 0)


@pytest.mark.parametrize("tracker", BY_ROUNDS)
def test_a_round_waits_for_a_silent_site_and_everyone_can_name_it(tracker: str) -> None:
    """It is a leaf that sends to nobody: only those it has to answer could know."""
    sites = Sites(tracker)
    sites.deaf.add("e")
    sites.send("b", "all")
    sites.run(2 * SECOND)
    assert set(sites.delivered.values()) == {0}
    for name in "abcd":
        assert sites.tracker(name).stable("all") == 0
        assert sites.tracker(name).progress().waits_for == ("e",)
        assert sites.tracker(name).behind("all") == ["e"]
    assert holders(sites.sites["b"]) == ["e"]
    sites.deaf.clear()
    sites.run(10 * SECOND)
    assert set(sites.delivered.values()) == {1}
    assert all(site.quiet() for site in sites.sites.values())
    assert sites.tracker("a").progress().waits_for == ()


@pytest.mark.parametrize("tracker", BY_ROUNDS)
def test_a_round_is_about_groups_of_which_a_member_has_logged_something(tracker: str) -> None:
    """An epoch of very many groups does not begin with a round about all of them."""
    sites = Sites(tracker)
    sites.send("e", "low")
    sites.run(SECOND)
    assert ("stable", "low") in sites.receipts
    for name in sites.sites:
        assert list(sites.tracker(name).seat.answer) == (["low"] if name in "de" else [])


@pytest.mark.parametrize("tracker", BY_ROUNDS)
def test_who_had_nothing_in_a_round_asks_for_the_next_as_soon_as_it_has(tracker: str) -> None:
    sites = Sites(tracker)
    lagging = next(name for name in "edcba" if name != sites.structure.primary("all"))
    sites.call(lagging, "hold", held=True)
    sites.send("b", "all")
    sites.run(3 * MILLISECOND)  # one round has ended
    assert sites.tracker("b").stable("all") == 0
    sites.call(lagging, "hold", held=False)
    sites.run(5 * MILLISECOND)
    assert sites.tracker("b").stable("all") == 1


@pytest.mark.parametrize("tracker", BY_ROUNDS)
def test_a_site_that_answers_and_lags_is_named_and_keeps_nobody_busy(tracker: str) -> None:
    sites = Sites(tracker, "agreed")
    sites.call("d", "hold", held=True)
    sites.send("b", "all")
    sites.run(5 * SECOND)
    assert sites.tracker("b").stable("all") == 0
    assert sites.tracker("b").behind("all") == ["d"]
    rounds = sites.tracker("b").rounds
    sites.run(20 * SECOND)
    assert rounds < sites.tracker("b").rounds < rounds + 20
    sites.call("d", "hold", held=False)
    sites.run(SECOND)
    assert sites.tracker("b").final("all") == 1


@pytest.mark.parametrize("tracker", BY_ROUNDS)
def test_what_is_measured_is_told(tracker: str) -> None:
    sites = Sites(tracker)
    for _ in range(50):
        sites.send("b", "all")
        sites.run(MILLISECOND)
    sites.run(SECOND)
    progress = sites.tracker("b").progress()
    assert progress.rounds > 1
    assert 0 < progress.round_ns < 100 * MILLISECOND
    assert 0 < progress.to_final_ns <= progress.slowest_to_final_ns < 200 * MILLISECOND
    assert 1 <= progress.limit <= 10_000


def test_the_structured_ones_run_on_the_forest_unless_that_is_too_wide_or_too_deep() -> None:
    names = [f"s{number:02}" for number in range(MOST_CHILDREN + 3)]
    for builder, count_of_children in (("star", BRANCHING), ("balanced", 0)):
        table = GroupTable.of({"all": names})
        structure = Structure(1, table, advise(table, builder).forest)
        layout = paths_of(names[0], structure, structured=True)
        assert sorted(layout.ring) == names
        if count_of_children:
            assert max(map(len, layout.children.values())) == count_of_children
            flat = paths_of(names[0], structure, structured=False)
            assert len(flat.children[flat.first]) == len(names) - 1
        else:
            assert {s: list(c) for s, c in layout.children.items()} == structure.children
        assert paths_of(names[5], structure, structured=True) is layout  # made once
