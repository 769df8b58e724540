"""What the codec costs beside bare MessagePack: µs per frame to encode, decode and split.

`make bench BENCH=wire`. All sides are timed in turn, many times, and the best time of each
counts, so that the ratio means something on a busy machine. `bare` is msgspec alone: no header, no
checksum, no rules but those that types say. `in epoch` is the same frame as sites send it: within
its epoch. Small frames of other kinds are decoded too.
"""

import argparse
import json
import timeit
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from ordercast.model.envelope import Envelope, HeaderRun, pack_envelope
from ordercast.model.messages import Batch, DeliveredBatch, Key, Placed, pack_payloads
from ordercast.wire.codec import (
    FrameEncoder,
    FrameSplitter,
    WireFrame,
    decode_frame,
    encode_frame,
)
from ordercast.wire.epochs import Fed, InEpoch
from ordercast.wire.frames import CONTROL, DOWN, UP, Ack, Data, Final, Frame, Offer, Relay
from ordercast.wire.stability import RoundAck

CHILDREN = 4
ROUNDS = 250
ROUND_S = 0.001  # short: some rounds fall between what else the machine does


def relays(count: int) -> Data:
    """A parent's frame of so many placed batches, each one message of 100 bytes."""
    body = pack_payloads([bytes(100)])
    items = tuple(
        Relay(
            Placed(Key((0, 500 + n, -2, n), "d"), 99 + n, Batch("a", 1, "alpha", 17 + n, 1, body))
        )
        for n in range(1, count + 1)
    )
    return Data(1, 1, DOWN, 42, items)


def small_frames() -> dict[str, WireFrame]:
    """Of each kind one, as sites send them."""
    batch = Batch("a", 1, "alpha", 17, 1, pack_payloads([bytes(100)]))
    counts = (("alpha", 3, 2, 3, "a"), ("beta", 3, 2, 3, "b"))
    frames: dict[str, Frame] = {
        "Ack": Ack(1, 1, ((0, 3, 3),)),
        "RoundAck": Data(1, 1, CONTROL, 3, (RoundAck(3, 2, False, counts),)),
        "Offer": Data(1, 1, UP, 3, (Offer(batch, 3),)),
        "Final": Data(1, 1, DOWN, 3, (Final(1, "alpha", 3, 3, "a"),)),
    }
    found: dict[str, WireFrame] = {name: InEpoch(7, frame) for name, frame in frames.items()}
    found["Fed"] = Fed(7, (), 5)
    return found


def measure_small() -> dict[str, float]:
    frames = small_frames()
    data = [encode_frame(frame) for frame in frames.values()]
    times = best_us(*(partial(decode_frame, one) for one in data))
    return dict(zip(frames, times, strict=True))


def best_us(*calls: Callable[[], Any]) -> list[float]:
    """The best time of each call, the calls taking turns."""
    timers = [timeit.Timer(call) for call in calls]
    once = [max(timer.timeit(3) / 3, 1e-7) for timer in timers]
    numbers = [max(1, int(ROUND_S / seconds)) for seconds in once]
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for place, (timer, number) in enumerate(zip(timers, numbers, strict=True)):
            best[place] = min(best[place], timer.timeit(number) / number)
    return [seconds * 1e6 for seconds in best]


