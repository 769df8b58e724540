"""docs/simulator.md: its examples run, its files are read, its tables name what there is."""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ordercast.cli import main, sim
from ordercast.sim.faults import KINDS, parse_faults
from ordercast.sim.networks import NETWORKS
from ordercast.sim.wan import parse_wan

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    found = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_its_commands_and_its_python_run() -> None:
    scripts = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    for command in blocks("sh"):
        done = subprocess.run(command, shell=True, cwd=ROOT, env=environment, capture_output=True)
        assert done.returncode == 0, done.stderr
    for code in blocks("python"):
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_its_files_are_read() -> None:
    wan, faults = blocks("toml")
    parse_wan(wan, "wan.toml").check(("a", "b", "c"))
    assert [fault.kind for fault in parse_faults("f.toml", lambda _: faults)] == [
        "loss",
        "partition",
    ]


def test_its_tables_name_every_network_and_every_fault() -> None:
    shown = re.findall(r"`([^`]+)`", section("Networks"))
    assert all(any(text.startswith(network) for text in shown) for network in NETWORKS)
    told = re.findall(r"^\| (.+?) \|", section("Faults"), re.MULTILINE)
    named = [name for cell in told for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(KINDS)


def test_every_option_and_every_key_of_the_json_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = set(re.findall(r"`(?:--)?([\w-]+)`", PAGE))
    assert main(["sim", '{"groups":{"g":["a","b"]}}', "--messages", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {*found, *found["frames"], *found["latency_ms"]} <= told
    parser = argparse.ArgumentParser()
    sim.arguments(parser)
    options = {name.lstrip("-") for a in parser._actions for name in a.option_strings}
    assert options - {"h", "help", "schedule"} <= told
