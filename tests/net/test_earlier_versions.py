"""What earlier versions wrote is read for ever: stores, histories, frames that are still spoken.

`tests/data/versions/N` was written by the program of wire version N (`support.programs.golden`).
"""

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ordercast.model.envelope import unpack_body
from ordercast.net.admin.frames import ADMIN_CODECS, decode_request
from ordercast.net.export.history import export
from ordercast.net.link.hello import split_hello
from ordercast.net.local import local_cluster
from ordercast.net.site.node import Node
from ordercast.net.store.store import Store
from ordercast.wire.codec import CODECS, VERSION
from ordercast.wire.dissemination import decode_many
from support.harness.loops import in_loop
from support.programs import killed_migration
from support.programs.golden import ALL, GROUPS, plain, verdict_of

PROGRAM = Path(killed_migration.__file__)
FOLDERS = sorted(folder for folder in ALL.iterdir() if folder.is_dir())
every_version = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)

PAYLOADS = {
    "a": [b"one", b"two", b"four", b"five", b"six"],
    "b": [b"three", b"five", b"six"],  # its application had confirmed the first two
    "c": [b"three", b"four", b"five", b"six"],
}


def starts_as(expected: Any, found: Any) -> bool:
    """Whether `found` says what `expected` says. Later programs may add fields at the end."""
    if isinstance(expected, list) and isinstance(found, list):
        return len(found) >= len(expected) and all(map(starts_as, expected, found))
    return bool(expected == found)


def lines(path: Path) -> list[tuple[bytes, Any]]:
    told = [line.split(" ", 1) for line in path.read_text("ascii").splitlines()]
    return [(bytes.fromhex(data), json.loads(value)) for data, value in told]


def require_read(path: Path, decode: Callable[[bytes], Any]) -> None:
    kept = lines(path)
    assert kept
    for data, expected in kept:
        assert starts_as(expected, json.loads(json.dumps(plain(decode(data))))), data.hex()


def test_the_newest_version_has_a_folder() -> None:
    assert FOLDERS[-1].name == str(VERSION)


@every_version
def test_frames_of_a_version_that_is_spoken_say_what_they_said(folder: Path) -> None:
    codec = CODECS.get(int(folder.name))
    if codec is not None:
        require_read(folder / "frames.txt", codec.decode)
        require_read(folder / "packets.txt", decode_many)


@every_version
def test_bodies_say_what_they_said(folder: Path) -> None:
    require_read(folder / "bodies.txt", unpack_body)


@every_version
def test_a_hello_and_a_clients_hello_of_every_version_are_read(folder: Path) -> None:
    require_read(folder / "hellos.txt", lambda data: (split_hello(data) or ("", 0))[0])
    data, expected = lines(folder / "requests.txt")[0]
    assert starts_as(expected, json.loads(json.dumps(plain(decode_request(data[4:])))))


@every_version
def test_frames_of_clients_and_daemons_say_what_they_said(folder: Path) -> None:
    codec = ADMIN_CODECS.get(int(folder.name))
    if codec is not None:
        require_read(folder / "requests.txt", lambda data: codec.request(data[4:]))
        require_read(folder / "replies.txt", lambda data: codec.reply(data[4:]))


def unpacked(folder: Path, to: Path) -> Path:
    to.mkdir()
    for packed in folder.glob("*.db.gz"):
        (to / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return to


@every_version
@in_loop
async def test_a_cluster_goes_on_with_the_stores_of_every_version(
    folder: Path, tmp_path: Path
) -> None:
    stores = unpacked(folder, tmp_path / "stores")
    async with local_cluster(GROUPS, dir=stores) as cluster:
        for site, payloads in PAYLOADS.items():
            assert await first(cluster[site], len(payloads)) == payloads
        receipt = await cluster["a"].multicast("alpha", b"seven")
        await receipt.stable()
        for site, payloads in PAYLOADS.items():
            assert await first(cluster[site], len(payloads) + 1) == [*payloads, b"seven"]
    done = export(stores, tmp_path / "history")
    assert done.sites == ["a", "b", "c"]
    verdict = verdict_of(tmp_path / "history")
    assert verdict["ok"]
    assert verdict["messages"] == 7


async def first(node: Node, count: int) -> list[bytes]:
    """The payloads that the application has not confirmed."""
    found: list[bytes] = []
    async for item in node.deliveries():
        payload = getattr(item, "payload", None)
        if payload is not None:
            found.append(payload)
        if len(found) == count:
            break
    return found


@every_version
def test_a_history_of_every_version_is_judged_as_it_was(folder: Path) -> None:
    expected = json.loads((folder / "verdict.json").read_text("utf-8"))
    found = verdict_of(folder / "history")
    for name, value in expected.items():
        if isinstance(value, dict):
            assert value.items() <= found[name].items(), name
        else:
            assert found[name] == value, name


def test_the_comparison_finds_what_differs() -> None:
    assert starts_as([1, ["x"]], [1, ["x", 2], 3])
    assert not starts_as([1, ["x"]], [1, ["y"]])
    assert not starts_as([1, 2], [1])


@every_version
def test_a_kill_at_any_line_of_a_migration_leaves_the_old_store_or_the_new_one(
    folder: Path, tmp_path: Path
) -> None:
    store = unpacked(folder, tmp_path / "stores") / "a.db"
    (work := tmp_path / "work").mkdir()
    Store.open(store, cluster="local", site="a", durability="os").close_sync()  # the newest format
    command = [sys.executable, str(PROGRAM), str(store), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    left = [line.split()[1] for line in done.stdout.splitlines()]
    assert left == sorted(left, reverse=True)  # old, old, … new, new
    assert left.count("old") > 30
    assert left.count("new") > 1
