"""`ordercast top` in a terminal, against real daemons; Ctrl-C there, in verbs that take long."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import sqlite3
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen

import pytest

from ordercast.net.cluster.processes import running
from ordercast.net.store.store import Store
from processes.daemons import Daemons, up

_ESCAPES = re.compile(r"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07]*\x07|[()][A-B0-2]|[=>78cM])")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemons]:
    with up(tmp_path_factory.mktemp("cluster"), in_process=True) as daemons:
        yield daemons


class Terminal:
    """A program in a terminal of 120 columns; `shown` is all that it wrote, without escapes."""

    def __init__(self, daemons: Daemons, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, 120))
        self.process = subprocess.Popen(
            daemons.command(*words),
            cwd=daemons.place,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # Ctrl-C is for its session
        )
        os.close(theirs)
        self._written = b""

    @property
    def shown(self) -> str:
        return _ESCAPES.sub("", self._written.decode("utf-8", errors="replace"))

    def until(self, *texts: str) -> None:
        end = time.monotonic() + 60
        while not all(text in self.shown for text in texts):
            assert time.monotonic() < end, self.shown[-3000:]
            assert self._read(), self.shown[-3000:]

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 0.2)[0]:
            return self.process.poll() is None
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the other side is closed
            return False
        self._written += data
        return bool(data)

    def until_true(self, sign: Callable[[int], bool]) -> None:
        """The same for a verb that says nothing: `sign` is asked about its process."""
        end = time.monotonic() + 60
        while not sign(self.process.pid):
            assert time.monotonic() < end
            assert self.process.poll() is None, self.shown[-3000:]
            time.sleep(0.002)

    def press(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def end(self) -> int:
        """The exit code. What is written until then is read: a full terminal would hold it up."""
        end = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < end
            self._read()
        while select.select([self._ours], [], [], 0)[0] and self._read():
            pass
        os.close(self._ours)
        return self.process.returncode


def session_of(stat: Path) -> int:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[3])
    except (OSError, ValueError, IndexError):
        return 0  # it has ended


def left_running(session: int) -> list[str]:
    found = [
        stat.parent for stat in Path("/proc").glob("[0-9]*/stat") if session_of(stat) == session
    ]
    return [folder.name for folder in found]


@pytest.mark.parametrize(("keys", "code"), [(b"q", 0), (b"\x03", 130)])
def test_the_screen_shows_all_sites_and_ends_at_once(
    keys: bytes, code: int, cluster: Daemons
) -> None:
    terminal = Terminal(cluster, "top", "cluster.toml", "--every", "0.2")
    try:
        terminal.until("3 of 3 sites up", "held by", "alpha", "beta", "a - b", "b - c", "a - c")
        begun = time.monotonic()
        terminal.press(keys)
        assert terminal.end() == code
        assert time.monotonic() - begun < 20
    finally:
        terminal.process.kill()
    last = terminal.shown.strip().splitlines()[-1]
    assert ("ordercast: interrupted" in last) is (code == 130)
    assert "Traceback" not in terminal.shown


def test_without_a_terminal_it_says_what_to_do(cluster: Daemons) -> None:
    done = cluster.run("top", "cluster.toml")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "needs a terminal" in done.stderr


def test_one_overview_per_line(cluster: Daemons) -> None:
    with cluster.start("top", "cluster.toml", "--json", "--every", "0.1") as looking:
        assert looking.stdout is not None
        assert looking.stderr is not None
        first, second = (json.loads(looking.stdout.readline()) for _ in range(2))
        looking.send_signal(signal.SIGINT)
        assert looking.wait(60) == 130
        assert looking.stderr.read() == "ordercast: interrupted\n"
    assert list(first["sites"]) == ["a", "b", "c"]
    assert (first["sites"]["a"]["rate"], second["sites"]["a"]["rate"]) == (None, 0.0)
    assert {epoch["root"] for epoch in first["epochs"]} <= {"a", "b", "c"}
    assert second["manager"] in ("a", "b", "c")


@pytest.mark.parametrize(
    ("words", "sign"),
    [
        ("tail cluster.toml --site a --start 1", "a line to see"),
        ("status cluster.toml --watch", "Ctrl-C ends"),
        ("send cluster.toml alpha --size 100 --count 100000000", " sent, "),
        ("bench --members 2 --seconds 600", "all send"),
        ("sim cluster.toml --messages 100000000", " of the sending"),
        ("stability --protocol train --tree n=200000,b=4,p=9", " simulated, "),
    ],
)
def test_ctrl_c_ends_a_long_verb_at_once(words: str, sign: str, cluster: Daemons) -> None:
    """With one line, and nothing is left running."""
    cluster.good("send", "cluster.toml", "alpha", "a line to see", "--from", "a")
    terminal = Terminal(cluster, *words.split())
    try:
        terminal.until(sign)
        before = len(terminal.shown)
        begun = time.monotonic()
        terminal.press(b"\x03")
        assert terminal.end() == 130
        assert time.monotonic() - begun < 10
    finally:
        terminal.process.kill()
    last = terminal.shown.strip().splitlines()[-1]
    assert last.removeprefix("^C") == "ordercast: interrupted"
    assert "Traceback" not in terminal.shown[before:]
    assert left_running(terminal.process.pid) == []


def opened(pid: int) -> list[str]:
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed since
            found.append(str(each.readlink()))
    return found


def reads(file: str) -> Callable[[int], bool]:
    """Whether a process has opened the file."""

    def sign(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return any(name.endswith(file) for name in opened(pid))
        return False

    return sign


def computes(pid: int) -> bool:
    """Longer than it takes to start."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11]
    return int(used) / os.sysconf("SC_CLK_TCK") > 0.9


