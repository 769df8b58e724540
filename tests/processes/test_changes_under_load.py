"""Groups, sites and protocols change while messages flow, and daemons are killed in the middle of
it: over real processes and TLS, judged by every guarantee over all epochs.

Five sites in two domains. A sixth is added, joins, and is retired; groups come, merge the domains,
and go; the protocol is switched and back. In three of four changes a daemon is killed with SIGKILL:
the manager, the site that was asked, any member of the domains."""

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from ordercast.model.epochs import (
    AddGroup,
    AddSite,
    Edit,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RetireSite,
    UseProtocol,
)
from processes.daemons import Daemons, up
from support.clusters.changed_cluster import changed
from support.harness import loops

GROUPS = {"alpha": ["a", "b", "c"], "beta": ["c", "d"], "gamma": ["e"]}
VOTERS = ["a", "b", "c"]
SENDERS = {
    "a": ("alpha", "gamma"), "b": ("alpha", "beta"), "d": ("beta", "delta"), "e": ("gamma",),
}  # fmt: skip
SCRIPT: Sequence[Sequence[Edit]] = (
    [JoinGroup("alpha", "d")],
    [UseProtocol("centralized")],
    [AddGroup("delta", ("b", "e"))],  # merges the domains
    [AddSite("f")],
    [JoinGroup("beta", "f")],
    [UseProtocol("propagation", "a")],
    [LeaveGroup("alpha", "d")],
    [JoinGroup("delta", "f"), LeaveGroup("beta", "f")],
    [RemoveGroup("delta")],  # and they are two again
    [UseProtocol("centralized", "e")],
    [JoinGroup("gamma", "f")],
    [RetireSite("f")],
    [UseProtocol("propagation")],
)


@pytest.mark.parametrize(
    ("deliver", "durability", "seed", "script"),
    [("safe", "sync", 1, SCRIPT), ("agreed", "os", 2, SCRIPT[:4])],
    ids=["safe", "agreed"],
)
def test_nothing_acknowledged_is_lost_by_changes_and_kills(
    tmp_path: Path, deliver: str, durability: str, seed: int, script: Sequence[Sequence[Edit]]
) -> None:
    options = {"deliver": deliver, "durability": durability, "voters": VOTERS, "tls": True}
    options["on_failure"] = "wait"
    with up(tmp_path, groups=GROUPS, **options) as daemons:
        loops.run(_change_under_load(daemons, seed, script))


async def _change_under_load(daemons: Daemons, seed: int, script: Sequence[Sequence[Edit]]) -> None:
    async with changed(daemons, SENDERS, seed) as running:
        told = await running.run(script)
        if not told.wrong:
            await asyncio.to_thread(running.judge)
        assert not told.wrong, f"seed {seed}: {told.wrong[:5]}"
        assert told.changes == len(script)
        if script is SCRIPT:
            assert {"manager", "asked", "member"} <= set(told.kills)
        assert told.stable > 10 * len(script)


@pytest.mark.parametrize("seed", [3])
def test_all_killed_at_once_and_restarted_in_any_order_go_on(tmp_path: Path, seed: int) -> None:
    """A cold start, three times: in the middle of a change, of its load, and at rest."""
    with up(
        tmp_path, groups=GROUPS, durability="sync", voters=VOTERS, on_failure="wait"
    ) as daemons:
        loops.run(_cold_starts(daemons, seed))


async def _cold_starts(daemons: Daemons, seed: int) -> None:
    chance = random.Random(f"cold {seed}")
    steps: list[Sequence[Edit]] = [
        [JoinGroup("alpha", "d")], [UseProtocol("centralized")], [LeaveGroup("alpha", "d")],
    ]  # fmt: skip
    async with changed(daemons, SENDERS, seed) as running:
        work = asyncio.ensure_future(running.run(steps))
        for _ in range(3):
            await asyncio.sleep(0.2 + chance.random() * 0.6)
            sites = await running.kill_all()
            chance.shuffle(sites)
            for site in sites:
                await running.start([site])
                await asyncio.sleep(chance.random() * 0.2)
        told = await work
        if not told.wrong:
            await asyncio.to_thread(running.judge)
        assert not told.wrong, f"seed {seed}: {told.wrong[:5]}"
        assert told.changes == len(steps)
        assert told.stable > 60
        running.acknowledged.add(("a", "alpha", 0))  # and a loss would be noticed
        running.compare(daemons.place / "history")
        assert len(told.wrong) == 1
