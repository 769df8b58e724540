"""Running fault schedules: what tests, regressions and soak campaigns have in common."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.groups import GroupTable
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault, total
from ordercast.sim.result import SimResult
from ordercast.sim.schedules import changing, excluding, schedule
from ordercast.sim.simulate import simulate
from ordercast.sim.trace.assembly import trace_of_run
from ordercast.sim.trace.exports import write_trace
from ordercast.sim.trace.frame_log import FrameLog
from tools.soak.campaign import Outcome

Draw: TypeAlias = Callable[[str, int], SimConfig]
PICTURES = Path(__file__).resolve().parents[3] / ".soak" / "pictures"


def failures(protocol: str, seeds: range, draw: Draw = schedule) -> list[str]:
    """One line for each schedule with a violation: what, and the command that replays it."""
    found = []
    for seed in seeds:
        config = draw(protocol, seed)
        result = simulate(config, seed)
        if not result.ok:
            found.append(f"{complaint(result)} -- picture: {leave_picture(config, seed)}")
    return found


def leave_picture(config: SimConfig, seed: int, folder: Path = PICTURES) -> Path:
    """Run a failed schedule again, and draw it."""
    log = FrameLog()
    return draw_run(simulate(config, seed, log=log), log, folder)


def draw_run(result: SimResult, log: FrameLog, folder: Path = PICTURES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    name = folder / f"{result.protocol}-{result.seed}.svg"
    (file,) = write_trace(trace_of_run(result, log), str(name))
    return file


def all_return(protocol: str, seed: int) -> SimConfig:
    """A schedule under `exclude` in which all sites return. If a site stayed away, a group whose
    last member it was would wait for ever, and so would sites that owe an answer to an outside
    origin."""
    drawn = excluding(protocol, seed)
    crashes = total(drawn.faults, "crash")
    faults = (replace(f, count=crashes) if f.kind == "restart" else f for f in drawn.faults)
    return replace(drawn, faults=tuple(faults))


def deep(draw: Draw) -> Draw:
    """The same schedules, with groups of two or three sites that overlap in a row: their trees are
    deep, so that a protocol with arrow groups below its core has some."""

    def drawn(protocol: str, seed: int) -> SimConfig:
        config, stream = draw(protocol, seed), Chance(seed, f"deep {protocol}")
        sites = "abcdefghi"[: stream.between(5, 9)]
        groups = {f"g{n}": sites[n : n + 2 + stream.chance(0.2)] for n in range(len(sites) - 1)}
        table = GroupTable.of({group: list(members) for group, members in groups.items()})
        return replace(config, table=table, builder="greedy", origins=None, source="")

    return drawn


def mixed(stream: Chance, protocol: str, seed: int, epochs_every: int) -> SimConfig:
    """One of every `epochs_every` schedules changes groups or loses sites, so that epochs follow
    each other. Half of the others lose up to 30 % of all frames."""
    if seed % epochs_every == epochs_every // 2:
        draw = changing if seed // epochs_every % 2 else all_return
        return draw(protocol if PROTOCOLS[protocol].exclude else "propagation", seed)
    drawn = schedule(protocol, seed)
    if not stream.chance(0.5):
        return drawn
    others = (fault for fault in drawn.faults if fault.kind != "loss")
    return replace(drawn, faults=(*others, Fault("loss", stream.choice((0.1, 0.2, 0.3)))))


def complaint(result: SimResult) -> str:
    first = result.violations[0]
    return f"{first.check}: {first.witness} -- replay: {result.replay}"


def outcome(protocol: str, seed: int, draw: Draw = schedule) -> Outcome:
    """A case of a soak campaign: the schedule of this seed, with what it did counted."""
    config = draw(protocol, seed)
    result = simulate(config, seed)
    counters = {
        "simulated ms": result.virtual_ns // 1_000_000,
        "events": result.events,
        "messages": result.sent,
        "deliveries checked": result.delivered,
        "epochs": result.epochs,
        **{f"faults: {kind}": times for kind, times in result.faults.items()},
    }
    if result.ok:
        return Outcome(True, counters)
    leave_picture(config, seed)
    return Outcome(False, counters, complaint(result).partition(" -- ")[0], result.replay)
