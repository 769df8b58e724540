"""Checkpoints that an earlier version wrote, one of each protocol: they are read, and written again
as they were, with nothing but empty fields added at the end of records."""

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from ordercast.core.epochs.layout import nowhere
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.packing import unpack_layout
from ordercast.core.epochs.records import Anew
from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.options import Options
from ordercast.sim.members import build_forest

WRITTEN: dict[str, tuple[str, str]] = json.loads(
    (Path(__file__).parent / "data" / "checkpoints.json").read_text(encoding="utf-8")
)


def extends(now: Any, before: Any) -> bool:
    if not isinstance(before, list):
        return bool(now == before)
    added = now[len(before) :]
    return not any(added) and all(map(extends, now, before)) and len(now) >= len(before)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_earlier_versions_checkpoint_is_read_and_nothing_in_it_is_written_otherwise(
    protocol: str,
) -> None:
    site, packed = WRITTEN[protocol]
    data = base64.b64decode(packed)
    anew = msgspec.msgpack.decode(data, type=Anew)
    assert extends(
        msgspec.msgpack.decode(msgspec.msgpack.encode(anew)), msgspec.msgpack.decode(data)
    )
    layout = unpack_layout(anew.layout, build_forest)
    assert protocol in {domain.protocol for domain in layout.domains.values()}
    options = Options(on_failure="wait")
    member = Member(site, nowhere(layout.voters), options, build_forest, boot=2, records=[anew])
    home = layout.home(site)
    assert home is not None
    (before,) = [state.checkpoint for state in anew.engines if state.epoch == home.epoch]
    again = member.engines[home.epoch].retention.whole()
    assert replace(again.state, ordering={}) == replace(before.state, ordering={})
    assert again.records == before.records
