"""A test that hangs fails by its name, the others pass, and nothing of it is left."""

import os
import re
import subprocess
import sys
from pathlib import Path

from support.harness import children

ROOT = Path(__file__).resolve().parent.parent.parent

SAMPLES = """
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


class Unclosable(asyncio.SelectorEventLoop):
    def close(self):
        time.sleep(600)


@loops.in_loop
async def test_coroutine_hangs():
    kept = [await asyncio.start_server(lambda r, w: None, "127.0.0.1", free_ports(1)[0])]
    kept.append(kept)  # only the garbage collector finds it
    await asyncio.sleep(600)


@loops.in_loop
async def test_thread_hangs():
    kept = listening()
    await asyncio.to_thread(time.sleep, 600)


def test_call_hangs():
    kept = listening()
    subprocess.Popen(SLEEP, start_new_session=True, pass_fds=[kept.fileno()])
    time.sleep(600)


def test_close_hangs():
    async def wrong():
        raise ValueError("what went wrong first")

    loops.run(wrong(), loop=Unclosable)


def test_child_lives():
    subprocess.Popen(SLEEP, start_new_session=True)


@pytest.mark.parametrize("number", range(12))
def test_good(number):
    gc.collect()

    async def serves():
        for port in free_ports(40):
            server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", port)
            server.close()
        subprocess.run([sys.executable, "-c", ""], check=True)

    loops.run(serves())
"""
HUNG = {"coroutine_hangs", "thread_hangs", "call_hangs", "close_hangs", "child_lives"}


def test_a_hung_test_fails_alone_and_leaves_nothing(tmp_path: Path) -> None:
    sample = tmp_path / "test_samples.py"
    sample.write_text(SAMPLES, encoding="utf-8")
    paths = [str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [
        sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-n", "2",
        "-p", "support.harness.plugin", "-p", "no:cacheprovider", "--testrunuid", tmp_path.name,
        "-o", "faulthandler_timeout=5", str(sample),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    said = done.stdout + done.stderr
    assert set(re.findall(r"(?m)^(?:FAILED|ERROR) \S*::test_(\w+)", said)) == HUNG, said
    assert ", 12 passed" in said, said
    assert "what went wrong first" in said
    assert "in test_call_hangs" in said  # the stack, when its process was ended
    workers = [f"gw{number}" for number in range(12)]
    assert not any(children.living(tmp_path.name, worker) for worker in workers)
