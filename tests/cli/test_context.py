"""Contexts: what the verb writes and refuses, and where a verb goes."""

import argparse
import json
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.cli.destination import destination, first_word_is_cluster
from ordercast.cli.export import names_cluster
from ordercast.model.errors import ConfigError
from ordercast.net.cluster.contexts import Context, Contexts, read_contexts, write_contexts
from ordercast.net.cluster.file import read_cluster

CLUSTER = '[cluster]\nname = "demo"\n[sites.a]\naddress = "127.0.0.1:7101"\n[groups]\nx = ["a"]\n'


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text(f"{1:064x}\n")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "c.toml").write_text(CLUSTER)
    return tmp_path / "ordercast" / "contexts.toml"


def add(name: str, *words: str) -> int:
    return main(["context", "add", name, "--address", "tcp://127.0.0.1:1", *words])


def test_contexts_are_added_used_listed_and_removed(
    settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add("one", "--secret", "secret") == 0
    assert add("two", "--secret", "secret", "--site", "b", "--address", "tcp://[::1]:2") == 0
    assert settings.stat().st_mode & 0o777 == 0o600
    assert main(["context", "use", "two"]) == 0
    capsys.readouterr()
    assert main(["context", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["current"] == "two"
    assert told["contexts"]["two"]["addresses"] == ["tcp://127.0.0.1:1", "tcp://[::1]:2"]
    assert told["contexts"]["two"]["site"] == "b"
    assert told["contexts"]["one"]["secret"] == str(Path("secret").absolute())
    assert main(["context", "remove", "two"]) == 0
    assert read_contexts().current == ""
    assert main(["context", "list"]) == 0
    assert "tcp://127.0.0.1:1" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("add", "needs one NAME"),
        ("ad x", "did you mean 'add'?"),
        ("list x", "takes no name, so not 'x'"),
        ("use x", "there is no context 'x'"),
        ("use x --cert y", "are for 'add'"),
        ("add x", "--address tls://HOST:PORT is missing"),
        ("add x --address tls://h:1", "no certificate is given"),
        ("add x --address tls://h:1 --cert no.pem", "no.pem: cannot be read"),
        ("add x --address h:1", "is not the address of a daemon"),
        ("add x --address tcp://127.0.0.1:1 --secret no", "no: is missing"),
        ("add x/y --address tcp://127.0.0.1:1 --secret secret", "is not a name"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    words: str, said: str, settings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["context", *words.split()]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not settings.exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("current = 'x'", "current: there is no context 'x'"),
        ("contexts = 3", r"\[contexts\] must be a table"),
        ("[contexts.x]\naddresses = []", "must be a list of addresses"),
        ("[contexts.x]\naddresses = [3]", "3 is not a text"),
        ("[contexts.x]\naddress = 'y'", "did you mean 'addresses'"),
        ("[contexts.'a b']\naddresses = ['y']", "is not a name"),
        ("[", "contexts.toml: "),
        ("x = 1", "unknown key 'x'"),
    ],
)
def test_a_damaged_file_is_one_line(text: str, said: str, settings: Path) -> None:
    settings.parent.mkdir()
    settings.write_text(text)
    with pytest.raises(ConfigError, match=said):
        read_contexts()


def test_what_is_written_reads_back_whatever_the_names_of_files(settings: Path) -> None:
    odd = Context("a.b", ("tls://h:1",), cert='/x "y"\\z\n\x7f.pem')
    settings.parent.mkdir()
    write_contexts(Contexts(settings, {"a.b": odd}, "a.b"))
    assert read_contexts() == Contexts(settings, {"a.b": odd}, "a.b")


def where(monkeypatch: pytest.MonkeyPatch, *words: str, **given: str) -> str:
    """Where a verb with these words goes, with this environment."""
    for name in ("CONTEXT", "CLUSTER", "DIR"):
        monkeypatch.delenv(f"ORDERCAST_{name}", raising=False)
        if name in given:
            monkeypatch.setenv(f"ORDERCAST_{name}", given[name])
    args = argparse.Namespace(context=given.get("option"), dir=None)
    file = words[0] if first_word_is_cluster(words, args) else None
    place = destination(args, file, "send")
    return f"{place.source} {getattr(place, 'directory', '')}"


def test_the_folder_of_an_export_may_be_a_path_where_a_context_says_where_to_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = argparse.Namespace(context=None, dir=None)
    for words in (["deep/out"], ["/deep/out"]):
        assert names_cluster(words, here)  # and OUT is missing
    assert add("one", "--secret", "secret") == 0
    for words in (["out"], ["deep/out"], ["/deep/out"]):
        assert not names_cluster(words, here)
        assert not names_cluster(words, argparse.Namespace(context="one", dir=None))
    for words in (["c.toml"], ["other.toml"], ["./c.toml", "out"], ["deep/c", "out"]):
        assert names_cluster(words, here)
    monkeypatch.setenv("ORDERCAST_CLUSTER", "c.toml")
    assert not names_cluster(["deep/out"], here)


def test_the_command_line_goes_before_the_environment_and_that_before_the_current_context(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        assert add(name, "--secret", "secret") == 0
    home = str(read_cluster("c.toml").directory())
    assert where(monkeypatch) == "--context one "
    assert where(monkeypatch, "alpha", "text") == "--context one "
    assert where(monkeypatch, "c.toml", "alpha") == f"c.toml {home}"
    assert where(monkeypatch, CLUSTER="c.toml", DIR="there") == "c.toml there"
    assert where(monkeypatch, CLUSTER="c.toml", CONTEXT="two") == "--context two "
    assert where(monkeypatch, "c.toml", CONTEXT="two") == f"c.toml {home}"
    assert where(monkeypatch, "c.toml", CONTEXT="two", option="one") == "--context one "
    capsys.readouterr()
    for words, said in (
        (["status", "c.toml", "--context", "one"], "contradict each other"),
        (["status", "--dir", "x"], "--dir is for a cluster file"),
        (["compact", "a"], "CLUSTER is missing: it works on files of its machine"),
        (["status", "tls://h:1"], "is an address, no cluster file: 'ordercast context add"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err