def waits(pid: int) -> bool:
    """For a daemon: its socket is open, and for a while it does nothing."""
    if not any(name.startswith("socket:") for name in opened(pid)):
        return False
    stat = Path(f"/proc/{pid}/stat")
    before = stat.read_text().rpartition(")")[2].split()[11:13]
    time.sleep(0.3)
    return stat.read_text().rpartition(")")[2].split()[11:13] == before


@pytest.fixture(scope="module")
def silent(cluster: Daemons) -> Daemons:
    """Beside the cluster, which runs: a store with many rows of one that does not; many groups."""
    place = cluster.place / "silent"
    folder = place / "dir"
    folder.mkdir(parents=True, mode=0o700)
    text = cluster.file.read_text(encoding="utf-8").replace('"demo"', '"still"', 1)
    (place / "still.toml").write_text(text, encoding="utf-8")

    async def begin() -> None:
        store = Store.open(folder / "a.db", cluster="still", site="a", durability="os")
        await store.close()

    asyncio.run(begin())
    with contextlib.closing(sqlite3.connect(folder / "a.db")) as db:
        db.execute(
            "WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k WHERE i < 80000)"
            " INSERT INTO batches SELECT i, 1, 1, i, 1, 1, 0, i, 0, 1, 0, zeroblob(50) FROM k"
        )
        db.commit()
    chance = random.Random(1)
    groups = {f"g{g}": [f"s{n}" for n in chance.sample(range(2_000), 20)] for g in range(1_500)}
    (place / "many.json").write_text(json.dumps({"groups": groups}), encoding="utf-8")
    return cluster


@pytest.mark.parametrize(
    ("words", "sign"),
    [
        ("inspect silent/still.toml --dir silent/dir", reads("a.db")),
        ("backup silent/still.toml a copy --dir silent/dir", reads("copy.tmp")),
        ("plan silent/many.json", computes),
        ("export cluster.toml history", waits),
        ("group join cluster.toml alpha c --via a", waits),
    ],
)
def test_ctrl_c_ends_a_silent_verb_at_once(
    words: str, sign: Callable[[int], bool], silent: Daemons
) -> None:
    """With one line; no process is left, and no half of what it would have written. The daemons of
    two voters do not answer: so an export waits for them, and a change for a majority."""
    before = sorted(path.name for path in silent.place.iterdir())
    stopped = [daemon.pid for site in "bc" if (daemon := running(silent.dir, site)) is not None]
    terminal = None
    try:
        for pid in stopped if sign is waits else ():
            os.kill(pid, signal.SIGSTOP)
        terminal = Terminal(silent, *words.split())
        terminal.until_true(sign)
        begun = time.monotonic()
        terminal.press(b"\x03")
        assert terminal.end() == 130
        assert time.monotonic() - begun < 10
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        if terminal is not None:
            terminal.process.kill()
    assert terminal.shown.strip().removeprefix("^C").splitlines() == ["ordercast: interrupted"]
    assert left_running(terminal.process.pid) == []
    assert sorted(path.name for path in silent.place.iterdir()) == before


def test_ctrl_c_ends_a_page_that_computes_and_streams(cluster: Daemons) -> None:
    """A run of minutes is asked for, and a stream is open: both are cut off, without a word."""
    with cluster.start("dashboard", "cluster.toml", "--port", "0", "--json") as serving:
        assert serving.stdout is not None
        assert serving.stderr is not None
        url = json.loads(serving.stdout.readline())["url"]
        line = """ordercast sim '{"groups":{"g":["a","b","c"]}}' --messages 20000"""
        long = Request(
            f"{url}/api/replay", json.dumps({"line": line}).encode(),
            {"Origin": url, "Content-Type": "application/json"},
        )  # fmt: skip
        asking = Thread(target=answered, args=(long,))
        with urlopen(f"{url}/api/cluster/stream") as stream:
            stream.readline()
            asking.start()
            time.sleep(0.5)
            begun = time.monotonic()
            serving.send_signal(signal.SIGINT)
            assert serving.wait(60) == 130
            assert time.monotonic() - begun < 10
        asking.join()
        assert serving.stderr.read() == "ordercast: interrupted\n"


def answered(request: Request) -> None:
    with contextlib.suppress(OSError):  # the server ends
        urlopen(request).close()
