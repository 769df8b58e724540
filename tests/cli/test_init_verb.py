"""`ordercast init`: what it writes, and that it overwrites nothing."""

import json
import shlex
import socket
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.net.cluster.file import read_cluster
from ordercast.net.cluster.secret import secret_of


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_words_there_is_a_cluster_of_this_machine(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["init"]) == 0
        cluster = read_cluster("cluster.toml")
        assert [host for host, _ in cluster.addresses().values()] == ["127.0.0.1"] * 3
        assert taken.getsockname()[1] not in [port for _, port in cluster.addresses().values()]
    assert (cluster.name, dict(cluster.groups)) == ("demo", {"all": ("a", "b", "c")})
    assert (place / ".ordercast/demo/secret").stat().st_mode & 0o777 == 0o600
    assert secret_of(cluster) is not None
    told = capsys.readouterr().out
    for command in told.split("next:\n")[1].splitlines():
        verb, *words = shlex.split(command)
        assert verb == "ordercast"
        assert "cluster.toml" in words


def test_everything_can_be_given(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = "init shop --sites a=db1:7101 b=db2:7101 --groups x=a y=a,b --tls --dir data --json"
    assert main([*words.split(), "--file", "etc/shop.toml"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["cluster"], told["file"], told["dir"]) == ("shop", "etc/shop.toml", "etc/data")
    assert told["secret"] is None
    assert told["next"] == [f"ordercast node etc/shop.toml --site {site}" for site in "ab"]
    cluster = read_cluster("etc/shop.toml")
    assert dict(cluster.groups) == {"x": ("a",), "y": ("a", "b")}
    assert cluster.directory() == Path("etc/data")
    names = {"ca.pem", "ca.key", "a.pem", "a.key", "b.pem", "b.key"}
    assert {path.name for path in (place / "etc" / "certs").iterdir()} == names
    assert {Path(path).name for path in told["certificates"]} == names


def test_a_cluster_without_certificates_on_machines_gets_a_secret_to_copy(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "far", "--sites", "a=db1:7101", "b=db2:7101", "--insecure"]) == 0
    assert "copy the file and the secret to each machine" in capsys.readouterr().out
    assert (place / "cluster.secret").stat().st_mode & 0o777 == 0o600
    assert secret_of(read_cluster("cluster.toml")) is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("init a/b", "NAME: 'a/b' is not a name"),
        ("init --sites a", "--sites: 'a' is not SITE=HOST:PORT"),
        ("init --sites a=127.0.0.1:1 a=127.0.0.1:2", "--sites: 'a' is given twice"),
        ("init --sites a=127.0.0.1:1 b=127.0.0.1:1", "'127.0.0.1:1' is taken by sites.a.address"),
        ("init --sites a=here", "--sites a: 'here' is not an address"),
        ("init --sites a=db1:7101", "'db1:7101' is not of the loopback: say --tls"),
        ("init --groups alpha", "--groups: 'alpha' is not GROUP=SITE,SITE"),
        ("init --groups alpha=a,q", "groups.alpha: there is no site 'q'"),
        ("init --tls --insecure", "--tls and --insecure contradict each other"),
        ("init --file there.toml", "there.toml: is there already, and is not overwritten"),
        ("init --tls", "certs/ca.pem: is there already, and is not overwritten"),
        ("init --dir there.toml", "there.toml: is not a directory"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    words: str, said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "there.toml").touch()
    (place / "certs").mkdir()
    (place / "certs" / "ca.pem").touch()
    before = sorted(place.rglob("*"))
    assert main(words.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1
    assert sorted(place.rglob("*")) == before
