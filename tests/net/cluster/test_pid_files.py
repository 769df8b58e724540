"""Whom `cluster down` and `kill` signal: the process that wrote the file, if it is ours."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ordercast.model.errors import ConfigError
from ordercast.net.cluster import processes
from ordercast.net.cluster.processes import (
    Running,
    kill,
    pid_file,
    running,
    started_at,
    stop,
    write_pid,
)

SLEEP = ("sleep", "60")
NOBODY = 65_534


@contextmanager
def sleeper(user: int | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(SLEEP, user=user) as child:
        try:
            yield child
        finally:
            child.kill()


def note(directory: Path, site: str, pid: int) -> Running:
    daemon = Running(site, pid, started_at(pid) or "")
    pid_file(directory, site).write_text(f"{pid}\n{daemon.started}\n", encoding="ascii")
    return daemon


def test_what_a_daemon_writes_is_found_and_its_process_stopped(tmp_path: Path) -> None:
    write_pid(tmp_path, "a")
    assert running(tmp_path, "a") == Running("a", os.getpid(), started_at(os.getpid()) or "")
    assert [path.name for path in tmp_path.iterdir()] == ["a.pid"]
    with sleeper() as child:
        daemon = note(tmp_path, "b", child.pid)
        assert running(tmp_path, "b") == daemon
        assert stop([daemon]) == []
        assert child.wait() == -signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system tells of no threads")
def test_a_process_is_there_until_its_last_thread_has_ended(tmp_path: Path) -> None:
    """The first may end before another that writes to a disk: so long the store stays locked."""
    program = (
        "import ctypes, sys, threading; "
        "threading.Thread(target=sys.stdin.read).start(); "
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as child:
        daemon = note(tmp_path, "a", child.pid)
        while " Z " not in Path(f"/proc/{child.pid}/stat").read_text(encoding="ascii"):
            assert child.poll() is None
            time.sleep(0.01)
        assert running(tmp_path, "a") == daemon
        kill(daemon)
        assert running(tmp_path, "a") is None
        assert child.wait() == -signal.SIGKILL


def test_a_pid_file_is_not_followed_through_a_link(tmp_path: Path) -> None:
    with sleeper() as child:
        note(tmp_path, "real", child.pid)
        pid_file(tmp_path, "a").symlink_to(pid_file(tmp_path, "real"))
        with pytest.raises(ConfigError, match=r"a\.pid: cannot be read \(is a link\)"):
            running(tmp_path, "a")
        assert child.poll() is None


def test_a_daemon_does_not_write_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious", encoding="ascii")
    pid_file(tmp_path, "a").symlink_to(victim)
    write_pid(tmp_path, "a")
    assert victim.read_text(encoding="ascii") == "precious"
    assert not pid_file(tmp_path, "a").is_symlink()


@contextmanager
def process_of_another_user() -> Iterator[int]:
    """Root starts one as nobody; anybody else has the first process of the system."""
    if os.geteuid() != 0:
        yield 1
        return
    with sleeper(NOBODY) as child:
        yield child.pid


def test_a_process_of_another_user_is_never_signalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "STOP_S", 0.1)
    with process_of_another_user() as pid:
        daemon = note(tmp_path, "a", pid)
        assert running(tmp_path, "a") is None
        if pid == 1:
            return  # the system would not let us
        kill(daemon)
        assert started_at(pid) == daemon.started


def test_a_process_that_only_has_the_same_id_is_not_signalled() -> None:
    with sleeper() as child:
        kill(Running("a", child.pid, "another time"))
        assert child.poll() is None


@pytest.mark.parametrize(
    "text",
    ["", "\n", "7", "-1\nx\n", "0\nx\n", "1 \nx\n", "1\n\n", "1\nx\ny\n", "9" * 11 + "\nx\n"],
)
def test_anything_else_in_the_file_names_no_process(tmp_path: Path, text: str) -> None:
    pid_file(tmp_path, "a").write_text(text, encoding="ascii")
    assert running(tmp_path, "a") is None
    pid_file(tmp_path, "a").write_bytes(b"\xff\xfe" * 5_000)
    assert running(tmp_path, "a") is None
