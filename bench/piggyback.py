"""What stability costs on the wire, and how much of it rides with data, in the simulator.

Frames and bytes per message, encoded as over TCP, each case twice in one run: as it is, and with
stability in frames of its own that leave at once (`apart`). `rides` is the share of what stability
says that needs no frame of its own; `stable` the time until an origin hears that its message is.

At least N messages, and at least four tenths of a second of them.

    python bench/piggyback.py [--messages N] [--policy wait|exclude] [--json]
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from ordercast.core.link import Link
from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.model.options import NEVER
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.place import Place
from ordercast.sim.world import World
from ordercast.wire.codec import encode_frame
from ordercast.wire.frames import CONTROL, Data

BUILDER = "balanced"
WAKE = 20_000  # a site takes what has come in so many nanoseconds in one burst
RATES = (50.0, 1_000.0, 10_000.0)


class Measured(World):
    """Counts what leaves."""

    def __init__(self, config: SimConfig, structure: Structure) -> None:
        self.count: Counter[str] = Counter()
        self.size = 0
        self.accepted: dict[tuple[str, str, int], int] = {}
        self.took: list[int] = []
        super().__init__(config, structure, 1)

    def _confirm(self, now: int, place: Place, number: int, box: Any) -> None:
        for receipt in box.receipts:
            for seq in range(receipt.seq, receipt.seq + receipt.count):
                message = (place.name, receipt.group, seq)
                if receipt.stage == "accepted":
                    self.accepted.setdefault(message, now)
                elif receipt.stage == "stable":
                    self.took.append(now - self.accepted[message])
        super()._confirm(now, place, number, box)

    def _transmit(self, now: int, source: str, sends: Sequence[tuple[str, Any]]) -> None:
        for _, frame in sends:
            self.size += len(encode_frame(frame))
            self.count["frames"] += 1
            if type(frame) is Data:
                self.count["of stability"] += frame.lane == CONTROL
                self.count["riders"] += frame.rider is not None
        super()._transmit(now, source, sends)


def tables() -> dict[str, GroupTable]:
    names = [f"s{number:02}" for number in range(12)]
    groups = {f"g{n}": [names[(3 * n + k) % 12] for k in range(4)] for n in range(6)}
    return {
        "1 group of 3": GroupTable.of({"g": names[:3]}),
        "1 group of 9": GroupTable.of({"g": names[:9]}),
        "6 groups of 4": GroupTable.of(groups, sites=names),
    }


def run(table: GroupTable, config: SimConfig, *, apart: bool) -> Measured:
    world = Measured(config, Structure(1, table, advise(table, BUILDER).forest))
    with ExitStack() as stack:
        if apart:
            stack.enter_context(patch.object(Link, "_send_control", _by_itself))
        world.start()
        world.run()
    assert world.quiet
    return world


def _by_itself(link: Any, now: int, out: Any, *sends: Any) -> None:
    """What is new on CONTROL leaves at once, in frames of its own."""
    link.linger_at = NEVER
    link._send_new(now, CONTROL, out, sends[2])


def measured(
    table: GroupTable, deliver: str, rate: float, messages: int, policy: str
) -> dict[str, Any]:
    messages = max(messages, round(0.4 * rate))
    config = SimConfig(
        table, builder=BUILDER, messages=messages, rate=rate, deliver=deliver, wake=WAKE,
        stability="s_coordp", on_failure=policy,
    )  # fmt: skip
    apart, world = run(table, config, apart=True), run(table, config, apart=False)
    riders = world.count["riders"]
    return {
        "deliver": deliver,
        "rate": round(rate),
        "frames apart": round(apart.count["frames"] / messages, 2),
        "frames": round(world.count["frames"] / messages, 2),
        "fewer": f"{1 - world.count['frames'] / apart.count['frames']:.1%}",
        "bytes apart": round(apart.size / messages),
        "bytes": round(world.size / messages),
        "rides": f"{riders / max(1, riders + world.count['of stability']):.0%}",
        "stable apart, ms": _mean_ms(apart.took),
        "stable, ms": _mean_ms(world.took),
    }


def _mean_ms(took: list[int]) -> float:
    return round(sum(took) / len(took) / 1e6, 2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=400)
    parser.add_argument("--policy", choices=("wait", "exclude"), default="exclude")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [
        {"table": name, **measured(table, deliver, rate, args.messages, args.policy)}
        for name, table in tables().items()
        for deliver in ("safe", "agreed")
        for rate in RATES
    ]
    if args.json:
        print(json.dumps(rows))
        return 0
    print("| " + " | ".join(rows[0]) + " |\n" + "|---" * len(rows[0]) + "|")
    for row in rows:
        print("| " + " | ".join(str(value) for value in row.values()) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
