"""Every mistake a user can make with `ordercast plan`: one line, exit 2, nothing else."""

import socket
import tempfile
from pathlib import Path

import pytest

from cli.command import run
from ordercast.cli import main

GOOD = '[groups]\nalpha = ["a", "b"]\nbeta = ["b", "c"]\n'
SEE = "; see 'ordercast plan --help'"


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says on standard error; it must be all that it says."""
    assert main(["plan", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("ordercast: ")
    assert err.count("\n") == 1
    return err.removeprefix("ordercast: ").rstrip("\n")


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = tmp_path / "good.toml"
    path.write_text(GOOD)
    return str(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", "the file is empty", id="empty-file"),
        pytest.param("[groups", "Expected ']' at the end of a table", id="not-toml"),
        pytest.param(
            '[groups]\nalpha = ["a", "b", "a"]',
            "groups.alpha: member 'a' is listed twice",
            id="duplicate-member",
        ),
        pytest.param("[groups]\nalpha = []", "groups.alpha: has no members", id="empty-group"),
        pytest.param("[groups]", "[groups] is empty", id="no-group"),
        pytest.param(
            'sites = ["anna", "bob"]\n[groups]\nalpha = ["anna", "bop"]',
            "groups.alpha: 'bop' is not in 'sites' (did you mean 'bob'?)",
            id="unknown-site",
        ),
        pytest.param(
            '[groups]\nalpha = ["a"]\n[rates]\nalhpa = 1',
            "rates.alhpa: there is no such group (did you mean 'alpha'?)",
            id="rate-for-unknown-group",
        ),
        pytest.param(
            '[groups]\nalpha = ["a"]\n[rates]\nalpha = -0.5',
            "rates.alpha: -0.5 is not a rate (a number from 0 to 1e+12)",
            id="rate-below-0",
        ),
        pytest.param(
            '[groups]\nalpha = ["a"]\n[rate]\nalpha = 1',
            "unknown key 'rate' (did you mean 'rates'?)",
            id="unknown-key",
        ),
        pytest.param(
            '[groups]\nalpha = ["a", "b!"]',
            "groups.alpha: 'b!' is not a name (1 to 64 of A-Z a-z 0-9 . _ -, "
            "beginning with a letter or digit)",
            id="bad-name",
        ),
        pytest.param(
            '[groups]\nalpha = ["a", "A"]',
            "sites of the groups: 'A' and 'a' differ only in case",
            id="names-differ-in-case",
        ),
        pytest.param(
            '[groups]\nalpha = ["a"]\n[rates]\nalpha = "much"',
            "rates.alpha: must be a number, not 'much'",
            id="rate-not-a-number",
        ),
        pytest.param(
            '[groups]\nalpha = "a"',
            "groups.alpha: must be a list of sites, not 'a'",
            id="members-not-a-list",
        ),
    ],
)
def test_a_bad_groups_file(
    text: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "groups.toml"
    path.write_text(text)
    assert complaint(capsys, str(path)).startswith(f"{path}: {expected}")


def test_a_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing.toml"
    assert complaint(capsys, str(path)) == f"{path}: no such file or directory"


def test_a_directory_instead_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert complaint(capsys, str(tmp_path)) == f"{tmp_path}: is a directory"


def test_a_file_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="oc") as folder,  # names of sockets must be short
        socket.socket(socket.AF_UNIX) as unreadable,
    ):
        unreadable.bind(path := f"{folder}/s")
        assert complaint(capsys, path).startswith(f"{path}: ")


def test_a_file_that_is_not_utf_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latin.toml"
    path.write_bytes(b"# caf\xe9\n")
    assert complaint(capsys, str(path)) == f"{path}: is not UTF-8 text (byte 5)"


def test_a_name_with_a_line_break_does_not_break_the_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert complaint(capsys, "no\nsuch.toml") == r"no\nsuch.toml: no such file or directory"


def test_no_file_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    expected = f"the following arguments are required: GROUPS{SEE}"
    assert complaint(capsys) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            ["--builder", "gredy"],
            "--builder: 'gredy' is none of star, greedy, balanced, metagroups, metagroups_balanced,"
            " given, auto (did you mean 'greedy'?)",
            id="unknown-builder",
        ),
        pytest.param(
            ["--builder", "?"],
            "--builder: '?' is none of star, greedy, balanced, metagroups, metagroups_balanced,"
            " given, auto",
            id="unlike-any-builder",
        ),
        pytest.param(
            ["--objective", "hurry"],
            "--objective: 'hurry' is none of delay, load, messages, mixed",
            id="unknown-objective",
        ),
        pytest.param(
            ["--objective=loads"],
            "--objective: 'loads' is none of delay, load, messages, mixed (did you mean 'load'?)",
            id="nearest-objective",
        ),
        pytest.param(
            ["--branching", "many"],
            "--branching: 'many' is not a whole number",
            id="branching-not-a-number",
        ),
        pytest.param(
            ["--branching", "1"],
            "--branching: 1 is too small (2 or more)",
            id="branching-too-small",
        ),
        pytest.param(["--branching"], "--branching: expected one argument", id="option-alone"),
        pytest.param(
            ["--tie", "a,,b"], "--tie: 'a,,b' has an empty name between its commas", id="empty-tie"
        ),
        pytest.param(
            ["--bilder", "star"],
            "there is no option '--bilder' (did you mean '--builder'?)",
            id="unknown-option",
        ),
        pytest.param(
            ["--build=star"],
            "there is no option '--build' (did you mean '--builder'?)",
            id="abbreviated-option",
        ),
        pytest.param(["another.toml"], "one argument too many: 'another.toml'", id="two-files"),
        pytest.param(["-x"], "there is no option '-x'", id="unknown-letter"),
    ],
)
def test_a_bad_command_line(
    options: list[str], expected: str, good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(capsys, good, *options) == expected + SEE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param(
            ["--builder", "star", "--branching", "3"],
            "branching: shapes 'balanced' only, not 'star'",
            id="branching-without-balanced",
        ),
        pytest.param(
            ["--builder", "balanced", "--tie", "a"],
            "tie: settles ties of 'greedy' only, not of 'balanced'",
            id="tie-without-greedy",
        ),
        pytest.param(
            ["--tie", "a,bb"], "tie: there is no site 'bb' (did you mean 'b'?)", id="unknown-tie"
        ),
        pytest.param(["--tie", "a,a"], "tie: site 'a' is listed twice", id="tie-twice"),
        pytest.param(
            ["--draw", "forest.jpg"],
            "--draw forest.jpg: the name must end in .svg, .png or .pdf",
            id="drawing-of-another-kind",
        ),
        pytest.param(
            ["--draw", "forest"],
            "--draw forest: the name must end in .svg, .png or .pdf",
            id="drawing-without-ending",
        ),
    ],
)
def test_options_that_make_no_sense(
    options: list[str], expected: str, good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint(capsys, good, *options) == expected


def test_a_drawing_in_a_directory_that_is_not_there(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "nowhere"
    expected = f"--draw {folder}/f.svg: there is no directory {str(folder)!r}"
    assert complaint(capsys, good, "--draw", f"{folder}/f.svg") == expected


def test_a_drawing_that_cannot_be_written(
    good: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder.svg"
    folder.mkdir()
    assert complaint(capsys, good, "--draw", str(folder)) == f"{folder}: is a directory"
    too_long = tmp_path / ("x" * 300 + ".svg")
    assert complaint(capsys, good, "--draw", str(too_long)) == f"{too_long}: file name too long"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.svg", "good.toml"]


def test_a_mistake_is_reported_before_the_file_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    message = complaint(capsys, "missing.toml", "--draw", "forest.gif")
    assert message == "--draw forest.gif: the name must end in .svg, .png or .pdf"


def test_a_mistake_in_a_process_of_its_own_ends_with_2_and_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "groups.toml"
    path.write_text("[groups]\nalpha = []\n")
    done = run("plan", str(path), "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ordercast: {path}: groups.alpha: has no members\n"


def test_drawing_without_the_extra_names_it(good: str, tmp_path: Path) -> None:
    picture = tmp_path / "forest.svg"
    missing = "import sys; sys.modules['matplotlib'] = None"
    done = run("plan", good, "--draw", str(picture), code=missing)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"ordercast: --draw {picture}: drawing needs the extra 'plot'"
        " (pip install 'ordercast[plot]')\n"
    )
