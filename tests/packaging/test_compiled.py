"""The compiled companion: built from these sources, the same histories; from others, refused.

Here a few modules are compiled; the campaign `compiled` compiles them all.
"""

import ast
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from itertools import cycle
from pathlib import Path

import pytest

from ordercast.companion import COMPILED, LIBRARY, MANIFEST, PACKAGE, PURE, digest_of_sources
from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.version import __version__
from ordercast.sim import schedules
from ordercast.sim.schedules import LONG_EVERY
from ordercast.sim.simulate import simulate
from tools.compiled import compiled_modules

ROOT = Path(__file__).resolve().parent.parent.parent
FEW = [
    "ordercast.core.epochs.fence", "ordercast.core.gate", "ordercast.core.link",
    "ordercast.sim.networks",
]  # fmt: skip
SHORT = [seed for seed in range(2001, 2052) if seed % LONG_EVERY]  # a long one takes seconds
SEEDS = [("schedule", *each) for each in zip(cycle(PROTOCOLS), SHORT, strict=False)]
SEEDS += [("cutting", *each) for each in zip(PROTOCOLS, SHORT, strict=False)]  # sites are excluded
HASHES = """
import json, sys
from ordercast.companion import CODE
from ordercast.core import link
from ordercast.sim import schedules
from ordercast.sim.simulate import simulate
runs = [(getattr(schedules, kind)(p, s), s) for kind, p, s in json.loads(sys.argv[1])]
print(json.dumps([CODE, link.__file__, [simulate(*run).history_hash for run in runs]]))
"""


@cache
def compiled() -> list[str]:
    return compiled_modules()


def python(path: Path, *arguments: str, pure: str = "") -> "subprocess.CompletedProcess[str]":
    """A Python that finds a companion in `path`."""
    environment = {**os.environ, "PYTHONPATH": str(path), "ORDERCAST_PURE": pure}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=path)


def companion(path: Path, **other: object) -> None:
    """A companion with the right manifest, but for what is said otherwise, and an empty library."""
    place = path / PACKAGE
    place.mkdir()
    digest = digest_of_sources(ROOT / "src" / "ordercast")
    manifest: Mapping[str, object] = {"version": __version__, "digest": digest, "modules": []}
    (place / MANIFEST).write_text(json.dumps({**manifest, **other}))
    (place / "__init__.py").touch()
    (place / f"{LIBRARY}{EXTENSION_SUFFIXES[0]}").touch()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"version": "0.0.9"}, f"is of version 0.0.9, not {__version__}"),
        ({"digest": "0" * 64}, "was compiled from other sources"),
        ({"modules": ["ordercast.core.link"]}, "has no ordercast.core.link for this Python"),
        ({"modules": None}, "cannot be read"),
    ],
)
def test_a_companion_that_does_not_fit_is_refused_in_one_line(
    other: dict[str, object], told: str, tmp_path: Path
) -> None:
    companion(tmp_path, **other)
    done = python(tmp_path, "-m", "ordercast.cli", "--version")
    assert done.stdout == f"ordercast {__version__} (pure)\n"
    assert told in done.stderr
    assert done.stderr.startswith("ordercast: the compiled companion ")
    assert done.stderr.count("\n") == 1
    switched_off = python(tmp_path, "-m", "ordercast.cli", "--version", pure="1")
    assert (switched_off.stdout, switched_off.stderr) == (done.stdout, "")


def test_a_companion_that_fits_is_told(tmp_path: Path) -> None:
    companion(tmp_path)
    done = python(tmp_path, "-m", "ordercast.cli", "--version")
    assert (done.stdout, done.stderr) == (f"ordercast {__version__} (compiled)\n", "")


def test_every_change_of_a_room_that_is_compiled_makes_it_stale(tmp_path: Path) -> None:
    package = tmp_path / "ordercast"
    shutil.copytree(ROOT / "src" / "ordercast", package)
    before = digest_of_sources(package)
    assert before == digest_of_sources(ROOT / "src" / "ordercast")
    for room in ("model/limits.py", "wire/frames.py", "forest/tree.py", "core/link.py"):
        file = package / room
        file.write_text(file.read_text() + "\n")
        before, earlier = digest_of_sources(package), before
        assert before != earlier, room


def test_what_does_the_work_of_a_message_is_compiled_and_data_is_not() -> None:
    modules = compiled()
    for name in (
        "core.engine", "core.link", "core.epochs.member", "core.order.propagation",
        "core.order.two_phase", "core.stability.plain", "wire.codec", "forest.greedy",
        "sim.driver", "sim.world",
    ):  # fmt: skip
        assert f"ordercast.{name}" in modules
    for name in ("wire.frames", "core.outbox", "core.states", "core.structure"):
        assert f"ordercast.{name}" not in modules


def test_no_assignment_narrows_what_it_reads() -> None:
    """In `a.x, a.y = [], [*a.x]` mypy takes `a.x` for a list on the right already, and compiled
    code raises where it is a tuple."""
    for module in compiled():
        file = ROOT / "src" / f"{module.replace('.', '/')}.py"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                    written = [ast.unparse(target) for target in targets]
                    for place, value in enumerate(values):
                        read = {ast.unparse(part) for part in ast.walk(value)}
                        attributes = {name for name in written[:place] if "." in name}
                        assert not attributes & read, f"{file}:{node.lineno}"


def test_modules_that_share_a_base_with_an_interpreted_one_are_left_out(tmp_path: Path) -> None:
    core = tmp_path / "ordercast" / "core"
    core.mkdir(parents=True)
    (core / "data.py").write_text("from msgspec import Struct\nclass Data(Struct): ...\n")
    (core / "below.py").write_text("from ordercast.core.data import Data\nclass D(Data): ...\n")
    (core / "cached.py").write_text("from functools import cached_property\nclass C: ...\n")
    (core / "base.py").write_text("class Base: ...\n")
    (core / "free.py").write_text("class Free: ...\nclass Own(Free): ...\n")
    net = tmp_path / "ordercast" / "net"
    net.mkdir()
    (net / "use.py").write_text("from ordercast.core.base import Base\nclass Use(Base): ...\n")
    assert compiled_modules(tmp_path) == ["ordercast.core.free"]


def test_compiled_modules_give_the_same_histories(tmp_path: Path) -> None:
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    if shutil.which("gcc") is None or not headers.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("gcc or Python.h is missing: make setup installs gcc")
        pytest.skip("no gcc or no Python.h here: nothing can be compiled")
    words = ["-m", "tools.compiled", "--wheel", str(tmp_path / "wheel"), "--only", *FEW]
    built = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = (tmp_path / "wheel").glob("ordercast_compiled-*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    done = python(tmp_path, "-c", HASHES, json.dumps(SEEDS))
    assert done.stderr == ""
    code, file, hashes = json.loads(done.stdout)
    assert code == COMPILED
    assert Path(file).parent == tmp_path / PACKAGE / "ordercast" / "core"
    runs = [(getattr(schedules, kind)(p, s), s) for kind, p, s in SEEDS]
    assert hashes == [simulate(*run).history_hash for run in runs]
    off = json.loads(python(tmp_path, "-c", HASHES, "[]", pure="1").stdout)
    assert off[:2] == [PURE, str(ROOT / "src" / "ordercast" / "core" / "link.py")]
