"""docs/architecture.md lists the places of a new protocol: a toy is added by that list alone.

The project is copied, and the toy edits exactly the places that the page names, each in the way
that its line says. What demands something of every protocol must then be content.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "sketch"
COPIED = ("src", "tests", "docs", "tools", "examples", "README.md", "pyproject.toml")
JUDGING = {  # by name: what every protocol is put to, of which only the toy is run here
    "tests/core/test_conformance.py": "test_conformance",
    "tests/plan/test_protocol_costs.py": "test_protocol_costs",
}
DEMANDING = (  # the tests that ask for something of every protocol
    "tests/docs/test_listing_pages.py",
    "tests/docs/test_comparison_page.py",
    "tests/plan/test_protocols.py",
    "tests/plan/test_planner_page.py",
    "tests/scenarios",
)

SHOWN = re.compile(r"```sh\n(?P<code>[^`]*?)```\n\n```text\n(?P<text>.*?)```", re.DOTALL)
PROTOCOL = '''"""`sketch`: message passing ([GS] §3.2) once more, as a toy."""

from ordercast.core.order.propagation import Propagation


class Sketch(Propagation):
    """As its base, by another name."""
'''
SCENARIO = """seed = 2
[groups]
first = ["a", "b", "c"]
second = ["c", "d"]
[options]
protocol = "sketch"
messages = 8
[expect]
sent = 8
violations = []
"""


def places() -> list[str]:
    """What the page lists, in its order."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n### a protocol\n")[2].partition("\n### ")[0]
    listed = section.strip().partition("\n\n")[0]
    return re.findall(r"^- `([\w/.]+)`", listed, re.MULTILINE)


class Copy:
    """A copy of the project, and the places in it that were edited."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.edited: list[str] = []
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, root / name)
            else:
                shutil.copy2(source, root / name)

    def write(self, place: str, text: str) -> None:
        self.edited.append(place)
        (self.root / place.replace("NAME", NAME)).write_text(text, encoding="utf-8")

    def add(self, place: str, *, before: str, text: str) -> None:
        """Insert the text."""
        old = (self.root / place).read_text(encoding="utf-8")
        assert before in old, f"{place} has no {before!r}"
        self.write(place, old.replace(before, text + before))

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root / "src")},
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def command(self, place: str, *words: str) -> None:
        """The command writes the place."""
        self.run(*words)
        self.edited.append(place)

    def print_again(self, place: str) -> None:
        """Let the page show what its `ordercast plan` prints now."""
        page = (self.root / place).read_text(encoding="utf-8")
        block = next(each for each in SHOWN.finditer(page) if "ordercast plan" in each["code"])
        printed = self.shell(block["code"])
        shown = block.group().replace(block["text"], printed)
        self.write(place, page.replace(block.group(), shown))

    def shell(self, code: str) -> str:
        found = f"{sys.prefix}/bin{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-euc", code.replace(".venv/bin/", "")], cwd=self.root,
            env={**os.environ, "PYTHONPATH": str(self.root / "src"), "PATH": found},
            capture_output=True, text=True, timeout=100, check=True,
        )  # fmt: skip
        return done.stdout


def edits(copy: Copy) -> dict[str, Callable[[str], None]]:
    """By place: the toy's edit there."""
    return {
        "src/ordercast/core/order/NAME.py": lambda place: copy.write(place, PROTOCOL),
        "src/ordercast/core/order/registry.py": lambda place: register(copy, place),
        "src/ordercast/plan/protocols.py": lambda place: advise(copy, place),
        "tools/comparison.py": lambda place: copy.add(
            place,
            before='    "combining_counting": Words(\n',
            text=f'    "{NAME}": Words("protocols.md#{NAME}", "1 + depth", "n + ε", "a relay"),\n',
        ),
        "docs/comparison.md": lambda place: copy.command(place, "-m", "tools.comparison"),
        "docs/protocols.md": lambda place: copy.add(
            place, before="## `tom`\n", text=f"## `{NAME}`\nAs `propagation`.\n\n"
        ),
        "docs/guarantees.md": lambda place: copy.add(
            place,
            before="| `tom` | `agreed` |",
            text=f"| `{NAME}` | `agreed` | yes | on request | the path | n + ε | what passes |\n",
        ),
        "docs/operations.md": lambda place: copy.command(place, "-m", "tools.settings"),
        "docs/planner.md": copy.print_again,
        "README.md": copy.print_again,
        "tests/scenarios/NAME.toml": lambda place: copy.write(place, SCENARIO),
    }


def register(copy: Copy, place: str) -> None:
    copy.add(
        place,
        before="from ordercast.core.order.symmetric import Symmetric\n",
        text=f"from ordercast.core.order.{NAME} import Sketch\n",
    )
    copy.add(
        place,
        before='        ProtocolInfo("arrow", ',
        text=f'        ProtocolInfo("{NAME}", Sketch),\n',
    )


def advise(copy: Copy, place: str) -> None:
    copy.add(
        place,
        before='    "arrow": Profile(',
        text=f'    "{NAME}": Profile(on_a_tree, RELAYS, "what passes it"),\n',
    )


def test_a_toy_protocol_is_added_by_the_list_alone(tmp_path: Path) -> None:
    copy = Copy(tmp_path / "copy")
    ways = edits(copy)
    listed = places()
    assert sorted(ways) == sorted(listed), "the list of the page and the toy's edits"
    for place in listed:
        ways[place](place)
    assert list(dict.fromkeys(copy.edited)) == listed

    pytest = ("-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider")
    copy.run(
        *pytest, *JUDGING, *DEMANDING, "-k", f"{NAME} or not ({' or '.join(JUDGING.values())})"
    )
    groups = "examples/groups/figure3.toml"
    told = copy.run("-m", "ordercast.cli", "sim", groups, "--protocol", NAME, "--messages", "50")
    assert "no violation" in told
    assert NAME in copy.run("-m", "ordercast.cli", "plan", groups)
