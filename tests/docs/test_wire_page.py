"""docs/wire.md: its example is a real frame, its tables and its errors are the code's."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from ordercast.model.errors import FrameError
from ordercast.model.messages import Batch, Key, Placed
from ordercast.wire.codec import HEADER_BYTES, WireFrame, decode_frame, encode_frame
from ordercast.wire.frames import UP, ControlItem, Data, DownItem, Relay, Submit, UpItem
from tools.frame import EXAMPLE, taken_apart
from wire.mutations import sealed

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "wire.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\w+) \| `(.)` \| (.+) \|$", re.MULTILINE)
LANES = {"UP": UpItem, "DOWN": DownItem, "CONTROL": ControlItem}

BATCH = Batch("a", 1, "alpha", 17, 1, b"")
WRONG = Batch("a", 1, "alpha", 0, 1, b"")
NAMELESS = Batch("no name", 1, "alpha", 17, 1, b"")
RELAY = Relay(Placed(Key((0, 5), "d"), 99, BATCH))


def block(beginning: str) -> list[str]:
    """The lines of the block of the page that begins so."""
    (found,) = [
        b for b in re.findall(r"```\n(.*?)\n```", PAGE, re.DOTALL) if b.startswith(beginning)
    ]
    return str(found).split("\n")


def test_the_example_is_a_real_frame_taken_apart() -> None:
    data = encode_frame(EXAMPLE)
    assert block("6f 63 66") == [line.rstrip() for line in taken_apart(data)]
    assert f"all {len(data)} bytes of it" in PAGE
    shown = [line.strip().split("  ")[0] for line in block("6f 63 66")]
    assert bytes.fromhex("".join(shown)) == data


def test_the_example_with_seq_0_is_refused_as_the_page_says() -> None:
    body = msgspec.msgpack.decode(encode_frame(EXAMPLE)[HEADER_BYTES:])
    body[2][5][0][1][2][3] = 0
    with pytest.raises(FrameError) as caught:
        decode_frame(sealed(msgspec.msgpack.encode(body)))
    assert block("frame.items") == [str(caught.value)]


def fields(kind: Any) -> str:
    return ", ".join(field.name for field in msgspec.structs.fields(kind))


def test_the_tables_have_every_frame_and_every_item_with_its_tag_and_its_fields() -> None:
    expected = [(k.__name__, k.__struct_config__.tag, fields(k)) for k in get_args(WireFrame)]
    for lane, kinds in LANES.items():
        for kind in get_args(kinds):
            cells = f"{lane} | {fields(kind)}"
            expected.append((kind.__name__, kind.__struct_config__.tag, cells))
    found = [
        (name, tag, cells if cells.count("|") < 2 else cells.rpartition(" | ")[0])
        for name, tag, cells in ROW.findall(PAGE)
    ]
    assert found == expected


def checksum_off_by_one() -> object:
    data = bytearray(encode_frame(EXAMPLE))
    data[HEADER_BYTES - 1] ^= 1
    return decode_frame(bytes(data))


ERRORS: tuple[Callable[[], object], ...] = (
    lambda: decode_frame(sealed(b"", version=7)),
    checksum_off_by_one,
    lambda: decode_frame(encode_frame(Data(1, 1, UP, 1, (Submit(BATCH),) * 3 + (Submit(WRONG),)))),
    lambda: decode_frame(encode_frame(Data(1, 1, UP, 1, (Submit(NAMELESS),)))),
    lambda: decode_frame(encode_frame(Data(1, 1, UP, 1, (RELAY,)))),
    lambda: decode_frame(encode_frame(Data(1, 1, UP, 1, ()))),
    lambda: decode_frame(sealed(msgspec.msgpack.encode(["A", 1, 1.5, []]))),
    lambda: decode_frame(sealed(encode_frame(EXAMPLE)[HEADER_BYTES:] + b"x")),
)


def test_the_errors_of_the_page_are_the_codecs() -> None:
    said = []
    for wrong in ERRORS:
        with pytest.raises(FrameError) as caught:
            wrong()
        said.append(str(caught.value))
    shown = block("frame of version")
    assert [re.sub(r"[0-9a-f]{8}", "…", line) for line in shown] == [
        re.sub(r"[0-9a-f]{8}", "…", line) for line in said
    ]
