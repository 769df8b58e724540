"""docs/pipeline.md and the notebooks, executed in order on the suite's session, and what they show.

Commands of the page run in this process, in one directory, as a reader would type them. Of what is
printed, verdicts and counts of messages must be as shown; other numbers measure a protocol or a
machine, and of those lines the words must be. A line `...` stands for any number of lines.
"""

import contextlib
import io
import os
import re
import shlex
import textwrap
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from pyspark.sql import SparkSession

from ordercast.cli import main

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "pipeline.md").read_text(encoding="utf-8")
NOTEBOOKS = ROOT / "examples" / "notebooks"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d.,]*")
VARIES = ("network", "frames", "latency", "time", "hash", "judged in", "points", "±")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place where the page's relative names lead somewhere."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # tables are as wide as the terminal
    return tmp_path


def comparable(line: str) -> str:
    if line.startswith("    {"):  # a witness: which messages it names is the simulator's affair
        return " ".join(re.findall(r'"(\w+)":', line))
    if any(word in line for word in VARIES):
        return " ".join(NUMBER.sub("0", line).split())
    return line.rstrip()


def shown_as(printed: str, shown: str) -> bool:
    pieces = [re.escape(comparable(line)) + "\n" for line in shown.strip().splitlines()]
    pattern = "".join(r"(?:.*\n)*?" if piece == r"\.\.\." + "\n" else piece for piece in pieces)
    lines = [comparable(line) for line in printed.strip().splitlines()]
    return re.fullmatch(pattern, "\n".join(lines) + "\n") is not None


def executed(kind: str, text: str, space: dict[str, Any]) -> str:
    """What it prints. Results get whole names: the JVM was started elsewhere."""
    here = f"{Path.cwd()}/"
    text = text.replace("out/", f"{here}out/")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if kind == "python":
            exec(compile(text, "an example", "exec"), space)
        else:
            for line in text.splitlines():
                words = shlex.split(line, comments=True)
                assert words[0] == "ordercast", line
                assert main(words[1:]) == (1 if "--violations" in words else 0), line
    return printed.getvalue().replace(here, "")


def test_the_page_shows_what_its_commands_print(spark: SparkSession, checkout: Path) -> None:
    assert spark.version  # commands use the session that is there
    last, compared = "", 0
    for kind, text in FENCE.findall(PAGE):
        if kind == "toml":
            name = text.splitlines()[0].removeprefix("# ")
            (checkout / name).write_text(text)
        elif kind in ("sh", "python"):
            last = executed(kind, text, {})
        elif kind == "text":
            assert shown_as(last, text), f"the page shows\n{text}\nand this is printed\n{last}"
            compared += 1
    assert compared == 6


def printed_by(cell: Any) -> str:
    return "".join("".join(out["text"]) for out in cell["outputs"] if out.get("name") == "stdout")


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda file: file.stem)
def test_a_notebook_runs_and_prints_what_is_kept_in_it(
    notebook: Path, connect: str, tmp_path: Path
) -> None:
    """In a kernel of its own, as a client of the suite's session."""
    text = notebook.read_text(encoding="utf-8")
    read: Any = nbformat.reads
    kept, copy = read(text, as_version=4), read(text, as_version=4)
    environment = {
        **os.environ, "IPYTHONDIR": str(tmp_path / "ipython"), "SPARK_REMOTE": connect,
    }  # fmt: skip
    client = NotebookClient(copy, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env=environment)
    compared = 0
    for before, after in zip(kept.cells, copy.cells, strict=True):
        if before.cell_type == "code":
            shown, printed = printed_by(before), printed_by(after)
            assert shown_as(printed, shown) if shown else printed == "", (
                f"{before.source}: {printed}"
            )
            compared += bool(shown)
            drawn = [out for out in after.outputs if "image/png" in out.get("data", {})]
            assert len(drawn) == before.source.count("plt.show()")
    assert compared >= 2


def test_what_differs_is_noticed() -> None:
    shown = textwrap.dedent("""\
        latency      1.50 ms mean
        ...
        fifo             ok
        """)
    assert shown_as("latency   22.5 ms mean\nlost   ok\nfifo             ok\n", shown)
    assert not shown_as("latency   22.5 s mean\nfifo             ok\n", shown)
    assert not shown_as("latency   22.5 ms mean\nfifo             1\n", shown)
