"""The feeds of the Cluster page: a simulated run played again, at most one sample at a time."""

import asyncio
from itertools import pairwise

import pytest

from ordercast.cli.dashboard import parse_line
from ordercast.model.errors import ConfigError
from ordercast.model.messages import MessageId
from ordercast.net.client.overview import EpochPassage, Overview
from ordercast.sim.schedules import changing
from ordercast.web import cluster_view, planner
from ordercast.web.epoch_line import draw_epochs
from ordercast.web.feed import Sampler, TraceFeed
from ordercast.web.runs import Runs, run_config
from support.harness.loops import in_loop

LINE = """ordercast sim '{"groups":{"alpha":["a","b","c"],"beta":["c","d"]}}' --messages 400"""


def test_a_simulated_feed_has_the_positions_and_rates_of_its_run() -> None:
    trace, history = run_config(*parse_line(f"{LINE} --rate 1000"))
    feed = TraceFeed(trace)
    length = trace.end - trace.start
    last = {s: sum(r.site == s for r in history.deliveries) for s in trace.sites}
    end = feed.at(0.0, length - 1)
    assert {site: each.position for site, each in end.sites.items()} == last
    later = feed.at(0.0, 3 * length - 1)
    assert {site: each.position for site, each in later.sites.items()} == {
        site: 3 * count for site, count in last.items()
    }
    rates = [group.sent_rate or 0 for group in later.groups.values()]
    assert sum(rates) == pytest.approx(400 / (length / 1e9), rel=0.3)
    (epoch,) = later.epochs
    assert set(epoch.parents) == set("abcd")
    told = cluster_view.sample(later, Sampler(feed))
    assert {(parent, child) for parent, child, _, _ in told["edges"]} == {
        (above, site) for site, above in epoch.parents.items() if above is not None
    }
    assert all(rate > 0 for _, _, rate, _ in told["edges"])


def test_epochs_of_a_run_have_their_pauses() -> None:
    trace, _ = run_config(changing("propagation", 1), 1)
    view = TraceFeed(trace).at(0.0, trace.end - 1)
    pauses = [passage.pause_ms for passage in view.passages]
    assert len(pauses) == len(trace.epochs) > 2
    assert any(pause and pause > 1 for pause in pauses[1:])


class Counted:
    """A feed that counts how often it is asked, and how many ask at a time."""

    note = ""

    def __init__(self, view: Overview) -> None:
        self.view = view
        self.asked = self.now = self.most = 0

    async def look(self) -> Overview:
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        return self.view


@in_loop
async def test_nobody_is_asked_while_nobody_looks() -> None:
    trace, _ = run_config(*parse_line(LINE))
    feed = Counted(TraceFeed(trace).at(0.0, 5))
    sampler = Sampler(feed, every_s=0.01)
    running = asyncio.create_task(sampler.run())
    try:
        await asyncio.sleep(0.05)
        assert feed.asked == 0
        first, second = sampler.samples(), sampler.samples()
        for _ in range(3):
            assert await anext(first) is feed.view
            assert await anext(second) is feed.view
        await first.aclose()  # type: ignore[attr-defined]
        await second.aclose()  # type: ignore[attr-defined]
        asked = feed.asked
        assert asked >= 3
        assert feed.most == 1
        await asyncio.sleep(0.1)
        assert feed.asked <= asked + 1
    finally:
        running.cancel()


def test_marks_of_the_time_line_never_lie_on_each_other() -> None:
    passages = [EpochPassage(n, (), 1000 + n, 5.0, "x", "ring", ()) for n in range(1, 40)]
    svg = draw_epochs(passages, 700)
    xs = sorted(float(part.split('"')[0]) for part in svg.split('cx="')[1:])
    assert len(xs) > 5
    assert all(b - a > 60 for a, b in pairwise(xs))
    assert xs[0] >= 0
    assert xs[-1] <= 700


def test_old_runs_make_room_and_those_of_the_command_line_stay() -> None:
    trace, history = run_config(*parse_line(LINE))
    runs = Runs()
    kept = runs.add(trace, history, keep=True)
    numbers = [runs.add(trace, history) for _ in range(20)]
    assert runs.trace(kept) is trace
    assert runs.trace(numbers[-1]) is trace
    assert len(runs.listed()) == 13
    with pytest.raises(ConfigError, match="no run"):
        runs.history(numbers[0])


def test_groups_of_a_table_read_back() -> None:
    config, _ = parse_line(LINE)
    text = planner.as_toml(config.table)
    found = planner.plan_text(text, "delay")
    assert [one["builder"] for one in found["builders"]] == ["star", "greedy", "balanced"]
    assert sum(one["chosen"] for one in found["builders"]) == 1
    assert parse_line(found["sim"])[0].table.groups == config.table.groups
    assert MessageId("a", 1, "alpha", 1).group in found["sim"]
    large = "[groups]\n" + "".join(f'g{n} = ["s{n}"]\n' for n in range(2001))
    with pytest.raises(ConfigError, match="too many"):
        planner.plan_text(large, "delay")
