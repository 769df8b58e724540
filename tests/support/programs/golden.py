"""Write what this program writes, for later programs to read: `python -m support.programs.golden`.

It makes `tests/data/versions/N.M`, where N is the wire version and M the format of stores: frames
between sites, frames of clients and daemons, stores of a small cluster, and the history that they
export. Once a version is released its folder stays as it is, and a later version gets a folder of
its own. (The folder `5` was written with stores of format 3; 5.4 to 5.6 have stores and histories
of programs between releases.)
"""

import asyncio
import gzip
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec

from net.daemon.test_request_grants import NEEDS
from ordercast.check.report import check_history
from ordercast.core.batches import packed_body
from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import EpochOpened
from ordercast.history.reader import read_history
from ordercast.model.envelope import HeaderRun, unpack_body
from ordercast.model.features import known_features
from ordercast.model.groups import Site
from ordercast.model.messages import Key, MessageId, Placed, pack_payloads
from ordercast.net.admin import frames as admin
from ordercast.net.export.history import export
from ordercast.net.link.hello import Hello, encode_hello
from ordercast.net.local import LocalCluster
from ordercast.net.site.node import site_of
from ordercast.net.store.formats import newest_format
from ordercast.wire.codec import VERSION, encode_frame
from ordercast.wire.dissemination import encode_many
from ordercast.wire.lineage import StorePoint
from ordercast.wire.replica_digest import DigestPoint, ReplicaDigest
from support.clusters.served import Served, served
from support.clusters.sites import until
from wire.every_kind import FRAMES, MANY, PLAIN

ALL = Path(__file__).resolve().parents[2] / "data" / "versions"
NAME = f"{VERSION}.{newest_format()}"
GROUPS = {"alpha": ["a", "b"], "beta": ["b", "c"]}
HELLO = Hello(
    "demo", "b", "a", 2, 3, b"12345678", 4, 5, 6, {"protocol": "ring"}, "why",
    StorePoint(9, 3, 7, 8), True, 5, 5, "0.1.0", known_features(), "localhost:7201",
)  # fmt: skip
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
REQUESTS = tuple(frame for frame, _ in NEEDS)
REPLIES: tuple[admin.DaemonFrame, ...] = (
    admin.Welcome(
        6, "a", 2, 1, 100, 1_000, TARGETS, admin.ServedCluster("demo", "safe", "wait", False, 9),
        True, True, True, True, (("alpha", 4_097),), True, True,
    ),
    admin.DaemonRefusal("why", True, "NotGranted"),
    admin.StagesReached(((1, 2, "alpha", 4),)),
    admin.Rejected(1, "TooLarge", "why"),
    admin.SubscribedBatches(3, ((7, 2, Placed(Key((0, 5), "d"), 99, PLAIN), 1),)),
    admin.Shed(3, 7, 2, "alpha", "a", 1, 4, 2),
    admin.Withheld(3, 7, 2),
    admin.Opened(3, OPENED),
    admin.Rolled(3, Rollback(5, 2, 2, ((6, MessageId("a", 1, "alpha", 4)),))),
    admin.TurnGiven(3, 2**40, 7, 1),
    admin.RangeEnd(3),
    admin.GroupMarks((("alpha", 4_097), ("@205830ca5b23bbe3", 0))),
    admin.Answer(5, b"{}"),
    admin.Failed(6, "ConfigError", "why"),
    TARGETS,
)  # fmt: skip


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
    """Messages of every site, to a group and to listed sites; a change; a site that is killed; and
    copies: of a producer's messages, of one with an id, and of a client's requests."""
    async with served(folder, GROUPS) as found:
        cluster = found.cluster
        await until(lambda: known_features() == tuple(sorted(_used(cluster))))
        await _send(cluster, "a", "alpha", b"one", b"two")
        await _send(cluster, "c", "beta", b"three")
        await (await cluster["b"].multicast_to(["a", "c"], b"four")).stable()
        await cluster["b"].confirm(2)
        await cluster["c"].join("alpha")
        await found.kill("b")
        await found.start("b")
        await _send(cluster, "b", "alpha", b"five", b"six")
        for number in (7, 7, 8):
            receipt = await cluster["a"].produce("sink", number, "alpha", [b"p%d" % number])
            await receipt.stable()
        receipt = await cluster["a"].produce("sink", 1, "alpha", [b"later"], generation=2)
        await receipt.stable()
        for content in (b"named", b"a copy"):
            await (await cluster["b"].multicast("beta", content, id="order-1")).stable()
        await _ask_daemon(found)
        headers = {"colour": b"red"}
        await (await cluster["c"].multicast(["alpha", "beta"], b"wide", headers)).stable()
        reader = cluster["c"].deliveries(reader="billing", groups=["beta"])
        while getattr(await anext(reader), "payload", b"") != b"three":
            pass
        await cluster["c"].confirm(1, reader="billing")


def _used(cluster: LocalCluster) -> tuple[str, ...]:
    return site_of(cluster["a"]).core.layout.features


async def _ask_daemon(found: Served) -> None:
    """Requests of a client to a group and to a list: the first of each, and one that is stamped.
    The last one is taken before the daemon is killed, which the client does not hear, so it sends
    it again."""
    async with found.connect("a", patience_s=60.0) as client:
        for text in (b"first", b"again"):
            await (await client.multicast("alpha", text)).stable()
            await (await client.multicast_to(["a", "b"], b"listed " + text)).stable()
            await until(lambda: len(client._outgoing.marks) >= 2)
        session = found.admins["a"].desk.served()[0].session
        with patch.object(session, "_news_of"):
            before = site_of(found.cluster["b"]).core.logged
            repeated = await client.multicast("alpha", b"repeated")
            await until(lambda: site_of(found.cluster["b"]).core.logged > before)
            await found.kill("a")
        await found.start("a")
        await repeated.stable()


async def _send(cluster: LocalCluster, site: Site, group: str, *payloads: bytes) -> None:
    for payload in payloads:
        receipt = await cluster[site].multicast(group, payload)
        await receipt.stable()


def verdict_of(history: Path) -> dict[str, Any]:
    """The verdict on a history, without what a clock says."""
    told = check_history(read_history(history)).as_json()
    return {name: value for name, value in told.items() if name != "seconds"}


def main() -> None:
    folder = ALL / NAME
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    versions = {"wire": VERSION, "store": newest_format(), "admin": admin.VERSION}
    (folder / "versions.json").write_text(json.dumps(versions) + "\n", encoding="ascii")
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
