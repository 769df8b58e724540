"""README's examples, executed as pasted, and what they show compared with what they print.

A block of shell or Python runs in one directory shared by the whole page, as a reader would do it;
a block of `text` right after it is what it must have printed. A line that is nothing but a duration
differs from run to run and is not compared. `make` is not run from inside `make test`: its targets
must exist. Nor is pip, or the demo: tests/packaging and tests/processes do that.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]]
FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
DURATION = re.compile(r"\d+(?:\.\d+)? m?s")


@dataclass(frozen=True, slots=True)
class Example:
    line: int
    kind: str
    code: str
    shown: str | None  # what it prints, where the page shows it


def examples(page: str) -> Iterator[Example]:
    blocks = list(FENCE.finditer(page))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block["kind"] not in ("sh", "python"):
            continue
        shown = following["text"] if following and following["kind"] == "text" else None
        yield Example(page.count("\n", 0, block.start()) + 1, block["kind"], block["text"], shown)


def make_targets() -> list[str]:
    found = re.search(r"^TARGETS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found is not None
    return found[1].split()


def without_make(code: str) -> str:
    """The commands that are run here; those for make are checked instead."""
    kept = []
    for line in code.splitlines():
        if line.startswith("make "):
            assert line.split("#")[0].split()[1] in make_targets(), line
        elif line.startswith(("pip install ordercast ", "ordercast demo ")):
            continue
        else:
            kept.append(line)
    return "\n".join(kept)


def execute(example: Example, directory: Path) -> str:
    if example.kind == "python":
        command = [sys.executable, "-c", example.code]
    else:
        command = ["bash", "-euc", without_make(example.code)]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=100,
        env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, f"README.md:{example.line}: {done.stderr}"
    return done.stdout


def comparable(output: str) -> list[str]:
    lines = [line.rstrip() for line in output.strip().splitlines()]
    return ["(duration)" if DURATION.fullmatch(line) else line for line in lines]


def test_the_examples_print_what_the_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    kinds = []
    for example in examples(page):
        printed = execute(example, tmp_path)
        kinds.append((example.kind, example.shown is not None))
        if example.shown is not None:
            assert comparable(printed) == comparable(example.shown), f"README.md:{example.line}"
    assert ("sh", True) in kinds
    assert ("python", True) in kinds


def test_the_page_names_the_two_commands() -> None:
    commands = "".join(e.code for e in examples((ROOT / "README.md").read_text(encoding="utf-8")))
    assert re.findall(r"^make (\w+)", commands, re.MULTILINE)[:2] == ["demo", "test"]


@pytest.mark.parametrize("page", sorted(PAGES), ids=str)
def test_links_between_files_lead_somewhere(page: Path) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!\w+:)([^)#\s]+)", text) + re.findall(r'src="([^":]+)"', text)
    assert [target for target in targets if not (ROOT / page.parent / target).exists()] == []


def test_a_make_line_for_a_target_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(AssertionError, match="make tset"):
        without_make("make demo\nmake tset\n")


def test_a_duration_on_its_own_may_differ_and_nothing_else() -> None:
    assert comparable("0.001 s \n") == comparable("2 s")
    assert comparable("delay 1.5 ms") != comparable("delay 1.6 ms")
