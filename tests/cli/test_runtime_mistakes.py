"""What the runtime verbs say to wrong command lines, without anything running."""

import json
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.core.order.registry import PROTOCOLS

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
        ("node --site a", "CLUSTER is missing: it works on files of its machine: name the"),
        ("cluster", "the following arguments are required: ACTION CLUSTER [SITE]"),
        ("cluster pu c.toml", "there is no action 'pu' (did you mean 'up'?)"),
        ("cluster up", "cluster up: CLUSTER is missing"),
        ("cluster up c.toml a", "takes no site, so not 'a'"),
        ("cluster kill c.toml", "cluster kill: needs one SITE"),
        ("cluster kill c.toml a b", "cluster kill: needs one SITE"),
        ("cluster kill c.toml d", "there is no site 'd'"),
        ("cluster kill c.toml a", "site 'a' does not run from"),
        ("cluster down c.toml --detach", "--detach is for 'up'"),
        ("cluster down c.toml --new", "--new is for 'up' and 'restart'"),
        ("send c.toml alpha", "nothing to send: give TEXT, - or --size"),
        ("send c.toml alpha x --size 5", "TEXT and --size contradict each other"),
        ("send c.toml alpha - --count 5", "--count does not go with -"),
        ("send c.toml alpha x --count 0", "0 is too small (1 or more)"),
        ("send c.toml alpha --size -1", "-1 is too small (0 or more)"),
        ("send c.toml alpha --size 2000000", "--size: 2,000,000 is above 1,048,576 bytes"),
        ("send c.toml alpha x --until placed", "'placed' is none of accepted, ordered, stable"),
        ("send c.toml alpha x --timeout soon", "'soon' is not a number of seconds"),
        ("send c.toml beta x", "c.toml: there is no group 'beta' (known: alpha)"),
        ("send c.toml alpha x", "no site of cluster 'demo' runs here"),
        ("tail c.toml", "the following arguments are required: --site"),
        ("tail c.toml --site a --start x", "'x' is not a whole number"),
        ("status c.toml --wach", "there is no option '--wach' (did you mean '--watch'?)"),
        ("status none.toml", "none.toml: no such file or directory"),
        ("node c.toml --site d --address nowhere", "--address: 'nowhere' is not an address"),
        ("node c.toml --site a --address 127.0.0.1:1", "c.toml says where site 'a' is"),
        ("node c.toml --site a/b --address 127.0.0.1:1", "--site: 'a/b' is not a name"),
        ("group ad c.toml", "group: there is no action 'ad' (did you mean 'add'?)"),
        ("group add c.toml", "group add: NAME is missing (group add CLUSTER NAME SITE...)"),
        ("group add c.toml gamma", "group add: SITE is missing"),
        ("group join c.toml alpha", "group join: SITE is missing"),
        ("group remove c.toml", "group remove: NAME is missing"),
        ("group remove c.toml alpha a", "group remove: one argument too many: 'a'"),
        ("group add c.toml gamma a b", "no site of cluster 'demo' runs here"),
        ("group list c.toml more", "one argument too many: 'more'"),
        ("group list c.toml --via z", "c.toml: there is no site 'z'"),
        ("group join c.toml alpha a --timeout never", "'never' is not a number of seconds"),
        ("site", "the following arguments are required: ACTION CLUSTER [NAME]"),
        ("site ad c.toml", "site: there is no action 'ad' (did you mean 'add'?)"),
        ("site add c.toml", "site add: NAME is missing"),
        ("site add c.toml d", "site add: --address HOST:PORT is missing"),
        ("site add c.toml d --address 7104", "--address: '7104' is not an address"),
        ("site add c.toml d --address 10.0.0.1:7104", "10.0.0.1 is not loopback"),
        ("site add c.toml d --address 127.0.0.1:7101", "is taken by site 'a'"),
        ("cluster down c.toml --log json", "cluster down: --log is for 'up' and 'restart'"),
        ("cluster kill c.toml a --log-level info", "--log-level is for 'up' and 'restart'"),
        ("site add c.toml d! --address 127.0.0.1:7104", "site add: 'd!' is not a name"),
        ("site add c.toml d --address 127.0.0.1:7104", "no site of cluster 'demo' runs here"),
        ("site retire c.toml a b", "site retire: one argument too many: 'b'"),
        ("site retire c.toml a --address 127.0.0.1:1", "site retire: --address is for 'add'"),
        ("protocol switch c.toml", "protocol switch: NAME is missing"),
        ("protocol switch c.toml propagatoin", "did you mean 'propagation'?"),
        ("protocol switch c.toml propagation x", "one argument too many: 'x'"),
        ("protocol switch c.toml propagation --builder gredy", "did you mean 'greedy'?"),
        ("protocol switch c.toml tom --builder star", "'tom' runs on 'balanced' or 'greedy', not"),
        ("protocol switch c.toml metagroup --builder metagroups_balanced", "'demo' runs here"),
        ("protocol switch c.toml propagation", "no site of cluster 'demo' runs here"),
        ("voter add c.toml", "voter add: SITE is missing"),
        ("voter choose c.toml a", "voter: there is no action 'choose'"),
        ("voter remove c.toml a b", "voter remove: one argument too many: 'b'"),
        ("epoch", "put it into ORDERCAST_CLUSTER, or name a context ('ordercast context --help')"),
        ("status", "or name a context"),
        (
            "compact a",
            "CLUSTER is missing: it works on files of its machine: name the cluster file",
        ),
        ("epoch c.toml", "no site of cluster 'demo' runs here"),
        ("epoch c.toml --via d", "c.toml: there is no site 'd'"),
        ("epoch c.toml --via a", "--via: site 'a' does not run from"),
        ("group join c.toml alpha b --via a", "--via: site 'a' does not run from"),
        ("certs c.toml", "c.toml: has no [tls] dir; name a directory with --out"),
        ("certs c.toml --out x --site d", "x: has no authority (ca.pem, ca.key)"),
        ("certs c.toml --out x --client billing", "x: has no authority (ca.pem, ca.key)"),
        ("certs c.toml --out x --host h", "--host: goes with exactly one --site"),
        ("reader list c.toml", "reader list: SITE is missing"),
        ("reader reset c.toml a", "reader reset: NAME is missing"),
        ("reader reset c.toml a r --to here", "--to: 'here' is no position, 'first' or 'end'"),
        ("reader list c.toml a --to 3", "--to belongs to 'reader reset'"),
        ("reader remove c.toml x r", "there is no site 'x'"),
        ("export c.toml", "the following arguments are required: OUT"),
        ("export c.toml out", ".ordercast"),
        ("backup c.toml", "the following arguments are required: FILE"),
        ("backup c.toml q out", "c.toml: there is no site 'q'"),
        ("backup c.toml a out", "a.db: there is no such store"),
        ("restore c.toml a none", "none: there is no such file"),
        ("restore c.toml q none", "c.toml: there is no site 'q'"),
        ("restore c.toml a c.toml", "c.toml: is not a store"),
        ("inspect c.toml", "there is no store of cluster 'demo'"),
        ("inspect c.toml a", "a.db: there is no such store"),
        ("inspect c.toml q", "c.toml: there is no site 'q'"),
        ("compact c.toml a", "a.db: there is no such store"),
        ("compact c.toml q", "c.toml: there is no site 'q'"),
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
        out, err = capsys.readouterr()
        assert out.splitlines() == ["group  primary  members", "alpha  a        a, b"]
        assert "of c.toml, with which the cluster is founded: no site of it answers here" in err