def measure(frame: Data) -> dict[str, float]:
    pack = msgspec.msgpack.Encoder().encode
    unpack = msgspec.msgpack.Decoder(Frame).decode
    within = InEpoch(7, frame)
    bare, ours, inner = pack(frame), encode_frame(frame), encode_frame(within)
    in_stream = max(1, 65_536 // len(inner))
    stream, inner_stream = ours * in_stream, inner * in_stream
    bare_encode, encode, encode_in = best_us(
        lambda: pack(frame), lambda: encode_frame(frame), lambda: encode_frame(within)
    )
    bare_decode, decode, decode_in, split, split_in = best_us(
        lambda: unpack(bare),
        lambda: decode_frame(ours),
        lambda: decode_frame(inner),
        lambda: FrameSplitter().feed(stream),
        lambda: FrameSplitter().feed(inner_stream),
    )
    relay, relay_in = best_us(to_children([frame] * CHILDREN), to_children([within] * CHILDREN))
    return {
        "items": len(frame.items),
        "bytes": len(ours),
        "encode_us": encode,
        "encode_ratio": encode / bare_encode,
        "encode_in_epoch": encode_in / encode,
        "decode_us": decode,
        "decode_ratio": decode / bare_decode,
        "decode_in_epoch": decode_in / decode,
        "split_us": split / in_stream,
        "split_ratio": split / in_stream / bare_decode,
        "split_in_epoch": split_in / split,
        "relay_us": relay / CHILDREN,
        "relay_ratio": relay / CHILDREN / bare_encode,
        "relay_in_epoch": relay_in / relay,
    }


def bodies(count: int, size: int) -> dict[str, Callable[[], bytes]]:
    """How a batch's body is packed: without the feature `headers`, with it (an envelope tells when
    the batch was sent), and with a header of 20 bytes that all messages have in common."""
    payloads = [bytes(size)] * count
    headers = (HeaderRun(0, count, (("trace", bytes(15)),)),)
    return {
        "plain": lambda: pack_payloads(payloads),
        "timed": lambda: pack_envelope(Envelope(payloads, 1_790_000_000_000_000_000)),
        "headed": lambda: pack_envelope(Envelope(payloads, 1_790_000_000_000_000_000, headers)),
    }


def measure_bodies(count: int, size: int) -> dict[str, float]:
    """Bytes of the body, and µs to pack it and to make deliveries of it."""
    packs = bodies(count, size)
    found: dict[str, float] = {"messages": count, "payload_bytes": size}
    batches = {}
    for name, pack in packs.items():
        batch = Batch("a", 1, "alpha", 17, count, pack())
        found[f"{name}_bytes"] = len(batch.body)
        batches[name] = DeliveredBatch(1, 1, Placed(Key((0, 1), "d"), 1, batch))
    packing = best_us(*packs.values())
    delivering = best_us(*(each.deliveries for each in batches.values()))
    for name, packed, delivered in zip(packs, packing, delivering, strict=True):
        found[f"{name}_pack_us"], found[f"{name}_deliver_us"] = packed, delivered
    return found


def to_children(frames: Sequence[WireFrame]) -> Callable[[], Any]:
    """The same frame to each child in turn; the next round writes another."""

    def write() -> None:
        encoder = FrameEncoder()
        for frame in frames:
            encoder.encode([frame])

    return write


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make bench BENCH=wire", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    results = [measure(relays(count)) for count in (1, 100)]
    small = measure_small()
    headers = [measure_bodies(*each) for each in ((1, 10), (1, 100), (100, 100))]
    if parser.parse_args().json:
        print(json.dumps({"frames": results, "small_decode_us": small, "bodies": headers}))
        return
    print("µs per frame (times bare msgspec; in epoch: times the same without)")
    for row in results:
        print(f"{row['items']:4} items, {row['bytes']:6} bytes:")
        for way in WAYS:
            us, ratio, within = row[f"{way}_us"], row[f"{way}_ratio"], row[f"{way}_in_epoch"]
            print(f"  {way:6} {us:7.2f} ({ratio:.2f}; in epoch {within:.3f})")
    print("decode  " + "  ".join(f"{name} {us:.2f}" for name, us in small.items()))
    print(
        "bodies without the feature headers, with it, and with a header: bytes, µs to pack, deliver"
    )
    for row in headers:
        print(f"{row['messages']:4} x {row['payload_bytes']} bytes:")
        for kind in ("plain", "timed", "headed"):
            figures = (row[f"{kind}_{what}"] for what in ("bytes", "pack_us", "deliver_us"))
            print("  {:6} {:6} {:7.2f} {:7.2f}".format(kind, *figures))


WAYS = ("encode", "decode", "split", "relay")


if __name__ == "__main__":
    main()
