"""Two releases of the program on one connection: what they agree on, and how they refuse."""

from zlib import crc32

import msgspec
import pytest

from ordercast.model.features import MOST_FEATURES
from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.hello import (
    FIRST,
    HEADER_BYTES,
    Hello,
    Identity,
    agreed_version,
    encode_hello,
    split_hello,
)
from ordercast.wire.codec import CODECS
from support.network.links import (
    CLUSTER,
    TERMS,
    End,
    Runner,
    anywhere,
    both_loops,
    connected,
    frame,
    on_asyncio,
    started,
    until,
)
from support.network.versions import pretended, speaking

HELLO = Hello("demo", "b", "a", 1, 1, b"12345678", 1, 0, 0, {"protocol": "ring"})
ABC = anywhere("abc")


def said(**changes: object) -> Hello:
    return msgspec.structs.replace(HELLO, **changes)


def test_a_program_speaks_the_newest_version_and_at_most_the_one_before() -> None:
    assert list(CODECS) == list(range(max(CODECS) + 1 - len(CODECS), max(CODECS) + 1))
    assert len(CODECS) <= 2
    assert min(CODECS) >= FIRST
    assert all(codec.version == version for version, codec in CODECS.items())


@pytest.mark.parametrize(
    ("theirs", "ours", "version"),
    [
        ((5, 5), (5,), 5),
        ((5, 6), (5,), 5),
        ((5, 5), (5, 6), 5),
        ((5, 6), (5, 6), 6),
        ((6, 7), (5, 6), 6),
        ((5, 6), (6, 7), 6),
    ],
)
def test_both_ends_take_the_highest_version_that_both_speak(
    theirs: tuple[int, int], ours: tuple[int, ...], version: int
) -> None:
    hello = said(lowest=theirs[0], highest=theirs[1])
    assert agreed_version(hello, dict.fromkeys(ours)) == version


@pytest.mark.parametrize(
    ("theirs", "ours", "line"),
    [
        ((7, 8), (5, 6), "another version: it speaks wire 7 to 8, this site 5 to 6: upgrade"),
        ((5, 5), (6, 7), "another version: it speaks wire 5, this site 6 to 7: upgrade"),
    ],
)
def test_no_common_version_is_one_line_with_both_ranges(
    theirs: tuple[int, int], ours: tuple[int, ...], line: str
) -> None:
    with pytest.raises(LinkTrouble) as caught:
        agreed_version(said(lowest=theirs[0], highest=theirs[1]), dict.fromkeys(ours))
    assert str(caught.value).startswith(line)


def test_fields_of_a_newer_hello_are_ignored() -> None:
    body = msgspec.msgpack.decode(encode_hello(HELLO)[HEADER_BYTES:])
    newer = msgspec.msgpack.Encoder().encode([*body, "of a newer program", {"more": 1}])
    told = encode_hello(HELLO)[:4] + len(newer).to_bytes(4) + _crc(newer) + newer
    assert split_hello(told) == (HELLO, len(told))


def _crc(data: bytes) -> bytes:
    return crc32(data).to_bytes(4)


@pytest.mark.parametrize(
    "changes",
    [
        {"lowest": 6, "highest": 5},
        {"lowest": 0},
        {"highest": 256},
        {"program": "two\nlines"},
        {"features": ("x",) * (MOST_FEATURES + 1)},
        {"features": ("",)},
        {"features": ("é",)},
    ],
)
def test_versions_and_features_out_of_range_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(LinkTrouble, match="a field is not what it must be"):
        split_hello(encode_hello(said(**changes)))


@both_loops
def test_each_connection_has_the_codec_of_its_version(run: Runner) -> None:
    """One relays the same frame to an old and a new site, as a parent does in an upgrade."""

    async def main() -> None:
        old, new, newest = (
            End("a", ABC, codecs=speaking(5)),
            End("b", ABC, codecs=speaking(5, 6)),
            End("c", ABC, codecs=speaking(5, 6)),
        )
        async with started(old, new, newest):
            for end in (old, new):
                for peer in "abc":
                    if peer != end.name:
                        end.transport.connect(peer)
            await until(lambda: connected(old, new, newest), "connected")
            for number in range(1, 100):
                for peer in "ac":
                    new.transport.send(peer, [frame(number)])
                old.transport.send("b", [frame(number)])
                newest.transport.send("b", [frame(1_000 + number)])
            await until(lambda: len(old.frames) == len(newest.frames) == 99, "frames")
            await until(lambda: len(new.frames) == 198, "frames")
            wire = {link.peer: link.wire for link in new.transport.links()}
            assert wire == {"a": 5, "c": 6}
            assert old.events == [("connected", "b"), ("connected", "c")] or old.events == [
                ("connected", "c"),
                ("connected", "b"),
            ]

    run(main())


def test_sites_with_no_common_version_refuse_each_other_and_say_why() -> None:
    async def main() -> None:
        a, b = End("a", ABC, codecs=speaking(5)), End("b", ABC, codecs=speaking(7, 8))
        async with started(a, b):
            b.transport.connect("a")
            await until(lambda: b.transport.refusals["it refuses us"] > 0, "refused")
            line = "another version: it speaks wire 7 to 8, this site 5: upgrade"
            assert a.transport.links()[0].last_error.startswith(line)
            assert a.events == b.events == []

    on_asyncio(main())


def test_a_frame_of_another_version_breaks_the_connection_alone() -> None:
    """The mistake that the agreement prevents: one end writes what the other does not speak."""
    with pytest.raises(Exception, match="frame of version 6, this is version 5"):
        CODECS[5].decode(pretended(6).encode(frame(1)))
    body = pretended(6).encode(frame(1))
    assert pretended(6).decode(body) == frame(1)


def having(*features: str, uses: tuple[str, ...] = ()) -> Identity:
    return Identity(CLUSTER, terms=TERMS, features=features, uses=uses)


def test_a_site_whose_program_lacks_what_the_cluster_uses_is_refused_in_one_line() -> None:
    async def main() -> None:
        a, b = End("a", ABC, having("x", "y", uses=("x", "y"))), End("b", ABC, having("y"))
        async with started(a, b):
            b.transport.connect("a")
            await until(lambda: b.transport.refusals["it refuses us"] > 0, "refused")
            line = a.transport.links()[0].last_error
            assert line.startswith("too old for what this cluster uses: its program (")
            assert line.endswith(") lacks x: upgrade it")

    on_asyncio(main())


def test_a_peer_is_dropped_when_the_cluster_begins_to_use_what_it_lacks() -> None:
    async def main() -> None:
        a, b, c = End("a", ABC, having("x")), End("b", ABC, having()), End("c", ABC, having("x"))
        async with started(a, b, c):
            a.transport.connect("b")
            a.transport.connect("c")
            await until(lambda: len(a.events) == 2, "connected with both")
            a.transport.retell(TERMS, ("x",))
            await until(lambda: ("lost", "b") in a.events, "dropped")
            await until(lambda: b.transport.refusals["it refuses us"] > 0, "and refused")
            assert a.state("c") == "connected"

    on_asyncio(main())
