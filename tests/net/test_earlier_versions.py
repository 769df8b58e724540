"""What earlier versions wrote is read for ever: stores, histories, frames that are still spoken.

`tests/data/versions/N.M` was written by a program of wire version N with stores of format M
(`support.programs.golden`); `5` with stores of format 3.
"""

import contextlib
import gzip
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest

from ordercast.model.envelope import unpack_body
from ordercast.model.errors import Fenced
from ordercast.net.admin.frames import ADMIN_CODECS, ClientFrame, DaemonFrame, decode_request
from ordercast.net.export.history import export
from ordercast.net.link.hello import split_hello
from ordercast.net.local import local_cluster
from ordercast.net.site.node import Node
from ordercast.net.store.formats import STEPS, newest_format
from ordercast.net.store.store import Store
from ordercast.wire.codec import CODECS, VERSION, WireFrame
from ordercast.wire.dissemination import decode_many
from support.harness.commands import with_support
from support.harness.loops import in_loop
from support.programs import killed_migration
from support.programs.golden import ALL, GROUPS, plain, verdict_of

PROGRAM = Path(killed_migration.__file__)
FOLDERS = sorted(
    (folder for folder in ALL.iterdir() if folder.is_dir()),
    key=lambda folder: [int(number) for number in folder.name.split(".")],
)
WITH_FRAMES = [folder for folder in FOLDERS if (folder / "frames.txt").exists()]
every_frame = pytest.mark.parametrize("folder", WITH_FRAMES, ids=lambda folder: folder.name)
every_version = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)

# What the applications have not confirmed, without the copies. Of 5, b's had confirmed two.
PAYLOADS = {
    "5": {
        "a": "one two four five six",
        "b": "three five six",
        "c": "three four five six",
    },
    "5.7": {
        "a": "one two four five six p7 p8 later"
        " first listed-first again listed-again repeated wide",
        "b": "three five six p7 p8 later named first listed-first again listed-again repeated wide",
        "c": "three four five six p7 p8 later named first again repeated wide",
    },
}
EARLIER = PAYLOADS["5"]  # 5.4 to 5.6 are of the same cluster
MESSAGES = {"5.7": 19}  # in the history, with the copies; those of earlier ones have six


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


def versions_of(folder: Path) -> dict[str, int]:
    """Its wire version, the format of its stores, the version of its daemons' frames."""
    file = folder / "versions.json"
    if file.exists():
        found: dict[str, int] = json.loads(file.read_text("ascii"))
        return found
    return {"wire": 5, "store": 3, "admin": 5}


def test_the_newest_version_has_a_folder() -> None:
    newest = {"wire": VERSION, "store": newest_format(), "admin": max(ADMIN_CODECS)}
    assert versions_of(FOLDERS[-1]) == newest
    assert FOLDERS[-1].name == f"{VERSION}.{newest_format()}"


def test_there_are_stores_of_every_format() -> None:
    assert {versions_of(folder)["store"] for folder in FOLDERS} == {*STEPS, newest_format()}


def test_the_newest_folder_has_every_kind_of_frame() -> None:
    codec = ADMIN_CODECS[versions_of(FOLDERS[-1])["admin"]]
    requests = [codec.request(data[4:]) for data, _ in lines(FOLDERS[-1] / "requests.txt")]
    replies = [codec.reply(data[4:]) for data, _ in lines(FOLDERS[-1] / "replies.txt")]
    assert {type(frame) for frame in requests} == set(get_args(ClientFrame))
    assert {type(frame) for frame in replies} == set(get_args(DaemonFrame))
    read = CODECS[versions_of(FOLDERS[-1])["wire"]].decode
    found = {type(read(data)) for data, _ in lines(FOLDERS[-1] / "frames.txt")}
    assert found == set(get_args(WireFrame))


@every_frame
def test_frames_of_a_version_that_is_spoken_say_what_they_said(folder: Path) -> None:
    codec = CODECS.get(versions_of(folder)["wire"])
    if codec is not None:
        require_read(folder / "frames.txt", codec.decode)
        require_read(folder / "packets.txt", decode_many)


@every_frame
def test_bodies_say_what_they_said(folder: Path) -> None:
    require_read(folder / "bodies.txt", unpack_body)


@every_frame
def test_a_hello_and_a_clients_hello_of_every_version_are_read(folder: Path) -> None:
    require_read(folder / "hellos.txt", lambda data: (split_hello(data) or ("", 0))[0])
    data, expected = lines(folder / "requests.txt")[0]
    assert starts_as(expected, json.loads(json.dumps(plain(decode_request(data[4:])))))


