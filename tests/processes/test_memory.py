"""How much a real daemon holds in memory, by what the system says of its process."""

import asyncio
from pathlib import Path

import ordercast
from processes.daemons import Daemons, up

MESSAGES, SIZE = 100, 1_000_000
MOST_MB = 32


def peak_mb(pid: int, *, anew: bool = False) -> float:
    """The most that the process ever had in memory, or has had since `anew`."""
    if anew:
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(found) / 1024


async def read_all(daemons: Daemons) -> int:
    """Read the backlog, slowly at first: what waits for this reader waits in the daemon."""
    size = 0
    async with ordercast.connect(daemons.file, site="a", dir=daemons.dir) as client:
        async for item in client.deliveries(start=1, observe=True):
            assert isinstance(item, ordercast.Delivery)
            if item.position == 1:
                await asyncio.sleep(0.2)
            size += len(item.payload)
            if item.position == MESSAGES:
                return size
    raise AssertionError


def test_a_reader_behind_a_backlog_of_large_messages_costs_few_bytes(tmp_path: Path) -> None:
    with up(tmp_path, groups={"alpha": ["a"]}, durability="os", in_process=True) as daemons:
        send = ("send", "cluster.toml", "alpha", "--count", str(MESSAGES), "--size", str(SIZE))
        daemons.good(*send, "--until", "stable")
        filled = peak_mb(daemons.pids()["a"])
        daemons.good("cluster", "restart", "cluster.toml", "a")
        pid = daemons.pids()["a"]
        started = peak_mb(pid)
        before = peak_mb(pid, anew=True)
        assert asyncio.run(read_all(daemons)) == MESSAGES * SIZE
        after = peak_mb(pid)
        print(f"filled {filled:.0f}, started {started:.0f}, idle {before:.0f}, read {after:.0f} MB")
        assert after - before < MOST_MB
