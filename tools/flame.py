"""A flame graph of three sites in one process: where the time of a message goes.

    python -m tools.flame OUT.svg [--rate 1000] [--seconds 6] [--deliver agreed] [--calls]

The sites run in one process over real connections, each with its store, and send at an even rate.
A second thread looks at the stack each millisecond, and counts it if code of ours runs.
`--calls` counts the calls of Python functions of ours for each message instead, one message at a
time. Of each site's messages the one with the fewest has met no alarm, so no other work on the
machine disturbs that number.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import threading
from collections import Counter
from functools import cache
from html import escape
from itertools import pairwise
from pathlib import Path
from types import FrameType

from ordercast.model.messages import Delivery
from ordercast.net.bench.run import BenchSpec, _write_cluster
from ordercast.net.bench.site import GROUP
from ordercast.net.daemon.daemon import loop_factory
from ordercast.net.site.node import Node

EVERY_S = 0.001
SWITCH_S = 1e-5  # so soon the sampling thread runs when it wants to
WARM_S = 1.0
ALONE = 1_500  # messages
WIDTH, ROW = 1_200, 17  # pixels
LEAST = 2  # pixels: narrower boxes are left out
COLOURS = {  # by room
    "core": "#e8a07c", "wire": "#e8cf7c", "net/link": "#9cc5a1", "net/site": "#8fb8de",
    "net/store": "#b7a3d0", "model": "#d9d2c5",
}  # fmt: skip
OTHER = "#c8c8c8"

Stack = tuple[str, ...]


class Sampler:
    """Counts the stacks of the main thread while it is on. A second thread looks: signals are
    handled by uvloop when a callback has ended, and would see none of it. Frames of the loop and of
    libraries are left out."""

    def __init__(self) -> None:
        self.stacks: Counter[Stack] = Counter()
        self._over = threading.Event()

    def __enter__(self) -> "Sampler":
        self._main = threading.get_ident()
        self._switch = sys.getswitchinterval()
        sys.setswitchinterval(SWITCH_S)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        sys.setswitchinterval(self._switch)

    def _look(self) -> None:
        while not self._over.wait(EVERY_S):
            frame: FrameType | None = sys._current_frames()[self._main]
            names: list[str] = []
            while frame is not None:
                code = frame.f_code
                names.append(f"{place(code.co_filename)}:{code.co_qualname}")
                frame = frame.f_back
            ours = [name for name in names if "/" in name]  # a room; a library's file has none
            if ours:
                self.stacks[tuple(reversed(ours))] += 1


@cache
def place(path: str) -> str:
    """A file of ours by its room, another one by its name."""
    _, found, inner = path.rpartition("/ordercast/")
    return inner.removesuffix(".py") if found else Path(path).stem


class CallCounter:
    """Counts calls of Python functions while it is on."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.of_message: list[int] = []  # how many calls were made until each one had travelled

    def __enter__(self) -> "CallCounter":
        sys.setprofile(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "/" in (where := place(frame.f_code.co_filename)):
            self.calls[f"{where}:{frame.f_code.co_qualname}"] += 1


# --- the picture --------------------------------------------------------------------------------


class Box:
    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.above: dict[str, Box] = {}

    def add(self, stack: Stack, count: int) -> None:
        box = self
        box.count += count
        for name in stack:
            box = box.above.setdefault(name, Box(name))
            box.count += count

    @property
    def height(self) -> int:
        return 1 + max((box.height for box in self.above.values()), default=0)


def flame(stacks: Counter[Stack], title: str) -> str:
    """An SVG: callers below, callees above, as wide as their share of the samples."""
    root = Box("all")
    for stack, count in sorted(stacks.items()):
        root.add(stack, count)
    shown = trimmed(root)
    height = (shown.height + 2) * ROW
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
        ' font-family="monospace" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<text x="4" y="13">{escape(title)}: {root.count:,} samples</text>',
    ]
    draw(shown, 0.0, height - ROW, WIDTH / max(1, shown.count), root.count, lines)
    return "\n".join([*lines, "</svg>\n"])


def trimmed(box: Box) -> Box:
    """Without the frames at the bottom that all samples have in common."""
    while len(box.above) == 1:
        (box,) = box.above.values()
    return box


