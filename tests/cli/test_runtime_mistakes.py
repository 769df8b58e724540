"""What the runtime verbs say to wrong command lines, without anything running."""

from pathlib import Path

import pytest

from ordercast.cli import main

FILE = """
[cluster]
name = "demo"
[sites.a]
address = "127.0.0.1:7101"
[sites.b]
address = "127.0.0.1:7102"
[groups]
alpha = ["a", "b"]
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "c.toml").write_text(FILE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("node c.toml", "the following arguments are required: --site"),
        ("node c.toml --site d", "c.toml: there is no site 'd'"),
        ("node --site a", "the following arguments are required: CLUSTER"),
        ("cluster", "the following arguments are required: ACTION CLUSTER [SITE]"),
        ("cluster pu c.toml", "there is no action 'pu' (did you mean 'up'?)"),
        ("cluster up", "cluster up: CLUSTER is missing"),
        ("cluster up c.toml a", "takes no site, so not 'a'"),
        ("cluster kill c.toml", "cluster kill: needs one SITE"),
        ("cluster kill c.toml a b", "cluster kill: needs one SITE"),
        ("cluster kill c.toml d", "there is no site 'd'"),
        ("cluster kill c.toml a", "site 'a' does not run from"),
        ("cluster down c.toml --detach", "--detach is for 'up'"),
        ("send c.toml alpha", "nothing to send: give TEXT, - or --size"),
        ("send c.toml alpha x --size 5", "TEXT and --size contradict each other"),
        ("send c.toml alpha - --count 5", "--count does not go with -"),
        ("send c.toml alpha x --count 0", "0 is too small (1 or more)"),
        ("send c.toml alpha --size -1", "-1 is too small (0 or more)"),
        ("send c.toml alpha --size 2000000", "--size: 2000000 is above 1048576 bytes"),
        ("send c.toml alpha x --until placed", "'placed' is none of accepted, ordered, stable"),
        ("send c.toml alpha x --timeout soon", "'soon' is not a number of seconds"),
        ("send c.toml beta x", "c.toml: there is no group 'beta' (known: alpha)"),
        ("send c.toml alpha x", "no site of cluster 'demo' runs here"),
        ("tail c.toml", "the following arguments are required: --site"),
        ("tail c.toml --site a --start x", "'x' is not a whole number"),
        ("status c.toml --wach", "there is no option '--wach' (did you mean '--watch'?)"),
        ("status none.toml", "none.toml: no such file or directory"),
        ("group add c.toml", "group: there is no action 'add' (known: list)"),
        ("group list c.toml more", "one argument too many: 'more'"),
        ("certs c.toml", "c.toml: has no [tls] dir; name a directory with --out"),
        ("export c.toml", "the following arguments are required: OUT"),
        ("export c.toml out", ".ordercast"),
    ],
)
def test_a_wrong_command_line_is_answered_in_one_line(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1


def test_groups_are_listed_with_their_primaries(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("group list c.toml", "group c.toml list"):
        assert main(words.split()) == 0
        assert capsys.readouterr().out.splitlines() == [
            "group  primary  members",
            "alpha  a        a, b",
        ]


def test_a_cluster_that_does_not_run_can_be_stopped_and_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cluster", "down", "c.toml"]) == 0
    assert "no site of demo runs from" in capsys.readouterr().out
    assert main(["status", "c.toml"]) == 0
    assert "elsewhere" in capsys.readouterr().out
