"""Schedules in which sites send to many along trees or by multicast, judged like all others."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from ordercast.core.dissemination.registry import MULTICAST, TREE
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.options import MILLISECOND
from ordercast.sim import dissemination
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.result import SimResult
from ordercast.sim.simulate import simulate
from ordercast.sim.trace.frame_log import FrameLog
from support.cases.schedules import draw_run, mixed
from tools.soak.campaign import Outcome

# Several times, where a site hands the same batch to many.
_OFTEN = (*PROTOCOLS, *("centralized", "two_phase", "symmetric", "propagation") * 3)
NARROW = StreamLimits(
    piece_bytes=80,
    kept_pieces=6,
    others_pieces=3,
    early_pieces=8,
    asked_pieces=4,
    burst_pieces=4,
    pieces_per_s=2_000,
    queued_pieces=16,
)
IMPATIENT = StreamTimes(asks=2, reached_for=100 * MILLISECOND, heard_every=20 * MILLISECOND)


def spread(
    seed: int, ways: Sequence[str] = (TREE, MULTICAST), *, epochs_every: int = 10
) -> SimConfig:
    """A mixed schedule whose dissemination is one of `ways`. Packets and datagrams are lost as well
    as frames."""
    stream = Chance(seed, "spread")
    drawn = mixed(stream, stream.choice(_OFTEN), seed, epochs_every)
    return replace(
        drawn,
        stability=stream.choice(("s_coordp", drawn.stability)),
        dissemination=ways[seed % len(ways)],
        source="",
    )


def run(seed: int, *, log: FrameLog | None = None, **drawing: Any) -> tuple[SimConfig, SimResult]:
    """In every third run datagrams have 80 bytes, few are kept for repair, and sites give up
    soon."""
    config = spread(seed, **drawing)
    if seed % 3:
        return config, simulate(config, seed, log=log)
    with patch.multiple(dissemination, LIMITS=NARROW, TIMES=IMPATIENT):
        return config, simulate(config, seed, log=log)


def outcome(seed: int) -> Outcome:
    config, result = run(seed, epochs_every=3)
    counters = {
        f"schedules by {config.dissemination}": 1,
        "events": result.events,
        "messages": result.sent,
        "epochs": result.epochs,
        **{f"{config.dissemination}: {what}": count for what, count in result.spread.items()},
        **{f"faults: {kind}": times for kind, times in result.faults.items()},
    }
    wrong = "; ".join(f"{v.check}: {v.witness}" for v in result.violations[:2])
    if not result.ok:
        log = FrameLog()
        draw_run(run(seed, log=log, epochs_every=3)[1], log)
    return Outcome(result.ok, counters, wrong, f"seed {seed}: {result.replay}")