def draw(box: Box, x: float, y: float, scale: float, all_: int, lines: list[str]) -> None:
    width = box.count * scale
    if width < LEAST:
        return
    colour = next((c for room, c in COLOURS.items() if box.name.startswith(room)), OTHER)
    share = f"{box.count / all_:.1%}"
    letters = int(width / 6.7) - 1
    name = box.name.rpartition(":")[2] if len(box.name) > letters else box.name
    lines.append(
        f'<g><title>{escape(box.name)} {share}</title><rect x="{x:.1f}" y="{y}"'
        f' width="{width:.1f}" height="{ROW - 1}" fill="{colour}" stroke="#fff"/>'
        + (f'<text x="{x + 2:.1f}" y="{y + 12}">{escape(name[:letters])}</text>' * (letters > 2))
        + "</g>"
    )
    for each in sorted(box.above.values(), key=lambda each: -each.count):
        draw(each, x, y - ROW, scale, all_, lines)
        x += each.count * scale


# --- the load -----------------------------------------------------------------------------------


async def run(options: argparse.Namespace, watch: Sampler | CallCounter, place: Path) -> int:
    """Sends evenly from all sites. Returns how many messages were sent while they were watched."""
    spec = BenchSpec(members=3, deliver=options.deliver, durability=options.durability)
    sites = ["m1", "m2", "m3"]
    file = _write_cluster(spec, sites, place)
    opened = [Node.open(file, site, dir=place) for site in sites]
    nodes = await asyncio.gather(*(each.__aenter__() for each in opened))
    seen, everywhere = 0, asyncio.Event()

    async def read(node: Node) -> None:
        nonlocal seen
        async for item in node.deliveries():
            seen += isinstance(item, Delivery)
            if seen % len(sites) == 0:
                everywhere.set()

    reading = [asyncio.ensure_future(read(node)) for node in nodes]
    payload, clock = bytes(100), asyncio.get_running_loop().time

    async def alone() -> int:
        """Each message when the one before is delivered everywhere."""
        for number in range(ALONE):
            everywhere.clear()
            await nodes[number % 3].multicast(GROUP, payload)
            await everywhere.wait()
            if isinstance(watch, CallCounter):
                watch.of_message.append(watch.calls.total())
        return ALONE

    async def send(seconds: float) -> int:
        sent, begun = 0, clock()
        while (now := clock()) - begun < seconds:
            while sent < (now - begun) * options.rate:
                await nodes[sent % 3].multicast(GROUP, payload)
                sent += 1
            await asyncio.sleep(0.0005)
        return sent

    before = await send(WARM_S)
    while seen < 3 * before:
        await asyncio.sleep(0.001)
    with watch:
        sent = await (alone() if options.calls else send(options.seconds))
        while seen < 3 * (before + sent):
            await asyncio.sleep(0.001)
    for task in reading:
        task.cancel()
    for each in opened:
        await each.__aexit__(None, None, None)
    return sent


def main() -> int:
    parser = argparse.ArgumentParser(prog="flame", description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--rate", type=float, default=1_000.0)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--deliver", default="agreed")
    parser.add_argument("--durability", default="memory")
    parser.add_argument("--calls", action="store_true", help="count calls; OUT is their list")
    options = parser.parse_args()
    watch = CallCounter() if options.calls else Sampler()
    with (
        tempfile.TemporaryDirectory(prefix="ordercast-flame-") as made,
        asyncio.Runner(loop_factory=loop_factory()) as runner,
    ):
        sent = runner.run(run(options, watch, Path(made)))
    if isinstance(watch, CallCounter):
        calls = watch.calls
        each = [after - before for before, after in pairwise(watch.of_message)]
        alone = statistics.mean(min(each[origin::3]) for origin in range(3))
        mean = calls.total() / sent
        told = [f"{alone:8.1f} calls a message, {mean:.1f} with what the time has brought"]
        told += [f"{count / sent:8.2f} {name}" for name, count in calls.most_common()]
        options.out.write_text("\n".join(told) + "\n", encoding="utf-8")
        print(told[0].strip())
        return 0
    title = f"3 sites, {options.deliver}, {options.durability}, {options.rate:g} messages/s"
    options.out.write_text(flame(watch.stacks, title), encoding="utf-8")
    print(f"{watch.stacks.total():,} samples of {sent:,} messages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
