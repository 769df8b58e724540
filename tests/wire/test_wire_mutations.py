"""100,000 damaged frames: each is refused with FrameError or is a frame that keeps the rules."""

import random
from collections import Counter
from collections.abc import Iterator

import msgspec
import pytest

from ordercast.model.errors import FrameError
from ordercast.wire.codec import HEADER_BYTES, decode_frame, encode_frame
from wire import mutations, samples

SEED = 1988
TRIES = 100_000
BYTES = {  # damage to the bytes, which the header has to find
    "flipped": mutations.flipped,
    "truncated": mutations.truncated,
    "extended": mutations.extended,
    "random bytes": mutations.random_bytes,
    "other header": mutations.other_header,
}
SEALED = {  # damage under a right header, which the decoder and the rules have to find
    "replaced": mutations.replaced,
    "resized": mutations.resized,
    "opcodes": mutations.opcodes,
}
RULES = (  # complaints that only a frame of the right types can meet
    "boot is", "of is", "lane is", "first is", "last is", "number is", "items: expected",
    "does not go on lane", "acks: expected", "acks: got", "path has",
    "not a site's name", "not a group's name", "not implicit", "incarnation is", "seq is",
    "count is", "clock is", "place is", "value is", "wanted: expected", "counts[0][1] is",
    "seqs[0][1] is", "term is", "committed is", "edits has", "closed[0][1][0][3] is",
    "lasts[0][1] is", "voters has", "store is", "voters[0][1] is",
    "beat is", "match is", "upto is", "offset is", "total is", "checksum: expected",
    "not printable", "a text of", "is a list of sites",
)  # fmt: skip


def damaged(rng: random.Random, frames: list[bytes]) -> tuple[str, bytes]:
    frame, other = rng.choice(frames), rng.choice(frames)
    kind = rng.choice([*BYTES, *SEALED, "replaced", "spliced", "sealed damage", "sealed splice"])
    if kind in BYTES:
        return kind, BYTES[kind](rng, frame)
    if kind in SEALED:
        return kind, SEALED[kind](rng, frame)
    if kind == "sealed damage":
        how = rng.choice((mutations.flipped, mutations.truncated, mutations.extended))
        return kind, mutations.resealed(how(rng, frame))
    spliced = mutations.spliced(rng, frame, other)
    return kind, spliced if kind == "spliced" else mutations.resealed(spliced)


def complaints_about_values(frames: list[bytes]) -> Iterator[str]:
    """Every value of these frames is another, one at a time: chance alone misses rare rules. Or
    a list or a text is far too long."""
    for frame in frames:
        body = msgspec.msgpack.decode(frame[HEADER_BYTES:])
        for place in mutations.places(body):
            part = body
            for index in place:
                part = part[index]
            long = part * 2_000 if part and isinstance(part, list | str) else 0
            for value in (-1, list[int](), long):
                other = mutations.with_value(body, place, value)
                try:
                    decode_frame(mutations.sealed(msgspec.msgpack.encode(other)))
                except FrameError as error:
                    yield str(error)


def test_a_damaged_frame_is_refused_or_right() -> None:
    rng = random.Random(SEED)
    frames = [encode_frame(samples.random_frame(rng)) for _ in range(500)]
    frames += [encode_frame(samples.random_site_frame(rng)) for _ in range(500)]
    refused: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    complaints: Counter[str] = Counter()
    for number in range(TRIES):
        kind, data = damaged(rng, frames)
        try:
            frame = decode_frame(data)
        except FrameError as error:
            refused[kind] += 1
            complaints[str(error)] += 1
        except Exception as error:
            pytest.fail(f"seed {SEED}, try {number} ({kind}): {error!r} from {data.hex()}")
        else:
            accepted[kind] += 1
            frame.check()
            assert decode_frame(encode_frame(frame)) == frame, data.hex()
    complaints.update(complaints_about_values(frames[::3]))
    print(f"{TRIES} damaged frames: {refused.total()} refused, {accepted.total()} right")
    for kind in sorted(refused):
        print(f"  {kind:14} {refused[kind]:6} refused {accepted[kind]:6} right")
    assert refused.total() + accepted.total() == TRIES
    assert all(line.isprintable() and len(line) < 300 for line in complaints)
    assert [rule for rule in RULES if not any(rule in line for line in complaints)] == []
    assert min(accepted[kind] for kind in SEALED) > 100  # the damage is not all gross
    assert accepted["truncated"] == accepted["extended"] == accepted["random bytes"] == 0
