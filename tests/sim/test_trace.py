"""A trace shows its run, changes nothing in it, and other programs read it."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from ordercast.cli import main
from ordercast.history.rows import OPEN
from ordercast.model.messages import MessageId
from ordercast.plan.svg import tag, title, words
from ordercast.sim.config import SimConfig
from ordercast.sim.result import SimResult
from ordercast.sim.schedules import changing, excluding, schedule
from ordercast.sim.simulate import simulate
from ordercast.sim.trace.assembly import trace_of_history, trace_of_run
from ordercast.sim.trace.exports import perfetto, shiviz, telling_window
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.sim.trace.space_time import TraceView, draw_trace, message_key, parse_message
from ordercast.sim.trace.trace import DATA, DELIVER, Trace
from support.cases.schedules import failures, leave_picture

SVG = "{http://www.w3.org/2000/svg}"
TABLE = '{"groups": {"alpha": ["a", "b"], "beta": ["b", "c"]}}'


def traced(config: SimConfig, seed: int) -> tuple[SimResult, Trace]:
    log = FrameLog()
    result = simulate(config, seed, log=log)
    return result, trace_of_run(result, log)


@pytest.mark.parametrize("draw", [schedule, changing, excluding])
def test_a_trace_changes_nothing_in_the_run(draw: Callable[[str, int], SimConfig]) -> None:
    for seed in (1, 2):
        config = draw("propagation", seed)
        plain, (followed, _) = simulate(config, seed), traced(config, seed)
        assert (plain.history_hash, plain.events) == (followed.history_hash, followed.events)


def test_a_trace_of_ways_to_many_changes_nothing_either() -> None:
    for way in ("tree", "multicast"):
        config = replace(schedule("propagation", 3), dissemination=way)
        plain, (followed, trace) = simulate(config, 3), traced(config, 3)
        assert plain.history_hash == followed.history_hash
        assert any(arrow.kind == DATA for arrow in trace.arrows)


def test_the_journey_of_a_message_is_that_of_the_history() -> None:
    result, trace = traced(excluding("propagation", 1), 1)
    message = result.history.sent[3].id
    marks, arrows = trace.journey(message)
    shown = {(m.site, m.position, m.at) for m in marks if m.kind == DELIVER}
    rows = [row for row in result.history.deliveries if row.id == message]
    assert shown == {(row.site, row.position, row.delivered_ns) for row in rows}
    assert rows
    assert arrows
    assert all(message in arrow.messages() for arrow in arrows)
    reached = {arrow.peer for arrow in arrows} | {message.origin}
    assert {row.site for row in rows} <= reached


def test_the_state_at_a_time_is_what_had_happened_by_then() -> None:
    result, trace = traced(excluding("propagation", 3), 3)
    crash = next(event for event in result.history.events if event.kind == "crash")
    for at in (trace.start, crash.at_ns, trace.end // 2, trace.end):
        states = {state.site: state for state in trace.states(at)}
        rows = [row for row in result.history.deliveries if row.delivered_ns <= at]
        for site, state in states.items():
            if not any(e.kind == "rollback" and e.site == site for e in result.history.events):
                positions = [row.position for row in rows if row.site == site]
                assert state.position == max(positions, default=0), (site, at)
    assert {s.site: s.state for s in trace.states(crash.at_ns)}[crash.site] == "down"


def test_close_and_open_and_the_forest_of_each_epoch_are_in_a_trace() -> None:
    result, trace = traced(changing("propagation", 1), 1)
    closed = {mark.epoch for mark in trace.marks if mark.kind == "close"}
    opened = {event.epoch for event in result.history.events if event.kind == OPEN}
    assert len(closed) > 1
    assert opened <= {shape.epoch for shape in trace.epochs}
    last = trace.epochs_at(trace.end)
    sites = [site for shape in last for site in shape.parent]
    assert sorted(sites) == sorted(set(sites))
    assert all(shape.primary for shape in last)


def test_frames_that_faults_kill_do_not_arrive() -> None:
    result, trace = traced(schedule("propagation", 2), 2)
    lost = sum(arrow.arrives < 0 for arrow in trace.arrows)
    assert lost > 0
    assert result.faults.get("loss", 0) + result.faults.get("blocked", 0) > 0
    assert any(span.kind == "partition" and span.others for span in trace.spans)


def test_vector_clocks_of_the_shiviz_log_follow_the_frames() -> None:
    _, trace = traced(changing("propagation", 2), 2)
    lines = list(shiviz(trace))
    assert len(lines) % 2 == 0
    before: dict[str, dict[str, int]] = {}
    sends: dict[tuple[str, str, str], list[dict[str, int]]] = {}
    received = 0
    for head, told in zip(lines[::2], lines[1::2], strict=True):
        site, _, text = head.partition(" ")
        clock = json.loads(text)
        last = before.get(site, {})
        assert clock[site] == last.get(site, 0) + 1
        assert all(clock[other] >= count for other, count in last.items())
        before[site] = clock
        found = re.match(r"(to|from) (\w+): (.*) \(", told)
        if found and found[1] == "to":
            sends.setdefault((site, found[2], found[3]), []).append(clock)
        elif found:
            received += 1
            candidates = sends[found[2], site, found[3]]
            assert any(all(clock[o] >= n for o, n in sent.items()) for sent in candidates)
    assert received > 20


def test_every_flow_of_the_perfetto_json_has_both_its_ends() -> None:
    _, trace = traced(schedule("propagation", 2), 2)
    events = json.loads(perfetto(trace))["traceEvents"]
    begins = {event["id"] for event in events if event["ph"] == "s"}
    ends = {event["id"] for event in events if event["ph"] == "f"}
    arrived = sum(arrow.arrives >= 0 for arrow in trace.arrows)
    assert begins == ends
    assert len(begins) == arrived
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert names == set(trace.sites)


def test_a_picture_has_a_line_for_each_site_and_says_when_it_samples() -> None:
    _, trace = traced(changing("propagation", 1), 1)
    whole = TraceView(trace.start, trace.end)
    drawn = draw_trace(trace, whole)
    root = ElementTree.fromstring(drawn.svg)
    lives = [e for e in root.iter(f"{SVG}path") if e.get("class") == "st-life"]
    assert len(lives) == len(trace.sites)
    few = draw_trace(trace, whole._replace(most=10))
    assert few.shown == 10 < few.found == drawn.found
    assert f"10 of {few.found:,} arrows are drawn" in few.svg


def test_a_followed_message_is_never_sampled_away() -> None:
    result, trace = traced(schedule("propagation", 2), 2)
    message = result.history.sent[0].id
    view = TraceView(trace.start, trace.end, most=3, follow=message)
    root = ElementTree.fromstring(draw_trace(trace, view).svg)
    named = [e for e in root.iter(f"{SVG}path") if "followed" in e.get("class", "").split()]
    arrows = [a for a in trace.journey(message)[1] if a.words() and a.kind == DATA]
    assert len([e for e in named if "st-arrow" in e.get("class", "")]) >= len(arrows) > 0


def test_an_arrow_speaks_if_it_has_words() -> None:
    for draw in (schedule, changing):
        _, trace = traced(draw("propagation", 2), 2)
        assert [a.speaks() for a in trace.arrows] == [bool(a.words()) for a in trace.arrows]
        assert {a.speaks() for a in trace.arrows} == {True, False}


def test_a_message_in_an_address_reads_back() -> None:
    message = MessageId("a", 2, "@0123456789abcdef", 7)
    assert parse_message(message_key(message)) == message
    assert parse_message("a/x/g/1") is None
    assert parse_message("a/1/g") is None


def test_what_stands_in_a_picture_is_escaped() -> None:
    nasty = "<script>alert('x')</script>\"&"
    for text in (words(nasty, 1, 2), title(nasty), tag("g", data_site=nasty)):
        found = ElementTree.fromstring(text)
        assert not list(found)
        assert nasty in (found.text, found.get("data-site"))


def test_a_history_alone_is_a_trace_too() -> None:
    result, _ = traced(schedule("propagation", 2), 2)
    trace = trace_of_history(result.history, "kept")
    rows = [row for row in result.history.deliveries if row.site != row.origin]
    assert len(trace.arrows) == len(rows)
    assert trace.states(trace.end)[0].position > 0


def test_the_verb_writes_all_three_or_the_one_that_is_asked_for(tmp_path: Path) -> None:
    assert main(["sim", TABLE, "--messages", "10", "--trace", str(tmp_path / "run")]) == 0
    assert sorted(f.name for f in tmp_path.iterdir()) == ["run.json", "run.log", "run.svg"]
    assert main(["sim", TABLE, "--messages", "10", "--trace", str(tmp_path / "one.svg")]) == 0
    assert (tmp_path / "one.svg").exists()
    assert not (tmp_path / "one.svg.json").exists()


def test_a_trace_that_cannot_be_written_is_told_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", TABLE, "--trace", str(tmp_path / "none" / "run")]) == 2
    assert "--trace" in capsys.readouterr().err


def test_a_failed_run_leaves_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sim", TABLE, "--messages", "100", "--most-events", "50", "--seed", "4"]) == 1
    (file,) = tmp_path.glob("failed-propagation-4-*.svg")
    assert file.name in capsys.readouterr().out
    ElementTree.parse(file)


def test_a_failed_schedule_of_the_tests_leaves_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def storm(protocol: str, seed: int) -> SimConfig:
        return replace(schedule(protocol, seed), most_events=30)

    monkeypatch.setattr("support.cases.schedules.leave_picture.__defaults__", (tmp_path,))
    (line,) = failures("propagation", range(5, 6), storm)
    assert f"picture: {tmp_path / 'propagation-5.svg'}" in line
    ElementTree.parse(leave_picture(storm("propagation", 5), 5))


def test_the_picture_of_a_failure_shows_when_it_happened() -> None:
    config = replace(schedule("propagation", 2), most_events=300)
    result, trace = traced(config, 2)
    at = result.violations[0].witness["at_ns"]
    view = telling_window(trace)
    assert view.start <= at <= view.stop
