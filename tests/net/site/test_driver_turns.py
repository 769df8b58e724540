"""When the driver deals with what was read: at once where it is quiet, else with the next turn."""

import asyncio
import time

import pytest

import ordercast
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox
from ordercast.net.site.node import site_of
from ordercast.wire.epochs import Knock
from support.harness.loops import in_loop


@pytest.mark.parametrize("quiet", [True, False])
def test_what_is_read_is_dealt_with_at_once_where_it_is_quiet_else_together(
    quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained: list[str] = []
    plain = Member.drain

    def drain(member: Member) -> MemberBox:
        drained.append(member.name)
        return plain(member)

    @in_loop
    async def run() -> None:
        async with ordercast.local_cluster({"alpha": ["a", "b", "c"]}) as cluster:
            await (await cluster["a"].multicast("alpha", b"x")).stable()
            driver = site_of(cluster["a"]).driver
            while driver._woken:
                await asyncio.sleep(0)
            monkeypatch.setattr(Member, "drain", drain)
            # The last turn was long ago; or it has not ended yet, however slow this machine is.
            driver._turned_at = 0 if quiet else time.monotonic_ns() + 10**12
            for _ in range(3):
                driver.frames("b", [Knock(back=False)])
                driver._turned_at = 0 if quiet else time.monotonic_ns() + 10**12
            assert drained == ["a"] * (3 if quiet else 0)
            await asyncio.sleep(0)
            assert "a" in drained

    run()