def test_the_list_says_where_it_is_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["group", "list", "c.toml", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["cluster"], told["source"], told["via"]) == ("demo", "file", None)
    assert told["groups"]["alpha"] == {
        "members": ["a", "b"], "primary": "a", "extra": [], "epoch": 1,
    }  # fmt: skip


def test_protocols_are_listed_without_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ("protocol list", "protocol list c.toml"):
        assert main(words.split()) == 0
        shown = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in shown] == list(PROTOCOLS)
        assert [" ".join(line.split()) for line in shown[:2]] == [
            "propagation builders: any",
            "centralized builders: star",
        ]
    assert main(["protocol", "list", "--json"]) == 0
    names = [each["name"] for each in json.loads(capsys.readouterr().out)["protocols"]]
    assert names == list(PROTOCOLS)


@pytest.mark.parametrize(
    "verb", ["group", "site", "protocol", "voter", "epoch", "node", "tail", "reader"]
)
def test_help_has_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([verb, "--help"]) == 0
    assert f"example:\n  ordercast {verb} " in capsys.readouterr().out


def test_a_cluster_of_which_nothing_is_known_can_be_stopped_and_asked(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["cluster", "down", "c.toml"]) == 0
    assert "no site of demo runs from" in capsys.readouterr().out
    assert main(["status", "c.toml"]) == 1
    out, err = capsys.readouterr()
    assert "elsewhere" in out
    assert f"looked in {place}/.ordercast/demo: nothing of cluster 'demo'" in err
    (place / ".ordercast" / "demo").mkdir(parents=True)
    (place / ".ordercast" / "demo" / "a.retired").touch()
    assert main(["status", "c.toml"]) == 0
    assert capsys.readouterr().err == ""


def test_the_directory_is_beside_the_file_wherever_one_is(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_in(*options: str) -> str:
        assert main(["status", str(place / "c.toml"), "--json", *options]) == 1
        return str(json.loads(capsys.readouterr().out)["dir"])

    (place / "sub").mkdir()
    monkeypatch.chdir(place / "sub")
    assert looked_in() == str(place / ".ordercast" / "demo")
    (place / "c.toml").write_text(FILE.replace('"demo"', '"demo"\ndir = "data"'))
    assert looked_in() == str(place / "data")
    monkeypatch.setenv("ORDERCAST_DIR", "/named/by/the/environment")
    assert looked_in() == "/named/by/the/environment"
    assert looked_in("--dir", "given") == "given"
