"""The first words on a connection, each way: the speaker, the addressee, and the terms.

    magic "och" | version u8 | length u32 | CRC-32 u32 | `length` bytes of MessagePack

The site that dialled speaks first. Terms are what all sites must agree on (level, durability, …),
by name, so that a refusal can say which one differs. The founding of the cluster is one of them; a
site that does not know it yet says nothing, which agrees with everything. Three numbers (`number`,
`answers`, `gone`) keep the connections of two sites apart. A hello that is refused is answered with
the reason, for the log at the other end.

Two versions of the program meet here, so a hello keeps its form for ever: new fields come at the
end, and a reader ignores fields that it does not know. A hello says which versions of the wire
format its program speaks. Both ends take the highest version that both speak.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

import msgspec

from ordercast.model.features import are_features, lacking
from ordercast.model.groups import Site
from ordercast.model.limits import LARGEST_NUMBER
from ordercast.model.names import is_name, shown
from ordercast.model.version import told_range
from ordercast.net.link.complaints import LinkTrouble
from ordercast.wire.codec import CODECS
from ordercast.wire.lineage import StorePoint

MAGIC: Final = b"och"
VERSION: Final = 3  # of the hello itself
FIRST: Final = 5  # the first version of the wire format that hellos agree on
HELLO_BYTES: Final = 4_096  # header included
INSTANCE_BYTES: Final = 8
PROGRAM: Final = 64  # characters of the program's version
DOOR: Final = 300  # characters of a host and its port
TERMS: Final = 32
REASON: Final = 400  # characters
FOUNDING: Final = "founding"  # a newcomer does not know this term yet
FORESTS: Final = "forests"  # of the founding; sites that were added later never learn it

_HINTS = {
    FOUNDING: ": two clusters of one name, a store of an earlier one, or another release",
    FORESTS: ": one file, but builders of two releases",
}

_HEADER = struct.Struct(">3sBII")
HEADER_BYTES: Final = _HEADER.size

NOT_A_HELLO: Final = "no hello"
OTHER_VERSION: Final = "another version"
OTHER_CLUSTER: Final = "another cluster"
OTHER_TERMS: Final = "other terms"
OLDER_PROGRAM: Final = "too old for what this cluster uses"
OTHER_ADDRESSEE: Final = "meant for another site"
UNKNOWN_SITE: Final = "unknown site"
OURSELVES: Final = "connected to ourselves"
REFUSES_US: Final = "it refuses us"
OUR_STORE: Final = "our store is an older copy"
INVENTED: Final = "it names more of our store than there is"
OTHER_FOUNDING: Final = "it is of a cluster that was founded otherwise"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a site says of itself beside its name. A refusal names the first term that differs.
    `features`: of its program. `uses`: the features that its cluster uses, and that every peer must
    have. `door`: where it listens for clients, as HOST:PORT; "": nowhere."""

    cluster: str
    boot: int = 1
    incarnation: int = 1
    terms: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    door: str = ""


class Hello(msgspec.Struct, frozen=True, array_like=True):
    cluster: str
    site: Site  # the speaker
    to: Site
    incarnation: int
    boot: int
    instance: bytes  # drawn at random by each process: it tells two processes of one site apart
    number: int  # of this hello, among all hellos of the speaker
    answers: int  # the number of the hello that this one answers; 0 if the speaker dialled
    gone: int  # connections with the other's hellos up to this number have ended here
    terms: dict[str, str]
    refusal: str = ""  # why the other's hello is refused
    heard: StorePoint | None = None  # the furthest known point of the other's store
    founded: bool = False  # the speaker has heard of a record: its cluster has a past
    lowest: int = FIRST  # the versions of the wire format that the speaker's program speaks
    highest: int = FIRST
    program: str = ""  # the version of the speaker's program
    features: tuple[str, ...] = ()  # of the speaker's program
    door: str = ""  # where it listens for clients


_encode = msgspec.msgpack.Encoder(order="sorted").encode
_decode = msgspec.msgpack.Decoder(Hello).decode


def encode_hello(hello: Hello) -> bytes:
    if hello.refusal:
        plain = hello.refusal.encode("ascii", "backslashreplace").decode("ascii")
        hello = msgspec.structs.replace(hello, refusal=plain[:REASON])
    body = _encode(hello)
    if len(body) > HELLO_BYTES - HEADER_BYTES:
        raise ValueError(f"a hello of {len(body):,} bytes: its terms are too long")
    return _HEADER.pack(MAGIC, VERSION, len(body), crc32(body)) + body


def split_hello(data: bytes | bytearray) -> tuple[Hello, int] | None:
    """The hello at the beginning of `data`, and its length. None: more bytes must come."""
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise LinkTrouble(NOT_A_HELLO, _guess(bytes(data[:8])))
    if len(data) < HEADER_BYTES:
        return None
    _, version, length, checksum = _HEADER.unpack_from(data)
    if version != VERSION:
        detail = f"its hello is of version {version}, this site's of {VERSION}"
        raise LinkTrouble(OTHER_VERSION, detail)
    if length > HELLO_BYTES - HEADER_BYTES:
        raise LinkTrouble(NOT_A_HELLO, f"{length:,} bytes announced, at most {HELLO_BYTES:,} taken")
    end = HEADER_BYTES + length
    if len(data) < end:
        return None
    return _hello(bytes(data[HEADER_BYTES:end]), checksum), end


