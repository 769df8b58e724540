"""The page under load in a real browser: how soon it draws, how long it is busy, what it holds."""

import contextlib
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page

from processes.daemons import Daemons, up
from support.harness.browser import browsing, listen

SITES, GROUPS = 200, 60
MESSAGES, RATE = (
    6_000,
    15_000,
)  # a second; 10,000 with what comes before the first and after the last
DAEMONS = [f"s{number}" for number in range(10)]
LOOK_S = 20.0
_OBSERVE = """
window.longest = 0;
new PerformanceObserver((list) => {
  for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
}).observe({ type: "longtask", buffered: true });
"""
_SENT = """() => [...document.querySelectorAll("#groups tbody tr")]
  .reduce((sum, row) => sum + Number(row.cells[4].textContent.replaceAll(",", "")), 0)"""


@dataclass(frozen=True)
class PageFigures:
    """Times in milliseconds, the heap in kilobytes."""

    first_picture: int
    longest_task: int
    click_to_detail: int
    heap: int
    sent: int  # messages per second, as the page shows them
    complaints: tuple[str, ...]
    note: str

    def beyond(self, limits: "PageFigures") -> list[str]:
        names = ("first_picture", "longest_task", "click_to_detail", "heap")
        found = [
            f"{name}: {getattr(self, name):,} is above {getattr(limits, name):,}"
            for name in names
            if getattr(self, name) > getattr(limits, name)
        ]
        if self.sent < limits.sent:
            found.append(f"only {self.sent:,} messages/s are shown")
        if "once a second" not in self.note:
            found.append(f"the page does not say that it samples: {self.note}")
        return found + [f"console: {line}" for line in self.complaints]


@contextlib.contextmanager
def simulated(place: Path, seed: int) -> Iterator[str]:
    """The address of a page about a simulated feed."""
    chance = random.Random(seed)
    lines = [f"seed = {seed}", "[options]", f"messages = {MESSAGES}", f"rate = {RATE}", "[groups]"]
    for group in range(GROUPS):
        members = [f"s{site}" for site in sorted(chance.sample(range(SITES), 8))]
        lines.append(f"g{group} = {json.dumps(members)}")
    lines.append(f"all = {json.dumps([f's{site}' for site in range(SITES)])}\n")
    rates = "\n".join(f"g{group} = 100" for group in range(GROUPS))
    lines.append(f"[rates]\n{rates}\nall = 1\n")
    (place / "feed.toml").write_text("\n".join(lines), encoding="utf-8")
    words = [sys.executable, "-m", "ordercast.cli", "dashboard", "feed.toml"]
    yield from _served([*words, "--port", "0", "--json"], place)


@contextlib.contextmanager
def running(place: Path, seed: int) -> Iterator[str]:
    """The same about ten daemons, three of which send as fast as they may."""
    chance = random.Random(seed)
    groups = {f"g{group}": sorted(chance.sample(DAEMONS, 4)) for group in range(6)}
    groups["all"] = DAEMONS
    with up(place, groups=groups, durability="os") as daemons, _load(daemons, groups):
        words = daemons.command("dashboard", "cluster.toml", "--port", "0", "--json")
        yield from _served(words, place)


@contextlib.contextmanager
def _load(daemons: Daemons, groups: dict[str, list[str]]) -> Iterator[None]:
    sending = [
        daemons.start("send", "cluster.toml", group, "--size", "100", "--count", "100000000")
        for group in sorted(groups)[:3]
    ]
    try:
        yield
    finally:
        for one in sending:
            one.kill()
            one.communicate()


def _served(words: list[str], place: Path) -> Iterator[str]:
    with subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield json.loads(server.stdout.readline())["url"]
        finally:
            server.terminate()


def measure(url: str) -> PageFigures:
    """Look for a while, as a person would: the forest, then one site after the other."""
    complaints: list[str] = []
    with browsing() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(300_000)
        listen(page, complaints)
        page.add_init_script(_OBSERVE)
        page.goto(f"{url}/cluster")
        page.wait_for_selector("#forest .fo-box", state="attached")  # a run may be simulated first
        begun = time.monotonic()
        page.reload()
        page.wait_for_selector("#forest .fo-box", state="attached")
        first = time.monotonic() - begun
        details = [_click(page, number) for number in range(5)]
        page.wait_for_timeout(LOOK_S * 1000)
        details += [_click(page, number) for number in range(5, 10)]
        session = page.context.new_cdp_session(page)
        session.send("HeapProfiler.collectGarbage")
        heap = session.send("Runtime.getHeapUsage")["usedSize"]
        return PageFigures(
            int(first * 1000), int(page.evaluate("window.longest")), int(max(details) * 1000),
            int(heap) // 1000, int(page.evaluate(_SENT)), tuple(complaints),
            page.locator("#note").text_content() or "",
        )  # fmt: skip


def _click(page: Page, number: int) -> float:
    """Seconds until the detail of a site is there, as the page itself measures them."""
    took: float = page.evaluate(
        """(number) => new Promise((done) => {
          const row = document.querySelectorAll("#sites tbody tr")[number];
          const begun = performance.now();
          const look = () => document.querySelector("#detail-name").textContent === row.dataset.site
            ? done((performance.now() - begun) / 1000) : requestAnimationFrame(look);
          row.click();
          look();
        })""",
        number,
    )
    return took
