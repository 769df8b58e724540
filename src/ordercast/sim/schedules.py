"""Fault schedules: a whole configuration drawn from a seed, small enough to run by the thousand.

A short schedule hands a few hundred to three thousand frames and alarms to its sites; every 50th
seed is a long one. Clusters are of many shapes (several domains, groups of one site, equal groups,
sites in no group); options, limits, network, workload and faults are drawn as well.
"""

from dataclasses import replace

from ordercast.core.order.registry import protocol_named
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, SECOND, Limits, Timing
from ordercast.sim.chance import Chance
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import CHANGES, Fault, random_faults, total
from ordercast.sim.networks import (
    BroadcastSpec,
    LanSpec,
    NetworkSpec,
    PointToPointSpec,
    TreeSpec,
    WanSpec,
)

LONG_EVERY = 50
# A run with more events, or that takes longer to settle, will never come to rest. The bounds are
# wide, since narrow limits over slow links take their time.
MOST_EVENTS, MOST_EVENTS_LONG = 30_000, 500_000
SETTLE, SETTLE_LONG = 120 * SECOND, 600 * SECOND

FOUNDED = 500 * MILLISECOND  # the cluster is founded by then, if its sites are near each other

_NAMES = "abcdefghijk"
_HOLDING = ("combining", "hybrid", "combining_counting")


def schedule(protocol: str, seed: int) -> SimConfig:
    """The configuration of one schedule; run it with the same seed."""
    stream = Chance(seed, f"schedule {protocol}")
    long = seed % LONG_EVERY == 0
    table = _table(stream)
    network = _network(stream)
    wait = stream.chance(0.5)
    durability = stream.choice(("sync", "sync", "os") if wait else ("sync", "os", "memory"))
    batch, payload = stream.choice((1, 1, 2, 5)), stream.choice((8, 64, 500))
    return SimConfig(
        table,
        protocol=protocol,
        builder=_builder(stream, protocol),
        messages=_messages(stream, table, network, long=long),
        origins=stream.between(1, len(table.sites)) if stream.chance(0.3) else None,
        rate=float(stream.choice((100, 500, 500, 5000))),
        batch=batch,
        payload=payload,
        implicit=stream.choice((0.0, 0.0, 0.2)),
        replies=stream.choice((0.0, 0.5, 0.8)),
        network=network,
        wake=stream.choice((0, 0, 20_000, MILLISECOND)),
        faults=random_faults(seed, crashes=wait),
        deliver=stream.choice(("safe", "safe", "agreed")),
        on_failure="wait" if wait else "exclude",
        causal=stream.chance(0.35),
        stability="plain",  # fixed, so that a known seed still finds what it found
        durability=durability,
        longest_sync=stream.choice((1, 10, 50)) * MILLISECOND,
        codec="bytes" if stream.chance(0.2) else "objects",
        limits=_limits(stream, batch, payload),
        timing=_timing(stream, protocol, seed),
        settle=SETTLE_LONG if long else SETTLE,
        most_events=MOST_EVENTS_LONG if long else MOST_EVENTS,
        source=f"--schedule --protocol {protocol}",
    )


def changing(protocol: str, seed: int) -> SimConfig:
    """A schedule in which groups, protocol and builder change, several times.

    Sending is slow, so that the voters elect a manager and a few changes follow each other.
    """
    stream = Chance(seed, f"changing {protocol}")
    drawn = schedule(protocol, seed)
    faults = [fault for fault in drawn.faults if fault.count != 0 or fault.probability <= 0.1]
    counts = {kind: stream.between(0, 2) for kind in CHANGES}
    counts[stream.choice(CHANGES)] += 1
    return replace(
        drawn,
        messages=max(drawn.messages, 40),
        rate=float(stream.choice((60, 100, 200))),
        implicit=0.0,
        faults=(*faults, *(Fault(kind, count=n) for kind, n in counts.items() if n)),
        settle=SETTLE_LONG,
        most_events=MOST_EVENTS_LONG,
        source=f"--schedule --changing --protocol {protocol}",
    )


