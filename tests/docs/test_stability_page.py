"""docs/stability.md: its command prints what is shown, its tables name what there is."""

import argparse
import re
from pathlib import Path

import pytest

from ordercast.cli import main, stability
from ordercast.core.stability.protocols import PROTOCOLS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "stability.md").read_text(encoding="utf-8")


def test_its_command_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    command, *shown = block.splitlines()
    assert main(command.removeprefix("$ ordercast ").split()) == 0
    out, _ = capsys.readouterr()
    assert out.splitlines()[: len(shown)] == shown


def test_its_tables_name_every_protocol_with_its_file_and_every_option() -> None:
    for name in PROTOCOLS:
        assert re.search(rf"^\| `{name}` \|.* `{name}\.py` \|$", PAGE, re.MULTILINE)
        assert (ROOT / "src/ordercast/core/stability" / f"{name}.py").exists()
    parser = argparse.ArgumentParser(add_help=False)
    stability.arguments(parser)
    for action in parser._actions:
        assert f"| `{action.option_strings[0]}` |" in PAGE


def test_it_tells_of_every_erratum() -> None:
    assert re.findall(r"^\| (STAB-\d) \|", PAGE, re.MULTILINE) == [
        f"STAB-{number}" for number in range(1, 9)
    ]
