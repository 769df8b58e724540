"""What the codec costs beside bare MessagePack: µs per frame to encode, decode and split.

`make bench BENCH=wire`. Both sides are timed in turn, many times, and the best time of each
counts, so that the ratio means something on a busy machine. `bare` is msgspec alone: no header, no
checksum, no limits, no rules.
"""

import argparse
import json
import timeit
from collections.abc import Callable
from typing import Any

import msgspec

from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.wire.codec import FrameSplitter, decode_frame, encode_frame
from ordercast.wire.frames import DOWN, Data, Frame, Relay

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
    bare, ours = pack(frame), encode_frame(frame)
    in_stream = max(1, 65_536 // len(ours))
    stream = ours * in_stream
    bare_encode, encode = best_us(lambda: pack(frame), lambda: encode_frame(frame))
    bare_decode, decode, split = best_us(
        lambda: unpack(bare), lambda: decode_frame(ours), lambda: FrameSplitter().feed(stream)
    )
    return {
        "items": len(frame.items),
        "bytes": len(ours),
        "encode_us": encode,
        "encode_ratio": encode / bare_encode,
        "decode_us": decode,
        "decode_ratio": decode / bare_decode,
        "split_us": split / in_stream,
        "split_ratio": split / in_stream / bare_decode,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="make bench BENCH=wire", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    results = [measure(relays(count)) for count in (1, 100)]
    if parser.parse_args().json:
        print(json.dumps({"frames": results}))
        return
    print("µs per frame (times bare msgspec)")
    for row in results:
        cells = (f"{way} {row[way + '_us']:7.2f} ({row[way + '_ratio']:.2f})" for way in WAYS)
        print(f"{row['items']:4} items, {row['bytes']:6} bytes:", "  ".join(cells))


WAYS = ("encode", "decode", "split")


if __name__ == "__main__":
    main()
