"""Frames between the drivers of two sites, which no core looks at: handed-over states, digests of
replicas, questions about clients and copies. Whatever a peer says in them, it stops nobody."""

import random
import typing
from collections import Counter

import pytest
from msgspec.structs import replace

from ordercast.model.errors import FrameError
from ordercast.model.implicit import implicit_group
from ordercast.net.local import local_cluster
from ordercast.net.site.node import site_of
from ordercast.wire.client_marks import ClientMarksFrame, ListMarksWanted
from ordercast.wire.codec import decode_frame, encode_frame
from ordercast.wire.copies import CopyFrame
from ordercast.wire.handover import CHECKSUM_BYTES, HandoverFrame, SnapshotPiece
from ordercast.wire.replica_digest import ReplicaDigest
from support.cases.drawn_frames import Drawer
from support.harness.loops import in_loop

KINDS: tuple[type, ...] = (
    *typing.get_args(HandoverFrame),
    *typing.get_args(ClientMarksFrame),
    *typing.get_args(CopyFrame),
    ReplicaDigest,
)
FRAMES = 1_500


@pytest.mark.parametrize("peer", ["b", "c"], ids=["a member", "no member"])
@in_loop
async def test_no_frame_between_drivers_stops_a_site_or_what_it_sends(peer: str) -> None:
    heard: Counter[type] = Counter()
    async with local_cluster({"alpha": ["a", "b"], "beta": ["c"]}) as cluster:
        await (await cluster["a"].multicast("alpha", b"before")).stable()
        site = site_of(cluster["a"])
        drawer = Drawer(random.Random(f"lying {peer}"), site.core, peer, ["a", "b", "c"])
        for _ in range(FRAMES):
            drawn = drawer.struct(drawer.rng.choice(KINDS))
            if isinstance(drawn, SnapshotPiece):
                drawn = replace(drawn, checksum=bytes(CHECKSUM_BYTES))
            elif isinstance(drawn, ListMarksWanted):
                listed = tuple(sorted(drawer.rng.sample(["a", "b", "c", "d"], 2)))
                drawn = replace(drawn, members=listed, group=implicit_group(listed))
            try:
                frame = decode_frame(encode_frame(drawn))
            except FrameError:
                continue  # it breaks a rule of the wire
            site.driver.frames(peer, [frame])
            heard[type(drawn)] += 1
            assert not site.failed, frame
        await (await cluster["a"].multicast("alpha", b"after")).stable()
        told = {name for by_site in site.digests._heard.values() for name in by_site}
        assert told <= {"b"}, "a site that is no member has no say about replicas"
    assert set(heard) == set(KINDS)
    assert min(heard.values()) > 3