def excluding(protocol: str, seed: int) -> SimConfig:
    """A schedule under `exclude`: sites crash, for a while or for good, and lose their stores. Two
    seeds of five may have causal order, applications that lag, slow members that are excluded.

    It is long enough for exclusion and return. A majority of the voters never stays away.
    """
    stream = Chance(seed, f"excluding {protocol}")
    drawn = schedule(protocol, seed)
    faults = [
        fault
        for fault in drawn.faults
        if fault.kind not in ("crash", "restart") and (fault.count or fault.probability <= 0.1)
    ]
    crashes = stream.between(1, 5)
    for_good = stream.choice((0, 0, 1)) if not isinstance(drawn.network, WanSpec) else 0
    # All voters are needed to found the cluster: nobody may go for good before that.
    faults.append(Fault("crash", count=crashes, start=FOUNDED if for_good else 0))
    faults.append(Fault("restart", count=crashes - for_good))
    # Of three voters only one may be away, or lose its store.
    if stream.chance(0.3) and not for_good:
        faults.append(Fault("lose", count=1, start=FOUNDED))
    counts = {kind: stream.between(0, 1) for kind in CHANGES} if stream.chance(0.3) else {}
    more = Chance(seed, f"more {protocol}")
    varied, near = seed % 5 in (2, 4), not isinstance(drawn.network, WanSpec)
    if varied and more.chance(0.6):
        faults.append(Fault("lag", count=more.between(1, 3)))
    return replace(
        drawn,
        messages=max(drawn.messages, 60),
        rate=float(stream.choice((20, 40, 40))),
        # Messages lost with a store are sent again, behind messages that were sent after them.
        causal=varied
        and drawn.deliver == "safe"
        and more.chance(0.5)
        and not total(tuple(faults), "lose"),
        on_failure="exclude",
        # Over a wide area a message takes longer than four of the shortest timeouts.
        slow_member=more.choice(("wait", "exclude")) if varied and near else "wait",
        durability=stream.choice(("sync", "sync", "os")),
        faults=(*faults, *(Fault(kind, count=n) for kind, n in counts.items() if n)),
        timing=replace(drawn.timing, suspect=stream.choice((100, 200, 500)) * MILLISECOND),
        settle=SETTLE_LONG,
        most_events=MOST_EVENTS_LONG,
        source=f"--schedule --excluding --protocol {protocol}",
    )


def cutting(protocol: str, seed: int) -> SimConfig:
    """A schedule in which links are cut for good, in one direction or both: one link, so that there
    is a way round it, or enough links to keep some sites apart. In some of them sites crash
    meanwhile. Either policy; two seeds of five may exclude slow members."""
    stream = Chance(seed, f"cutting {protocol}")
    drawn = schedule(protocol, seed)
    near = not isinstance(drawn.network, WanSpec)
    faults = [
        fault
        for fault in drawn.faults
        if fault.kind not in ("crash", "restart") and (fault.count or fault.probability <= 0.1)
    ]
    sites = len(drawn.table.sites)
    most = stream.choice((1, 1, 1, sites - 1, sites))
    # All voters are needed to found the cluster: no link is cut before that.
    for kind, count in (("cut", most), ("cut_one_way", stream.between(0, 2))):
        if count:
            faults.append(Fault(kind, count=count, start=FOUNDED))
    crashes = stream.choice((0, 0, 1, 2))
    if crashes:
        faults.append(Fault("crash", count=crashes, start=FOUNDED))
        faults.append(Fault("restart", count=crashes))
    exclude = stream.chance(0.6)
    slow = stream.choice(("wait", "wait", "exclude"))
    return replace(
        drawn,
        messages=max(drawn.messages, 60),
        rate=float(stream.choice((20, 40, 40))),
        causal=drawn.causal and (drawn.deliver == "safe" or not exclude),
        on_failure="exclude" if exclude else "wait",
        slow_member=slow if near and exclude else "wait",
        durability=stream.choice(("sync", "sync", "os")),
        faults=tuple(faults),
        timing=replace(drawn.timing, suspect=stream.choice((200, 200, 500)) * MILLISECOND),
        settle=SETTLE_LONG,
        most_events=MOST_EVENTS_LONG,
        source=f"--schedule --cutting --protocol {protocol}",
    )


