"""docs/architecture.md walks a message and a change: what really runs takes the same steps.

Three sites over TCP, with stores on disk, in one process. Every call of a function of ours is
recorded, whichever thread it is in; what the page names must be called, in the order of the page.
"""

import asyncio
import re
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import ordercast
from ordercast.check.report import check_history
from ordercast.history.reader import read_history
from ordercast.net.export.history import export
from support.harness.loops import in_loop
from support.harness.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = str(Path(ordercast.__file__).parent.parent)
Call = tuple[str, str]  # the file below src/, and the function

CLUSTER = """
[cluster]
name = "walk"
[timeouts]
suspect = "30s"
[groups]
alpha = ["b", "c"]
"""


def steps(heading: str) -> list[Call]:
    """The functions that a section names in its numbered steps."""
    section = PAGE[PAGE.index(f"\n## {heading}") :]
    section = section[: section.index("\n## ", 1)]
    walk = section[section.index("\n1. ") :].partition("\n\n")[0]
    return [(path, name) for name, path in re.findall(r"\[([\w.]+)\]\(\.\./src/(\S+?)\)", walk)]


@contextmanager
def recorded(calls: list[Call]) -> Iterator[None]:
    def profile(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            calls.append((code.co_filename[len(SOURCE) + 1 :], code.co_qualname))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


@asynccontextmanager
async def three_sites(folder: Path) -> AsyncIterator[list[ordercast.Node]]:
    file = folder / "cluster.toml"
    sites = zip("abc", free_ports(3), strict=True)
    file.write_text(
        CLUSTER + "".join(f'[sites.{site}]\naddress = "127.0.0.1:{port}"\n' for site, port in sites)
    )
    stores = folder / "stores"
    async with (
        ordercast.Node.open(file, "a", dir=stores) as a,
        ordercast.Node.open(file, "b", dir=stores) as b,
        ordercast.Node.open(file, "c", dir=stores) as c,
    ):
        yield [a, b, c]


async def delivered(reader: Any, kind: type) -> None:
    async for item in reader:
        if isinstance(item, kind):
            return


def follow(walk: list[Call], calls: list[Call]) -> None:
    """Every step is taken, and none before the one that the page has before it."""
    assert len(walk) > 12
    later = iter(calls)
    taken = [step for step in walk if any(step == call for call in later)]
    if taken != walk:
        missing = walk[len(taken)]
        never = "never called" if missing not in calls else "not called after the step before it"
        raise AssertionError(f"{missing}: {never}")


@in_loop
async def test_a_message_takes_the_steps_of_the_page(tmp_path: Path) -> None:
    calls: list[Call] = []
    with recorded(calls):
        async with three_sites(tmp_path) as (a, b, c):
            readers = [b.deliveries(), c.deliveries()]
            await (await a.multicast("alpha", b"before")).stable()
            await asyncio.gather(*(delivered(each, ordercast.Delivery) for each in readers))
            await asyncio.sleep(0.2)
            calls.clear()
            receipt = await a.multicast("alpha", b"walks")
            await asyncio.gather(*(delivered(each, ordercast.Delivery) for each in readers))
            await receipt.stable()
        export(tmp_path / "stores", tmp_path / "history")
        assert check_history(read_history(tmp_path / "history")).ok
    follow(steps("One message"), calls)


@in_loop
async def test_a_change_takes_the_steps_of_the_page(tmp_path: Path) -> None:
    calls: list[Call] = []
    with recorded(calls):
        async with three_sites(tmp_path) as (a, _, _):
            await (await a.multicast("alpha", b"before")).stable()
            calls.clear()
            await a.join("alpha")
            await delivered(a.deliveries(), ordercast.EpochOpened)
    follow(steps("One change"), calls)