def _hello(body: bytes, checksum: int) -> Hello:
    if crc32(body) != checksum:
        raise LinkTrouble(NOT_A_HELLO, "its checksum is wrong")
    try:
        hello = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise LinkTrouble(NOT_A_HELLO, "it does not decode") from None
    numbers = (hello.incarnation, hello.boot, hello.number)
    if (
        not (is_name(hello.cluster) and is_name(hello.site) and is_name(hello.to))
        or not all(1 <= number <= LARGEST_NUMBER for number in numbers)
        or not all(0 <= number <= LARGEST_NUMBER for number in (hello.answers, hello.gone))
        or len(hello.instance) != INSTANCE_BYTES
        or len(hello.terms) > TERMS
        or not (len(hello.refusal) <= REASON and hello.refusal.isprintable())
        or not (len(hello.program) <= PROGRAM and hello.program.isprintable())
        or not (len(hello.door) <= DOOR and hello.door.isprintable())
        or not FIRST <= hello.lowest <= hello.highest <= 255
        or not are_features(hello.features)
    ):
        raise LinkTrouble(NOT_A_HELLO, "a field is not what it must be")
    return hello


def _guess(start: bytes) -> str:
    if start[:1] == b"\x16":
        return "it speaks TLS, and this site has no certificates"
    if start[:3] == b"ocp":
        return "it asks for the proof of a secret, and this site has none"
    return f"it begins with {start!r}"


def check_hello(hello: Hello, ours: Identity, site: Site, known: Mapping[Site, object]) -> None:
    """Raise LinkTrouble unless the hello comes from a site of our cluster, is meant for us, and
    agrees on the terms."""
    if hello.cluster != ours.cluster:
        raise LinkTrouble(OTHER_CLUSTER, f"{hello.cluster!r}, this one is {ours.cluster!r}")
    if hello.site == site:
        raise LinkTrouble(
            OURSELVES, f"an address leads to {site!r} itself, or another uses its name"
        )
    if hello.site not in known and (hello.answers or not was_here(hello.terms, ours.terms)):
        raise LinkTrouble(
            UNKNOWN_SITE,
            f"{hello.site!r} is not, or no longer, of this cluster; to admit it:"
            f" ordercast site add CLUSTER {hello.site} --address HOST:PORT",
        )
    if hello.to != site:
        raise LinkTrouble(
            OTHER_ADDRESSEE,
            f"{hello.site!r} wants {hello.to!r}, this is {site!r}: an address is wrong, or old",
        )
    check_terms(hello.terms, ours.terms)
    if hello.refusal:
        raise LinkTrouble(REFUSES_US, hello.refusal)
    require_features(hello.features, hello.program, ours.uses)


def agreed_version(hello: Hello, ours: Mapping[int, object] = CODECS) -> int:
    """The highest version of the wire format that both ends speak. Raises LinkTrouble if there is
    none."""
    low, high = min(ours), max(ours)
    version = min(high, hello.highest)
    if version < max(low, hello.lowest):
        raise LinkTrouble(
            OTHER_VERSION,
            f"it speaks wire {told_range(hello.lowest, hello.highest)}, this site"
            f" {told_range(low, high)}: upgrade the older one, release by release",
        )
    return version


def require_features(theirs: Sequence[str], program: str, uses: Sequence[str]) -> None:
    """Raise LinkTrouble if a peer's program lacks a feature that this cluster uses."""
    missing = lacking(uses, theirs)
    if missing:
        has = f"its program{f' ({program})' if program else ''}"
        raise LinkTrouble(OLDER_PROGRAM, f"{has} lacks {', '.join(missing)}: upgrade it")


def was_here(theirs: Mapping[str, str], ours: Mapping[str, str]) -> bool:
    """Whether the speaker was in the cluster once: only then does it know the founding. It is
    retired, or we have not heard of it yet. A site that does not know the founding knows no roster
    either, and listens to every site that does."""
    there = theirs.get(FOUNDING, "")
    return there != "" and ours.get(FOUNDING) in ("", there)


def check_terms(theirs: Mapping[str, str], ours: Mapping[str, str]) -> None:
    """Raise LinkTrouble if the terms differ from ours. A founding that one side does not know yet
    agrees with all."""
    for name in (*ours, *sorted(theirs)):
        here, there = ours.get(name), theirs.get(name)
        if here == there or (name in _HINTS and "" in (here, there)):
            continue
        detail = f"{shown(name)} is {shown(there)} there, {shown(here)} here{_HINTS.get(name, '')}"
        raise LinkTrouble(OTHER_TERMS, detail)
