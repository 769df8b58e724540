"""The frame of the command: help, version, exit codes, and ends that are not its own choice."""

import argparse
import errno
import os
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

import ordercast
from cli.command import COMMAND, EXAMPLES, run
from ordercast.cli import VERBS, main
from ordercast.cli.command import whole_number

FIGURE_3 = str(EXAMPLES / "figure3.toml")


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"], ["help"]])
def test_help_lists_every_verb(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for verb in VERBS:
        assert f"  {verb.name}" in out
        assert verb.summary in out


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_has_help_with_an_example_and_json(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: ordercast {verb}")
    assert "--json" in out
    assert f"example:\n  ordercast {verb}" in out or f"\n  ordercast {verb}" in out


def test_help_of_a_verb_is_that_of_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "status"]) == 0
    assert capsys.readouterr().out.startswith("usage: ordercast status")
    assert main(["help", "stauts"]) == 2
    assert "there is no verb 'stauts' (did you mean 'status'?)" in capsys.readouterr().err


def test_what_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root may read everything, so the refusal is that of the system for a file as folder."""
    (tmp_path / "file").write_text("")

    def refused(_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path / "file"))

    monkeypatch.setattr("ordercast.cli.plan.run", refused)
    assert main(["plan", "x"]) == 1
    expected = f"ordercast: cannot go on: {tmp_path / 'file'}: permission denied\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["cluster", "status", "c.toml"],
            "there is no action 'status' (did you mean 'ordercast status'?)",
        ),
        (["sim", "--out", "x"], "there is no option '--out';"),
        (["sim", "--mesages", "3"], "there is no option '--mesages' (did you mean '--messages'?)"),
    ],
)
def test_the_nearest_is_only_named_when_it_is_near(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_version(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"ordercast {ordercast.__version__} (pure)\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["pln"], "there is no verb 'pln' (did you mean 'plan'?)"),
        (["Plan"], "there is no verb 'Plan' (did you mean 'plan'?)"),
        (["--versoin"], "there is no option '--versoin' (did you mean '--version'?)"),
    ],
)
def test_an_unknown_verb_names_the_nearest(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"ordercast: {expected}; see 'ordercast --help'\n"


def test_the_installed_command_is_this_one() -> None:
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ordercast {ordercast.__version__} (pure)\n"


def test_words_of_a_verb_are_shown_once_in_its_usage() -> None:
    for verb in ("cluster", "group", "site", "protocol", "voter"):
        assert run(verb, "--help").stdout.split("\n\n")[0].count("ACTION") == 1


def test_starting_up_loads_nothing_heavy() -> None:
    """Help and plans without a drawing must not wait for matplotlib."""
    code = (
        "import sys\n"
        "from ordercast.cli import main\n"
        "main(['--version'])\n"
        "assert not any(name.startswith('ordercast.plan') for name in sys.modules)\n"
        f"main(['plan', {FIGURE_3!r}, '--builder', 'greedy'])\n"
        "assert not {'matplotlib', 'numpy', 'pymetis'} & set(sys.modules)\n"
        "sys.argv[1:] = ['--version']\n"
    )
    done = run(code=code)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_goes_away_is_no_reason_to_complain() -> None:
    process = subprocess.Popen(
        [*COMMAND, "plan", FIGURE_3], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 1


def test_an_output_that_takes_no_more_is_said_in_one_line(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as output:
        done = subprocess.run(
            [*COMMAND, "plan", FIGURE_3],
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        )
    assert done.returncode == 1
    assert done.stderr == "ordercast: cannot go on: file too large\n"


def open_for_writing(pipe: Path, seconds: float = 60.0) -> int:
    """Open a pipe once somebody reads from it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.01)
    raise TimeoutError("nobody reads")


def test_ctrl_c_ends_with_130_and_one_line(tmp_path: Path) -> None:
    """The command reads from a pipe that never says anything; opening it shows that it reads."""
    pipe = tmp_path / "groups.toml"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [*COMMAND, "plan", str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    writer = open_for_writing(pipe)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, out, err) == (130, "", "ordercast: interrupted\n")


def test_groups_can_come_from_standard_input() -> None:
    text = '{"groups": {"alpha": ["a", "b"]}}'
    done = subprocess.run(
        [*COMMAND, "plan", "-"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 group, 2 sites, 1 domain")


@pytest.mark.parametrize(
    ("text", "number"), [("2,002", 2_002), ("1,000,000", 1_000_000), ("12", 12)]
)
def test_a_number_is_read_as_it_is_printed(text: str, number: int) -> None:
    assert whole_number(1)(text) == number


@pytest.mark.parametrize("text", ["2,02", ",100", "1,0000", "1,000,", "1,-000"])
def test_separators_stand_where_they_belong(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a whole number"):
        whole_number(1)(text)
