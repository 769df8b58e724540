"""A user of the same machine who knows all names of a cluster without certificates: nothing."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.daemons import GROUPS, Daemons, up
from support.programs import intruder

FILE = "cluster.toml"
WORDS = ("", b"ocp\0".hex())  # nothing, or: refused


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    """In a place that every user can enter."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        with up(Path(place), in_process=True, durability="os") as running:
            yield running


def test_knowing_names_one_can_neither_speak_as_a_site_nor_change_anything(
    daemons: Daemons,
) -> None:
    job = {
        "cluster": "demo",
        "groups": GROUPS,
        "options": {"durability": "os"},
        "addresses": {site: ("127.0.0.1", port) for site, port in daemons.address.items()},
        "files": [
            str(daemons.dir),
            *(str(daemons.dir / name) for name in ("secret", "a.sock", "a.db", "a.log", "a.pid")),
        ],
    }
    done = subprocess.run(
        [sys.executable, intruder.__file__, json.dumps(job)],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert set(found["heard"].values()) <= set(WORDS), "strangers are told nothing"
    if found["user"] == intruder.NOBODY:
        assert set(found["files"].values()) == {"PermissionError"}
    daemons.good("send", FILE, "alpha", "still here")
    now = daemons.json("epoch", FILE)
    assert {epoch["protocol"] for epoch in now["epochs"]} == {"propagation"}
    begun = {edit for change in now["changes"] for edit in change["edits"]}
    assert begun <= {"alpha remembers clients"}  # by the message above
    assert daemons.json("group", "list", FILE)["groups"].keys() == GROUPS.keys()
    for site in daemons.sites:
        said = (daemons.dir / f"{site}.log").read_text(encoding="utf-8")
        assert "two processes" not in said
        assert said.count("does not prove the secret") == 1, "one line for all that came"
