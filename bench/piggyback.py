"""What stability costs on the wire, and how much of it leaves with data, in the simulator.

Frames and bytes per message, by lane, encoded as over TCP. A frame of stability leaves *with data*
if its site sends some to the same peer at the same moment: over TCP that is one write. It could be
packed into the same frame only if both are of one burst and may leave together: a START, with data
that does not wait for the disk (`could_ride_early`), or anything, with data that does (`…_late`).

    python bench/piggyback.py [--messages N] [--json]
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ordercast.core.structure import Structure
from ordercast.model.groups import GroupTable
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig
from ordercast.sim.place import Place
from ordercast.sim.world import World
from ordercast.wire.codec import encode_frame
from ordercast.wire.frames import CONTROL, Data
from ordercast.wire.stability import RoundStart

BUILDER = "balanced"
WAKE = 20_000  # a site takes what has come in so many nanoseconds in one burst
RATES = (50.0, 1_000.0, 10_000.0)


class Measured(World):
    """Counts what leaves."""

    def __init__(self, config: SimConfig, structure: Structure) -> None:
        self.count: Counter[str] = Counter()
        self.size: Counter[str] = Counter()
        self._leaving: dict[tuple[int, str, str], Counter[str]] = {}
        super().__init__(config, structure, 1)

    def _perform(self, now: int, place: Place, box: Any) -> None:
        early = [peer for peer, frame in box.send if carries(frame)]
        late = [peer for peer, frame in box.then_send if carries(frame)]
        for peer, frame in box.then_send:
            if type(frame) is Data and frame.lane == CONTROL:
                if peer in late:
                    self.count["could ride late"] += 1
                elif peer in early and all(type(item) is RoundStart for item in frame.items):
                    self.count["could ride early"] += 1
        super()._perform(now, place, box)

    def _transmit(self, now: int, source: str, sends: Sequence[tuple[str, Any]]) -> None:
        for peer, frame in sends:
            kind = "acknowledgement"
            if type(frame) is Data:
                kind = "stability" if frame.lane == CONTROL else "data"
            self.count[kind] += 1
            self.size[kind] += len(encode_frame(frame))
            self._leaving.setdefault((now, source, peer), Counter())[kind] += 1
        super()._transmit(now, source, sends)

    def with_data(self) -> int:
        """Frames of stability that leave at the same moment, to the same peer, as data."""
        return sum(kinds["stability"] for kinds in self._leaving.values() if kinds["data"])


def carries(frame: Any) -> bool:
    return type(frame) is Data and frame.lane != CONTROL


def tables() -> dict[str, GroupTable]:
    names = [f"s{number:02}" for number in range(12)]
    groups = {f"g{n}": [names[(3 * n + k) % 12] for k in range(4)] for n in range(6)}
    return {
        "1 group of 3": GroupTable.of({"g": names[:3]}),
        "1 group of 9": GroupTable.of({"g": names[:9]}),
        "6 groups of 4": GroupTable.of(groups, sites=names),
    }


def measured(table: GroupTable, deliver: str, rate: float, messages: int) -> dict[str, Any]:
    config = SimConfig(
        table, builder=BUILDER, messages=messages, rate=rate, deliver=deliver, wake=WAKE
    )
    world = Measured(config, Structure(1, table, advise(table, BUILDER).forest))
    world.start()
    world.run()
    assert world.quiet
    kinds = ("data", "stability", "acknowledgement")
    frames, size = (sum(of[kind] for kind in kinds) for of in (world.count, world.size))
    return {
        "deliver": deliver,
        "rate": rate,
        "frames": round(frames / messages, 2),
        "bytes": round(size / messages),
        "stability_frames": round(world.count["stability"] / messages, 2),
        "stability_bytes": round(world.size["stability"] / messages),
        "with_data": round(world.with_data() / max(1, world.count["stability"]), 3),
        "could_ride_early": round(world.count["could ride early"] / frames, 3),
        "could_ride_late": round(world.count["could ride late"] / frames, 3),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--messages", type=int, default=400)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [
        {"table": name, **measured(table, deliver, rate, args.messages)}
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
