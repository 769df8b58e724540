"""A cluster is where its file is, wherever one stands; no second one is founded silently."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.net.local import local_cluster
from processes.daemons import COMMAND
from support.harness.loops import in_loop


def run(place: Path, *words: str) -> str:
    """A verb that starts processes, in one of its own."""
    done = subprocess.run(
        [*COMMAND, *words], cwd=place, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_init_says_is_typed_and_from_elsewhere_it_is_the_same_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here, away = tmp_path / "here", tmp_path / "away"
    here.mkdir()
    away.mkdir()
    monkeypatch.chdir(here)
    assert main(["init"]) == 0
    commands = capsys.readouterr().out.split("next:\n")[1].splitlines()
    up, send, tail, status, down = (shlex.split(line)[1:] for line in commands)
    assert "is up" in run(here, *up)
    try:
        for words in (send, tail, status):
            assert main(words) == 0
        assert "hello, all" in capsys.readouterr().out
        monkeypatch.chdir(away)
        file = "../here/cluster.toml"
        assert main(["send", file, "all", "from away"]) == 0
        shutil.copy(file, "copy.toml")  # it stands for another place
        for options in ([], ["--new"]):
            capsys.readouterr()
            assert main(["cluster", "up", "copy.toml", "--detach", *options]) == 2
            told = capsys.readouterr().err
            assert "no store of site 'a' of cluster 'demo', and the site cannot listen on" in told
            assert len(told.splitlines()) == 1
        assert main(["node", "copy.toml", "--site", "b"]) == 2
        assert "does it run from another directory?" in capsys.readouterr().err
        assert not [path for path in away.rglob("*") if path.is_file() and path.suffix != ".toml"]
    finally:
        assert run(here, *down) == "stopped: a, b, c\n"
    for options, variable in ((["--dir", "data"], ""), ([], str(away / "data"))):
        monkeypatch.setenv("ORDERCAST_DIR", variable)
        capsys.readouterr()
        assert main(["cluster", "up", file, "--detach", *options]) == 2
        told = capsys.readouterr().err
        assert (
            "has no founded store of site 'a' of cluster 'demo', but ../here/.ordercast/demo has"
            in told
        )
        assert len(told.splitlines()) == 1
        assert not (away / "data").exists()
        assert main(["status", file, *options]) == 1
        told = capsys.readouterr().err
        assert "nothing of cluster 'demo'; ../here/.ordercast/demo has stores of it" in told


def test_stores_in_the_working_directory_are_not_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the default once."""
    old = Path(".ordercast/demo")

    @in_loop
    async def found() -> None:
        async with local_cluster({"all": ["a", "b", "c"]}, name="demo", dir=old, durability="os"):
            pass

    monkeypatch.chdir(tmp_path)
    found()
    assert main(["init", "--file", "etc/cluster.toml"]) == 0
    assert main(["cluster", "down", "etc/cluster.toml"]) == 0
    assert f"; {old} has stores of it: say --dir {old}" in capsys.readouterr().out
    for words in ("cluster up etc/cluster.toml --detach", "node etc/cluster.toml --site a"):
        assert main(words.split()) == 2
        told = capsys.readouterr().err
        assert f"but {old} has: say --dir {old}, write it as 'dir' under [cluster], or move" in told
    for verb in (["send", "etc/cluster.toml", "all", "text"], ["epoch", "etc/cluster.toml"]):
        assert main(verb) == 2
        assert f"; {old} has stores of it" in capsys.readouterr().err
