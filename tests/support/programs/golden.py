"""Write what this program writes, for later programs to read: `python -m support.programs.golden`.

It makes `tests/data/versions/N`, where N is the wire version: frames between sites, frames of
clients and daemons, stores of a small cluster, and the history that they export. Once a version is
released its folder stays as it is, and a later version gets a folder of its own.
"""

import asyncio
import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from ordercast.check.report import check_history
from ordercast.core.batches import packed_body
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.history.reader import read_history
from ordercast.model.envelope import HeaderRun, unpack_body
from ordercast.model.groups import Site
from ordercast.model.messages import Key, MessageId, Placed, pack_payloads
from ordercast.net.admin import frames as admin
from ordercast.net.export.history import export
from ordercast.net.link.hello import Hello, encode_hello
from ordercast.net.local import LocalCluster, local_cluster
from ordercast.wire.codec import VERSION, encode_frame
from ordercast.wire.dissemination import encode_many
from ordercast.wire.replica_digest import DigestPoint, ReplicaDigest
from wire.every_kind import EDITS, FRAMES, MANY, PLAIN

ALL = Path(__file__).resolve().parents[2] / "data" / "versions"
GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}
HELLO = Hello("demo", "b", "a", 2, 3, b"12345678", 4, 5, 6, {"protocol": "ring"}, "why")
DIGEST = ReplicaDigest("alpha", (DigestPoint(2, 1_000, 7, 8, 1, 9),))
TARGETS = admin.Targets(("a", "b"), (("alpha", ("a", "b")),), (("a", "b"),))
OPENED = EpochOpened(
    2, 7, "ring", "star", ("alpha",), (), (("alpha", ("a", "b")),), (1,), (("alpha", ("b",)),)
)
RUNS = (HeaderRun(0, 1, (("a", b""), ("colour", b"red"))), HeaderRun(1, 2, (("b", b"\xff"),)))
BODIES = (
    pack_payloads([b"one", b"two"]),
    packed_body([b"one"], 1_700_000_000_000_000_000, (), ()),
    packed_body([b"one", b"two", b"three"], 5, RUNS, ("beta", "alpha")),
)
REQUESTS: tuple[admin.ClientFrame, ...] = (
    admin.ClientHello(5, "demo", "a", bytes(range(16)), 5),
    admin.Send(1, "alpha", (), 2, b"body", False, 0),
    admin.Watch(1, "alpha", 4, 2),
    admin.Subscribe(3, None, True, 1),
    admin.Credit(3, 100, 1_000, 7),
    admin.Unsubscribe(3),
    admin.Confirm(4, 7, 1),
    admin.StatusRequest(5),
    admin.Change(6, "change 1", EDITS),
    admin.DigestRequest(7, "alpha", DIGEST, "why"),
)
REPLIES: tuple[admin.DaemonFrame, ...] = (
    admin.Welcome(
        5, "a", 2, 1, 100, 1_000, TARGETS, admin.ServedCluster("demo", "safe", "wait", False, 9)
    ),
    admin.DaemonRefusal("why", True),
    admin.StagesReached(((1, 2, "alpha", 4),)),
    admin.Rejected(1, "TooLarge", "why"),
    admin.SubscribedBatches(3, ((7, 2, Placed(Key((0, 5), "d"), 99, PLAIN), 1),)),
    admin.Shed(3, 7, 2, "alpha", "a", 1, 4, 2),
    admin.Opened(3, OPENED),
    admin.Rolled(3, Rollback(5, 2, 2, ((6, MessageId("a", 1, "alpha", 4)),))),
    admin.Answer(5, b"{}"),
    admin.Failed(6, "ConfigError", "why"),
    TARGETS,
)


def line(data: bytes, value: Any) -> str:
    """The bytes, and what they say as plain data."""
    return f"{data.hex()} {json.dumps(plain(value))}"


def plain(value: Any) -> Any:
    """Structs as arrays, bytes as base64."""
    return msgspec.to_builtins(value, str_keys=True)


def write_frames(folder: Path) -> None:
    frames = [line(encode_frame(frame), frame) for frame in FRAMES]
    _write(folder / "frames.txt", frames)
    _write(folder / "packets.txt", [line(encode_many(MANY), MANY)])
    _write(folder / "hellos.txt", [line(encode_hello(HELLO), HELLO)])
    _write(folder / "requests.txt", [line(admin.frame_of(one), one) for one in REQUESTS])
    _write(folder / "replies.txt", [line(admin.frame_of(one), one) for one in REPLIES])


def write_bodies(folder: Path) -> None:
    """Bodies in both forms, as stores and batches have them."""
    _write(folder / "bodies.txt", [line(body, unpack_body(body)) for body in BODIES])


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


async def run_cluster(folder: Path) -> None:
    """Messages of every site, to a group and to listed sites; a change; a site that is killed."""
    async with local_cluster(GROUPS, dir=folder) as cluster:
        await _send(cluster, "a", "alpha", b"one", b"two")
        await _send(cluster, "c", "beta", b"three")
        await (await cluster["b"].multicast_to(["a", "c"], b"four")).stable()
        await cluster["b"].confirm(2)
        await cluster["c"].join("alpha")
        await cluster.restart("b")
        await _send(cluster, "b", "alpha", b"five", b"six")


async def _send(cluster: LocalCluster, site: Site, group: str, *payloads: bytes) -> None:
    for payload in payloads:
        receipt = await cluster[site].multicast(group, payload)
        await receipt.stable()


def verdict_of(history: Path) -> dict[str, Any]:
    """The verdict on a history, without what a clock says."""
    told = check_history(read_history(history)).as_json()
    return {name: value for name, value in told.items() if name != "seconds"}


def main() -> None:
    folder = ALL / str(VERSION)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    write_frames(folder)
    write_bodies(folder)
    with tempfile.TemporaryDirectory() as made:
        stores = Path(made) / "stores"
        asyncio.run(run_cluster(stores))
        for path in sorted(stores.glob("*.db")):
            packed = folder / f"{path.name}.gz"
            packed.write_bytes(gzip.compress(path.read_bytes(), mtime=0))
        export(stores, folder / "history")
    told = json.dumps(verdict_of(folder / "history"), indent=1, sort_keys=True)
    (folder / "verdict.json").write_text(told + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
