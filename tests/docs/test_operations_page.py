"""docs/operations.md, docs/runtime.md: files are read, commands and code run, tables are whole."""

import os
import re
import subprocess
import sys
from pathlib import Path

from ordercast.cli import VERBS
from ordercast.net.cluster.file import parse_cluster
from ordercast.net.daemon.desk import ClientDesk
from ordercast.net.daemon.metrics import exposition
from ordercast.net.daemon.session import ClientLimits
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from support.harness.loops import in_loop
from support.harness.ports import free_ports
from tools.settings import page

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")
RUNTIME = (DOCS / "runtime.md").read_text(encoding="utf-8")
ONE_SITE = '[cluster]\nname = "one"\n[sites.a]\naddress = "127.0.0.1:{}"\n[groups]\nalpha = ["a"]\n'


def blocks(page: str, kind: str) -> list[str]:
    found = re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert found
    return found


def section(title: str) -> str:
    return OPERATIONS.split(f"\n## {title}\n")[1].split("\n## ")[0]


def environment() -> dict[str, str]:
    scripts = str(Path(sys.executable).parent)
    return {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}


def test_the_commands_of_operations_run_in_their_order(tmp_path: Path) -> None:
    """On ports that are free here."""
    file = blocks(OPERATIONS, "toml")[0]
    commands = "\n".join(["set -e", *blocks(OPERATIONS, "sh")])
    used = sorted(set(re.findall(r"\b[79]10\d\b", file + commands)))
    for old, new in zip(used, free_ports(len(used)), strict=True):
        file, commands = file.replace(old, str(new)), commands.replace(old, str(new))
    (tmp_path / "cluster.toml").write_text(file, encoding="utf-8")
    try:
        done = subprocess.run(
            ["sh", "-c", commands],
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr
        assert "hello, all" in done.stdout
        assert "stopped: a, b, c" in done.stdout
        assert "no violation" in done.stdout
    finally:
        words = [sys.executable, "-m", "ordercast.cli", "cluster", "down", "cluster.toml"]
        subprocess.run(words, cwd=tmp_path, check=False, capture_output=True)


def test_the_file_shown_is_what_init_writes() -> None:
    assert page(OPERATIONS) == OPERATIONS
    cluster = parse_cluster(blocks(OPERATIONS, "toml")[1], source="page")
    assert cluster.addresses() == {"a": ("127.0.0.1", 7101), "b": ("127.0.0.1", 7102)}


def test_every_runtime_verb_is_in_the_table() -> None:
    told = {name.split()[0] for name in re.findall(r"^\| `(\w+)", section("Verbs"), re.MULTILINE)}
    others = {"plan", "sim", "stability", "audit", "sweep", "reproduce", "demo", "bench"}
    assert told == {verb.name for verb in VERBS} - others


@in_loop
async def test_every_field_of_the_status_and_every_metric_is_explained() -> None:
    async with local_cluster({"alpha": ["a", "b"]}) as cluster:
        desk = ClientDesk(site_of(cluster["a"]), ClientLimits(1, 1))
        status = desk.status()
        desk.close()
    told = set(re.findall(r"`(\w+)`", section("Status")))
    assert set(status) - {"site", "cluster"} <= told
    found = exposition(status)
    assert found is not None
    metrics = set(re.findall(r"^# TYPE ordercast_(\w+) ", found.decode(), re.MULTILINE))
    shown = set(re.findall(r"`(\w+)(?:\{[\w,]+\})?`", section("Metrics and health")))
    assert metrics <= shown


def test_the_code_of_the_runtime_page_prints_what_it_says(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "cluster.toml").write_text(ONE_SITE.format(port), encoding="utf-8")
    printed = []
    for code in blocks(RUNTIME, "python"):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    opened = "epoch 3 joined alpha members {'alpha': ('a', 'b', 'c'), 'beta': ('c',)}\n"
    changed = f"{opened}1 3 b'to three'\n"
    rolled = "[b'all', b'alone']\nback to 1 of ['alpha']\n2 2 b'together'\n"
    named = "1 b'sales'\n3 b'sales'\nagain 1\n"
    shown = ["1 alpha a 1 b'payload'\n", "3 b'three'\n", named, rolled, changed, "red\nblue\n"]
    assert printed == [*shown, "b'payload'\n"]
    for said in shown:
        assert f"```text\n{said}```" in RUNTIME
