"""Progress on a terminal leaves nothing behind; results of a sweep fit on a screen."""

import io
import sys

import pytest

from ordercast.cli.progress_line import ProgressLine
from ordercast.cli.screen import Screen
from ordercast.cli.sweep_table import result_lines
from ordercast.pipeline.progress import above_progress, line, saying
from ordercast.pipeline.sweeps.results import ResultRow, Results


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_in_place_is_wiped_at_the_end_and_before_what_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "20")
    with ProgressLine(60.0) as lines:
        lines.show("one of very many words")
        lines.note("done")
        lines.show("two")
    assert terminal.getvalue() == "\r\x1b[Kone of very many wo\r\x1b[Kdone\n\r\x1b[Ktwo\r\x1b[K"


def test_without_a_terminal_there_are_lines_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with ProgressLine(0.0) as lines:
        lines.show("only in place")
        lines.tell(lambda: "one")
    with ProgressLine(60.0) as lines:
        lines.tell(lambda: "too early")
    assert file.getvalue() == "one\n"


def test_a_screen_is_drawn_again_in_place_and_its_last_text_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with Screen() as screen:
        screen.draw("one")
        screen.draw("two\nlines")
    told = terminal.getvalue()
    assert told.endswith("\x1b[Htwo\x1b[K\r\nlines\x1b[K\r\n\x1b[J\x1b[?1049ltwo\nlines\n")
    assert told.startswith("\x1b[?1049h\x1b[Hone")


def test_a_bar_has_one_scale() -> None:
    assert line("judging", 3, 12, 80) == "judging [######..................] 3/12"
    assert line("240 of 480 runs", 3, 12, 80) == "240 of 480 runs [############............]"
    assert line("working", 0, 0, 80) == "working"


def test_what_is_printed_beside_a_bar_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with saying("starting Spark"), above_progress():
        terminal.write("done\n")
    assert terminal.getvalue() == "\r\x1b[Kstarting Spark\r\x1b[Kdone\n\r\x1b[K"


def rows(points: int, measures: int) -> Results:
    return Results.of(
        [
            ResultRow({"sites": 10 * (n + 1), "fixed": 1}, f"measure{m}", n + m / 10, 0.25, 20)
            for n in range(points)
            for m in range(measures)
        ]
        + [
            ResultRow({"sites": 10 * (n + 1), "fixed": 1}, "same", 7.0, 0.0, 20)
            for n in range(points)
        ]
    )


def test_a_sweep_is_shown_as_a_line_for_each_point() -> None:
    assert result_lines(rows(2, 3), 80) == [
        "sites  measure0    measure1    measure2",
        "10     0 ± 0.25  0.1 ± 0.25  0.2 ± 0.25",
        "20     1 ± 0.25  1.1 ± 0.25  1.2 ± 0.25",
        "",
        "the same in all runs: same 7",
        "20 runs each; ± is half of a 95 % interval",
    ]


def test_measures_that_do_not_fit_follow_below_and_points_are_bounded() -> None:
    told = result_lines(rows(50, 9), 80)
    assert max(map(len, told)) <= 80
    heads = [text for text in told if text.startswith("sites")]
    assert " ".join(heads).count("measure") == 9
    assert len(heads) == 2
    assert "... 10 more points" in told