def _table(stream: Chance) -> GroupTable:
    count = stream.between(3, 9)
    sites = list(_NAMES[:count])
    idle = stream.sample(sites, 1) if stream.chance(0.2) else []
    active = [site for site in sites if site not in idle]
    parts = [active]
    if len(active) >= 4 and stream.chance(0.3):  # domains: no group reaches across
        cut = stream.between(2, len(active) - 2)
        parts = [active[:cut], active[cut:]]
    groups: dict[str, list[str]] = {}
    for number in range(stream.between(1, 6)):
        part = stream.choice(parts)
        if groups and stream.chance(0.1):
            members = stream.choice(list(groups.values()))  # an equal group under another name
        elif stream.chance(0.1):
            members = stream.sample(part, 1)
        else:
            members = stream.sample(part, stream.between(min(2, len(part)), min(5, len(part))))
        groups[f"g{number}"] = list(members)
    rates = {group: float(stream.between(1, 9)) for group in groups}
    return GroupTable.of(groups, sites=sites, rates=rates if stream.chance(0.3) else None)


def _builder(stream: Chance, protocol: str) -> str:
    """Any builder. A protocol that runs on certain ones gets the first of them, or the last."""
    drawn = stream.choice(("greedy", "greedy", "balanced", "star"))
    fit = protocol_named(protocol).builders
    if not fit:
        return drawn
    return fit[-1] if len(fit) > 1 and drawn != "greedy" else ""


def _messages(stream: Chance, table: GroupTable, network: NetworkSpec, *, long: bool) -> int:
    """Fewer where a message costs more frames: in large groups, and where answers come late."""
    slow = isinstance(network, WanSpec)
    if long:
        return stream.between(100, 200) if slow else stream.between(300, 600)
    size = max(len(members) for members in table.groups.values())
    most = 240 // (size + 1)
    return stream.between(8, most // 3 if slow else most)


def _network(stream: Chance) -> NetworkSpec:
    drawn: tuple[NetworkSpec, ...] = (
        LanSpec(),
        LanSpec(),
        PointToPointSpec(MILLISECOND // 5, MILLISECOND),
        BroadcastSpec(MILLISECOND // 5),
        TreeSpec(),
        WanSpec(),
    )
    return stream.choice(drawn)


def _limits(stream: Chance, batch: int, payload: int) -> Limits:
    """Limits that are often narrow. The window always has room for one batch."""
    checkpoint = stream.choice((4, 16, 64))
    if stream.chance(0.6):
        return Limits(checkpoint_batches=checkpoint)
    largest = batch * (payload + 5) + 5
    return Limits(
        window_messages=stream.between(batch, 40),
        window_bytes=stream.between(largest, 10 * largest),
        link_items=stream.between(2, 20),
        frame_items=stream.between(1, 8),
        frame_bytes=stream.between(50, 2_000),
        checkpoint_batches=checkpoint,
        held_batches=stream.choice((4, 12, 40, 20_000)),
    )


def _timing(stream: Chance, protocol: str, seed: int) -> Timing:
    hold = 0
    if protocol.partition(":")[0] in _HOLDING:
        hold = Chance(seed, f"hold {protocol}").choice((0, 0, 1, 20)) * MILLISECOND
    if stream.chance(0.4):
        return Timing(hold=hold)
    return Timing(
        hold=hold,
        ack_delay=stream.between(1, 10) * MILLISECOND,
        ack_every=stream.choice((1, 4, 64)),
        resend_after=stream.between(20, 300) * MILLISECOND,
        resend_at_most=stream.between(1, 2) * SECOND,
        repair_again=stream.between(5, 60) * MILLISECOND,
        report_delay=stream.between(5, 40) * MILLISECOND,
    )
