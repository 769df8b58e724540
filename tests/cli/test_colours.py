"""Colours: by rich on a terminal, and nowhere else."""

import io
import sys
from collections.abc import Iterator

import pytest

from ordercast.cli import colours, main
from ordercast.cli.colours import BAD_WORDS, coloured

TABLE = '{"groups":{"g":["a","b"]}}'
ESCAPE = "\x1b["


class Output(io.StringIO):
    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    colours._console.cache_clear()
    yield
    colours._console.cache_clear()


def simulated(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> str:
    output = Output(terminal=terminal)
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["sim", TABLE, "--messages", "5"]) == 0
    monkeypatch.undo()
    return output.getvalue()


def test_a_verdict_has_a_colour_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    told = simulated(monkeypatch, terminal=True)
    assert "verdict      \x1b[32mno violation\x1b[0m\n" in told
    colours._console.cache_clear()
    assert simulated(monkeypatch, terminal=False).endswith("verdict      no violation\n")


@pytest.mark.parametrize("without", ["NO_COLOR", "rich", "a terminal that has colours"])
def test_text_is_plain(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Output(terminal=True))
    assert coloured("[b]down[/b]", BAD_WORDS).startswith(f"{ESCAPE}1;31m[b]down[/b]")
    colours._console.cache_clear()
    if without == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    elif without == "rich":
        monkeypatch.setitem(sys.modules, "rich.console", None)
    else:
        monkeypatch.setenv("TERM", "dumb")
    assert coloured("[b]down[/b]", BAD_WORDS) == "[b]down[/b]"
