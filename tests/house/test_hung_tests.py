"""A test that hangs fails by its name, the others pass, and nothing of it is left."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.harness import children
from tools import suites

ROOT = Path(__file__).resolve().parent.parent.parent

SHARED = """
import asyncio
import gc
import socket
import subprocess
import sys
import time

import pytest

from support.harness import loops
from support.harness.ports import free_ports

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def listening():
    sock = socket.socket()
    sock.bind(("127.0.0.1", free_ports(1)[0]))
    sock.listen()
    return sock
"""
FAILING = """
@loops.in_loop
async def test_coroutine_hangs():
    kept = [await asyncio.start_server(lambda r, w: None, "127.0.0.1", free_ports(1)[0])]
    kept.append(kept)  # only the garbage collector finds it
    await asyncio.sleep(600)


def test_child_lives():
    leaves = f"import subprocess; subprocess.Popen({SLEEP}, start_new_session=True)"
    subprocess.run([sys.executable, "-c", leaves], check=True)
"""
CLOSING = """
class Unclosable(asyncio.SelectorEventLoop):
    def close(self):
        time.sleep(600)


@loops.in_loop
async def test_thread_hangs():
    kept = listening()
    await asyncio.to_thread(time.sleep, 600)


def test_close_hangs():
    async def wrong():
        raise ValueError("what went wrong first")

    loops.run(wrong(), loop=Unclosable)
"""
CALLING = """
def test_call_hangs():
    kept = listening()
    subprocess.Popen(SLEEP, start_new_session=True, pass_fds=[kept.fileno()])
    time.sleep(600)
"""
GOOD = """

@pytest.mark.parametrize("number", range(6))
def test_good(number):
    gc.collect()

    async def serves():
        for port in free_ports(40):
            server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", port)
            server.close()
        subprocess.run([sys.executable, "-c", ""], check=True)

    loops.run(serves())
"""
SAMPLES = {
    "failing": (FAILING, {"coroutine_hangs", "child_lives"}, "TimeoutError"),
    "closing": (CLOSING, {"thread_hangs", "close_hangs"}, "ValueError: what went wrong first"),
    "calling": (CALLING, {"call_hangs"}, "in test_call_hangs"),  # the stack, when it was ended
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_hung_test_fails_alone_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    hung, failing, told = SAMPLES[name]
    (tmp_path / "test_sample.py").write_text(SHARED + hung + GOOD, encoding="utf-8")
    run = f"{name}-{os.getpid()}"
    options = [
        "-c", str(ROOT / "pyproject.toml"), "-p", "support.harness.plugin",
        "-p", "no:cacheprovider", "--testrunuid", run, "-o", "faulthandler_timeout=8", "-rfEp",
    ]  # fmt: skip
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        suites.pytest([*options, str(tmp_path)], workers=1),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    said = done.stdout + done.stderr
    assert set(re.findall(r"(?m)^(?:FAILED|ERROR) \S*::test_(\w+)", said)) == failing, said
    assert len(re.findall(r"(?m)^PASSED \S*::test_good", said)) == 6, said
    assert told in said
    workers = [f"gw{number}" for number in range(5)]
    assert not any(children.living(run, worker) for worker in workers)