@every_frame
def test_frames_of_clients_and_daemons_say_what_they_said(folder: Path) -> None:
    codec = ADMIN_CODECS.get(versions_of(folder)["admin"])
    if codec is not None:
        require_read(folder / "requests.txt", lambda data: codec.request(data[4:]))
        require_read(folder / "replies.txt", lambda data: codec.reply(data[4:]))


def unpacked(folder: Path, to: Path) -> Path:
    to.mkdir()
    for packed in folder.glob("*.db.gz"):
        (to / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return to


@every_version
def test_a_store_of_every_version_has_its_format(folder: Path, tmp_path: Path) -> None:
    for store in unpacked(folder, tmp_path / "stores").iterdir():
        with contextlib.closing(sqlite3.connect(store)) as db:
            (found,) = db.execute("PRAGMA user_version").fetchone()
        assert found == versions_of(folder)["store"]


@every_version
@in_loop
async def test_a_cluster_goes_on_with_the_stores_of_every_version(
    folder: Path, tmp_path: Path
) -> None:
    stores, want = unpacked(folder, tmp_path / "stores"), payloads_of(folder)
    async with local_cluster(GROUPS, dir=stores) as cluster:
        for site, payloads in want.items():
            assert await first(cluster[site], len(payloads)) == payloads
        receipt = await cluster["a"].multicast("alpha", b"seven")
        await receipt.stable()
        for site, payloads in want.items():
            assert await first(cluster[site], len(payloads) + 1) == [*payloads, b"seven"]
    done = export(stores, tmp_path / "history")
    assert done.sites == ["a", "b", "c"]
    verdict = verdict_of(tmp_path / "history")
    assert verdict["ok"]
    assert verdict["messages"] == MESSAGES.get(folder.name, 6) + 1


def payloads_of(folder: Path) -> dict[str, list[bytes]]:
    return {
        site: [word.replace("-", " ").encode() for word in words.split()]
        for site, words in PAYLOADS.get(folder.name, EARLIER).items()
    }


@pytest.mark.parametrize("name", MESSAGES)
@in_loop
async def test_producers_ids_clients_and_readers_of_every_version_are_remembered(
    name: str, tmp_path: Path
) -> None:
    folder = ALL / name
    stores, want = unpacked(folder, tmp_path / "stores"), payloads_of(folder)
    async with local_cluster(GROUPS, dir=stores) as cluster:
        site = cluster["a"]
        marks = {
            (one["producer"], one["group"]): (one["number"], one.get("generation"))
            for one in (await site.status())["producers"]
        }
        assert marks.pop(("sink", "alpha")) == (1, 2)
        assert marks.pop(("+ids", "beta")) == (1, None)
        assert marks.pop(("+clients", "alpha")) == (1, None)
        assert [one for one, _ in marks] == ["+clients"]  # of the list
        with pytest.raises(Fenced):
            await (await site.produce("sink", 9, "alpha", [b"fenced"], generation=1)).stable()
        await (await site.produce("sink", 1, "alpha", [b"a copy"], generation=2)).stable()
        await (await cluster["b"].multicast("beta", b"a copy", id="order-1")).stable()
        await (await site.produce("sink", 2, "alpha", [b"new"], generation=2)).stable()
        assert await first(cluster["b"], len(want["b"]) + 1) == [*want["b"], b"new"]
        followed = cluster["c"].deliveries(reader="billing")
        while not (payload := getattr(await anext(followed), "payload", b"")):
            pass
        assert payload == b"named"  # it has confirmed what came before


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


@pytest.mark.parametrize("folder", FOLDERS[:1], ids=lambda folder: folder.name)
def test_a_kill_at_any_line_of_a_migration_leaves_the_old_store_or_the_new_one(
    folder: Path, tmp_path: Path
) -> None:
    store = unpacked(folder, tmp_path / "stores") / "a.db"
    (work := tmp_path / "work").mkdir()
    Store.open(store, cluster="local", site="a", durability="os").close_sync()  # the newest format
    command = [sys.executable, str(PROGRAM), str(store), str(work)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=with_support(), timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    left = [line.split()[1] for line in done.stdout.splitlines()]
    assert left == sorted(left, reverse=True)  # old, old, … new, new
    assert left.count("old") > 30
    assert left.count("new") > 1
