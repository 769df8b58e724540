"""`simulate(config, seed)`: run a world, judge what its applications saw.

A run has two phases. In the safety phase faults happen. In the liveness phase there are none, and
within a bound of virtual time everything accepted must be delivered and every site quiet. The
deliveries are judged by the same checks as any history (`check`).
"""

import time
import traceback
from collections.abc import Callable

from ordercast.check.bounds import check_high_water
from ordercast.check.report import check_history
from ordercast.check.verdict import Verdict
from ordercast.core.epochs.member import Member
from ordercast.core.structure import Structure
from ordercast.history.digest import history_hash
from ordercast.history.rows import History, Meta
from ordercast.model.version import __version__
from ordercast.plan.advice import advise
from ordercast.sim.config import SimConfig, check_config
from ordercast.sim.options import replay_line
from ordercast.sim.recorder import Recorder, Violation
from ordercast.sim.result import Latency, SimResult
from ordercast.sim.trace.frame_log import FrameLog
from ordercast.sim.world import World, no_collection

EPOCH = 1
_SHOWN = 5  # how many missing messages the witness shows


@no_collection()  # also while the history is judged: all that was made is still needed
def simulate(
    config: SimConfig,
    seed: int,
    *,
    progress: Callable[[int, int], None] | None = None,
    log: FrameLog | None = None,
) -> SimResult:
    """`progress` is called now and then with the events done and the virtual time. `log` is told
    of every frame and fault."""
    begun = time.perf_counter()
    check_config(config)
    forest = advise(
        config.planned, config.built_by, branching=config.branching, tie=config.tie
    ).forest
    structure = Structure(EPOCH, config.table, forest)
    world = World(config, structure, seed)
    recorder = world.recorder
    if log is not None:
        world.follow(log)
    try:
        world.start()
        world.run(progress)
        _judge_rest(world)
    except Exception as error:  # a protocol that breaks down is a finding, to be replayed
        recorder.violations.append(_breakdown(error, world.now))
    epochs = world.epochs
    if log is not None:
        log.calm_at = world.calm_at
        log.structures = {
            epoch: domain.structure for epoch, (_, domain) in sorted(epochs.domains.items())
        }
    history = recorder.history(epochs.group_rows(), epochs.epoch_rows(), _meta(config, seed))
    violations = recorder.violations + _verdicts(
        [
            check_high_water(recorder.bounds),
            *_epoch_verdicts(world),
            *check_history(history, causal=config.causal).verdicts.values(),
        ]
    )
    return SimResult(
        protocol=config.protocol,
        builder=config.built_by,
        seed=seed,
        sent=len(history.sent),
        delivered=len(history.deliveries),
        data_frames=world.data,
        control_frames=world.frames - world.data,
        voters_frames=world.voters.frames + world.knocks.frames,
        latency=Latency.of(_latencies(history)),
        epochs=len({row.epoch for row in history.epochs}),
        violations=tuple(violations),
        replay=replay_line(config, seed),
        history_hash=history_hash(history),
        events=world.events,
        virtual_ns=world.now,
        wall_seconds=time.perf_counter() - begun,
        faults=dict(sorted(world.injected.items())),
        history=history,
        spread={} if world.spread is None else dict(sorted(world.spread.counts.items())),
    )


def _judge_rest(world: World) -> None:
    """Record the end of each site that is up and quiet. All must be quiet, unless a site never came
    back, or sites wait for links that are cut for good. A site that lost its store and was not let
    in again is left out: its past is lost."""
    recorder = world.recorder
    if world.quiet:
        cut_off = world.cut_off()
        for name, place in world.places.items():
            if name in recorder.fresh:
                continue
            if name in cut_off:
                continue
            if place.site is not None and not _holds_back(place.site):
                recorder.ended(world.now, name)
        return
    places = world.places.values()
    down = [place.name for place in places if place.site is None]
    up = [place.name for place in places if place.site is not None]
    decided = world.excludes and world.epochs.has_majority(up)
    if down and world.some_stay_down and not decided:
        return
    if world.may_wait():
        recorder.violations += _unnamed(world)
        return
    witness = {
        "at_ns": world.now,
        "submissions_not_taken": world.untaken,
        "down": down,
        "not_quiet": [p.name for p in places if p.site is not None and not p.site.quiet()],
        "missing": _missing(recorder, world),
    }
    recorder.violations.append(Violation("liveness", witness))


def _unnamed(world: World) -> list[Violation]:
    """Sites wait for a link that is cut for good: the manager must say which sites are apart, and
    name no others for long. For a moment it may: where a knock and its answer take longer than the
    timeout of a silent site, a site is taken to be silent until the answer is there."""
    leading = [member for member in world.members() if member.manager.leads]
    if not leading or world.excludes:
        return []
    named = [pair for member in leading for pair in member.manager.apart()]
    silent = [site for member in leading for site in member.manager.suspects(member.now)]
    lasting = [pair for member in leading for pair in member.manager.lasting(member.now)]
    wrong = [pair for pair in lasting if pair not in world.apart()]
    if wrong or not (named or silent):
        return [Violation("apart", {"named": named, "apart": world.apart()})]
    return []


def _holds_back(member: Member) -> bool:
    """Whether the member waits for absent sites, to send its messages or to return. It may wait
    for ever."""
    return bool(member.flush.waiting()) or member.name in member.layout.absent


def _epoch_verdicts(world: World) -> list[Verdict]:
    seen, cut_off = world.recorder.seen, world.cut_off() if world.quiet else []
    return world.epochs.verdicts(world.members(), seen, quiet=world.quiet, cut_off=cut_off)


def _missing(recorder: Recorder, world: World) -> list[dict[str, object]]:
    """The first few accepted messages that some member has not delivered."""
    groups = {**world.config.table.groups, **recorder.implicit}
    seen = {site: {item.id for _, item in log} for site, log in recorder.seen.items()}
    found: list[dict[str, object]] = []
    for sent in recorder.sent():
        lacking = [s for s in groups.get(sent.group_name, ()) if sent.id not in seen[s]]
        if lacking:
            found.append({"message": list(sent.id), "sites": lacking})
            if len(found) == _SHOWN:
                break
    return found


def _breakdown(error: Exception, now: int) -> Violation:
    where = [f"{frame.name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    witness = {"error": f"{type(error).__name__}: {error}", "at_ns": now, "trace": where[-4:]}
    return Violation("breakdown", witness)


def _verdicts(verdicts: list[Verdict]) -> list[Violation]:
    return [
        Violation(verdict.name, {"count": verdict.count, **(verdict.witness or {})})
        for verdict in verdicts
        if not verdict.ok
    ]


def _latencies(history: History) -> list[int]:
    sent = {row.id: row.sent_ns for row in history.sent}
    return [row.delivered_ns - sent[row.id] for row in history.deliveries if row.id in sent]


def _meta(config: SimConfig, seed: int) -> Meta:
    told = {"command": replay_line(config, seed), "builder": config.built_by}
    return Meta(code_version=__version__, config=told, seed=seed, clock="virtual")
