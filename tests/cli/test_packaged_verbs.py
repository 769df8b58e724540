"""Pages, completion and the manual page, which are made from what the verbs take."""

import ast
import json
import os
import pty
import re
import select
import subprocess
import time
from pathlib import Path

import pytest

from cli.command import ROOT
from ordercast.cli import VERBS, main
from ordercast.cli.docs import pages
from support.harness.commands import needed


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_every_page_is_listed_and_printed(capsys: pytest.CaptureFixture[str]) -> None:
    listed = said(capsys, "docs").splitlines()
    found = sorted((ROOT / "docs").glob("*.md"))
    assert [line.split()[0] for line in listed] == [path.stem for path in found]
    assert said(capsys, "docs", "operations") == (ROOT / "docs/operations.md").read_text("utf-8")
    assert json.loads(said(capsys, "docs", "store.md", "--json"))["page"] == "store"
    assert main(["docs", "operation"]) == 2
    assert "there is no page 'operation' (did you mean 'operations'?)" in capsys.readouterr().err


def texts(path: Path) -> list[str]:
    """The texts in a module that a user may read: all but docstrings, and those of verbs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    bare = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    return [str(node.value) for node in nodes if id(node) not in bare]


def test_what_users_read_points_to_pages_that_they_have() -> None:
    named = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for text in texts(path):
            assert not re.search(r"docs/[\w-]+\.md", text), f"{path}: {text}"
            named += re.findall(r"'ordercast docs ([\w-]+)'", text)
    assert {"store", "simulator", "checks"} <= set(named) <= set(pages())


def completed(script: Path, *words: str) -> list[str]:
    """What a real bash offers for the last word."""
    line = " ".join(f"'{word}'" for word in ("ordercast", *words))
    code = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words)}; _ordercast;"
        ' echo "${COMPREPLY[@]}"; complete -p ordercast >&2'
    )
    done = subprocess.run(["bash", "-uc", code], capture_output=True, text=True, check=True)
    assert "-F _ordercast ordercast" in done.stderr
    return done.stdout.split()


def test_bash_completes_verbs_actions_and_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "completion"
    script.write_text(said(capsys, "completion", "bash"), encoding="utf-8")
    assert completed(script, "st") == ["stability", "status"]
    assert completed(script, "cluster", "re") == ["restart", "recover"]
    assert completed(script, "sim", "--fau") == ["--faults"]
    assert completed(script, "help", "exp") == ["export"]
    assert completed(script, "send", "nothing") == []
    assert set(completed(script, "")) >= {verb.name for verb in VERBS}


def complete_in_zsh(folder: Path, *lines: tuple[str, str]) -> None:
    """Type each line and the key Tab, until the other one stands there: in a terminal, since zsh
    completes nowhere else. Nothing is run."""
    ours, theirs = pty.openpty()
    environment = {"TERM": "dumb", "PATH": os.environ["PATH"], "HOME": str(folder)}
    shell = subprocess.Popen(
        [needed("zsh"), "-f", "-i"], cwd=folder, env=environment,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)

    def type_until(keys: str, shown: str) -> None:
        os.write(ours, keys.encode())
        written, end = "", time.monotonic() + 60
        while shown not in written:
            assert time.monotonic() < end, written
            if select.select([ours], [], [], 0.2)[0]:
                written += os.read(ours, 65_536).decode()

    try:
        load = f"fpath=($fpath {folder}); autoload -Uz compinit; compinit -u -D"
        type_until(f"{load}; print rea''dy\r", "ready\r")
        for typed, completed in lines:
            type_until(f"\x15{typed}\t", completed)  # Ctrl-U: without the line before
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_every_verb_and_option(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = said(capsys, "completion", shell)
    for verb in VERBS:
        assert verb.name in script
    assert "'--faults[" in script if shell == "zsh" else "-l faults -r " in script
    file = tmp_path / "completion"
    file.write_text(script, encoding="utf-8")
    subprocess.run([needed(shell), "-n", str(file)], check=True)  # it reads it, and runs nothing
    if shell == "zsh":
        file.rename(tmp_path / "_ordercast")
        complete_in_zsh(
            tmp_path,
            ("ordercast cluster rest", "ordercast cluster restart "),
            ("ordercast sim --faul", "ordercast sim --faults "),
            ("ordercast dash", "ordercast dashboard "),
        )
    if shell == "fish":
        asked = f"source {file}; complete -C 'ordercast cluster re'"
        words = [shell, "--no-config", "-c", asked]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert sorted(done.stdout.split()) == ["recover", "restart"]


def test_the_manual_page_has_every_verb_and_no_mistake_of_troff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "ordercast.1"
    page.write_text(said(capsys, "man"), encoding="utf-8")
    source = page.read_text(encoding="utf-8")
    assert re.findall(r'^\.SH "(\w+)"$', source, re.MULTILINE) == [v.name.upper() for v in VERBS]
    words = [needed("groff"), "-man", "-Tascii", "-ww", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "--faults SPEC" in re.sub(r".\x08", "", done.stdout)
