"""Daemons as local processes: finding, starting and stopping them, and never the wrong process.

A daemon writes `DIR/SITE.pid`: its process id and when that process started. The system reuses ids,
so a process is signalled only if both agree and it belongs to our own user: somebody who could
write the file must not choose the process that we signal.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ordercast.model.errors import ConfigError, Error, reason
from ordercast.model.groups import Site
from ordercast.model.names import is_name
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.directory import (
    append_own,
    make_directory,
    open_own,
    read_own,
)
from ordercast.net.cluster.secret import secret_of
from ordercast.net.cluster.sockets import answers
from ordercast.whole_files import OURS, write_file

READY_S = 30.0
STOP_S = 15.0
_POLL_S = 0.02
_TAIL_BYTES = 4_096  # of a log, to find its last line
_PID_FILE = re.compile(r"([1-9][0-9]{0,9})\n([ -~]{1,64})\n")

Child: TypeAlias = "subprocess.Popen[bytes]"


@dataclass(frozen=True, slots=True)
class Running:
    site: Site
    pid: int
    started: str


def started_at(pid: int) -> str | None:
    """When the process started, in the system's own words; None: there is none, or it is dead."""
    proc = Path("/proc")
    if (proc / "self" / "stat").exists():
        try:
            text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        fields = text.rpartition(")")[2].split()  # the name before it may hold anything
        dead = (
            fields[0] in "ZX" and int(fields[17]) <= 1
        )  # until its last thread ends, it holds files
        return None if dead else fields[19]
    words = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if len(words) < 2 or words[0].startswith("Z") else " ".join(words[1].split())


# --- the file a daemon writes ---------------------------------------------------------------------


def pid_file(directory: Path, site: Site) -> Path:
    return directory / f"{site}.pid"


def log_file(directory: Path, site: Site) -> Path:
    return directory / f"{site}.log"


def write_pid(directory: Path, site: Site) -> None:
    pid = os.getpid()
    noted = f"{pid}\n{started_at(pid)}\n"
    write_file(pid_file(directory, site), noted.encode("ascii"), mode=OURS)


def remove_pid(directory: Path, site: Site) -> None:
    with contextlib.suppress(OSError):
        pid_file(directory, site).unlink()


def running(directory: Path, site: Site) -> Running | None:
    """The site's daemon, if the process that wrote the file still runs. ConfigError if the file is
    a link, or another user's."""
    try:
        text = read_own(pid_file(directory, site)).decode("ascii")
    except (FileNotFoundError, ValueError):
        return None
    found = _PID_FILE.fullmatch(text)
    if found is None:
        return None
    daemon = Running(site, int(found[1]), found[2])
    return daemon if _is_there(daemon) else None


def _is_there(daemon: Running) -> bool:
    """Whether the process is the one that wrote the file, and of our user."""
    return started_at(daemon.pid) == daemon.started and is_ours(daemon.pid)


def is_ours(pid: int) -> bool:
    """Whether the process is of our user. Where there is no /proc the system's check is all there
    is."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
    except FileNotFoundError:
        return not Path("/proc/self").exists()


def all_running(cluster: Cluster, directory: Path) -> list[Running]:
    found = (running(directory, site) for site in sites_here(cluster, directory))
    return [daemon for daemon in found if daemon is not None]


# --- the sites of a directory ---------------------------------------------------------------------


def sites_here(cluster: Cluster, directory: Path) -> list[Site]:
    """The sites of the cluster file, and sites that were added since and have a file here."""
    found = dict.fromkeys(cluster.sites)
    for suffix in (".db", ".pid"):
        for path in directory.glob(f"*{suffix}"):
            name = path.name.removesuffix(suffix)
            if is_name(name):
                found[name] = None
    return sorted(found)


def is_known(directory: Path, site: Site) -> bool:
    """Whether the directory has a trace of the site: it belongs to this machine."""
    traces = (directory / f"{site}.db", pid_file(directory, site), log_file(directory, site))
    return any(trace.exists() for trace in (*traces, retired_file(directory, site)))


def require_site(cluster: Cluster, site: Site, directory: Path) -> None:
    """ConfigError unless it is a site of the file, or was added and has a file in the directory."""
    if site not in sites_here(cluster, directory):
        cluster.site(site)


def retired_file(directory: Path, site: Site) -> Path:
    """A file that is there once the site has heard that it is retired: it is not started then."""
    return directory / f"{site}.retired"


def is_retired(directory: Path, site: Site) -> bool:
    return retired_file(directory, site).exists()


def note_retired(directory: Path, site: Site, retired: bool) -> None:
    path = retired_file(directory, site)
    if retired:
        write_file(path, b"", mode=OURS)
    else:
        path.unlink(missing_ok=True)


# --- starting -------------------------------------------------------------------------------------


def command_of(
    cluster: Cluster, site: Site, directory: Path, options: Iterable[str] = ()
) -> list[str]:
    """`options`: of the verb `node`."""
    return [
        sys.executable, "-m", "ordercast.cli", "node", cluster.source,
        "--site", site, "--dir", str(directory), *options,
    ]  # fmt: skip


class _Logged(subprocess.Popen[bytes]):
    """A child that writes to its log, from byte `said_from` on."""

    said_from = 0


def start(
    cluster: Cluster,
    sites: Iterable[Site],
    directory: Path,
    *,
    detached: bool,
    new: bool = False,
    log: str | None = None,
    log_level: str | None = None,
) -> dict[Site, Child]:
    """Start daemons; what they say goes to `DIR/SITE.log`, or, attached, to our standard error.
    `new`: as for `Node.open`. `log`, `log_level`: instead of what the file says."""
    options = ["--new"] if new else []
    for option, value in (("--log", log), ("--log-level", log_level)):
        options += [option, value] if value is not None else []
    make_directory(directory)
    secret_of(cluster)  # here, so that what is wrong with it is said once
    started: dict[Site, Child] = {}
    try:
        with _interrupted_afterwards():
            for site in sites:
                command = command_of(cluster, site, directory, options)
                file = log_file(directory, site) if detached else None
                started[site] = _spawn(command, file, _start_line(site, log or cluster.log))
    except OSError as error:
        abandon(started.values())
        raise Error(f"cannot start site {site}: {reason(error)}") from None
    except KeyboardInterrupt:
        abandon(started.values())
        raise
    return started


@contextlib.contextmanager
def _interrupted_afterwards() -> Iterator[None]:
    """Ctrl-C takes effect at the end: until then every child that is made is known."""
    if threading.current_thread() is not threading.main_thread():
        yield  # it takes effect in the main thread
        return
    caught: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: caught.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if caught:
        raise KeyboardInterrupt


def _spawn(command: list[str], log_path: Path | None, first_line: str) -> Child:
    nowhere = subprocess.DEVNULL
    if log_path is None:  # Ctrl-C is for us, in either case: we stop them in order
        return subprocess.Popen(command, stdin=nowhere, stdout=nowhere, start_new_session=True)
    with os.fdopen(append_own(log_path), "ab") as log:
        log.write(f"{first_line}\n".encode())
        log.flush()
        child = _Logged(command, stdin=nowhere, stdout=nowhere, stderr=log, start_new_session=True)
        child.said_from = log.tell()
        return child


def _start_line(site: Site, form: str) -> str:
    """The first line of a log, written before its daemon starts: a daemon that fails at once tells
    neither its time nor its name."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if form == "json":
        return json.dumps({"at": now, "site": site, "level": "info", "message": "starts"})
    return f"{now} {site} starts"


class StartFailed(Error):
    """A daemon that did not come up; `code` is what it ended with, 0 while it runs."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def wait_ready(started: Mapping[Site, Child], directory: Path) -> None:
    """Until every daemon answers; StartFailed names the first that does not, and why."""
    until = time.monotonic() + READY_S
    waiting = dict(started)
    while waiting:
        require_all_run(waiting, directory)
        for site in list(waiting):
            if running(directory, site) is not None and answers(directory / f"{site}.sock"):
                del waiting[site]
        if waiting and time.monotonic() > until:
            names = ", ".join(sorted(waiting))
            raise StartFailed(f"not ready after {READY_S:g} s: {names}", 0)
        time.sleep(_POLL_S)


def require_all_run(started: Mapping[Site, Child], directory: Path) -> None:
    """StartFailed names the first daemon that has ended, and why."""
    for site, child in started.items():
        code = child.poll()
        if code is not None:
            why = ending(code)
            if isinstance(child, _Logged):
                why = _last_line(log_file(directory, site), child.said_from) or why
            raise StartFailed(f"site {site} did not start: {why}", code)


def _last_line(path: Path, begin: int) -> str:
    """The last line of a log from `begin` on: why its daemon ended."""
    try:
        with open_own(path) as file:
            size = os.fstat(file.fileno()).st_size  # less than `begin`: it was rotated
            file.seek(max(begin if begin <= size else 0, size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", errors="replace").splitlines()
    except (OSError, ConfigError):
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return _message(said[-1]) if said else ""


def _message(line: str) -> str:
    """The message of a line, which may be an object of a JSON log."""
    if line.startswith("{"):
        try:
            return str(json.loads(line)["message"])
        except (ValueError, KeyError, TypeError):
            return line
    return line.removeprefix("ordercast: ")


def ending(code: int) -> str:
    if code < 0:
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it ended with code {code}"


# --- stopping -------------------------------------------------------------------------------------


def abandon(started: Iterable[Child]) -> None:
    """Stop our children: SIGTERM, then SIGKILL for those that take too long."""
    children = [child for child in started if child.poll() is None]
    for process in children:
        process.terminate()
    for process in children:
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def kill(daemon: Running) -> None:
    """SIGKILL, and wait until it is gone."""
    _signal(daemon, signal.SIGKILL)
    _wait_gone([daemon])


def stop(daemons: Sequence[Running]) -> list[Site]:
    """SIGTERM, then SIGKILL for those that take too long; the sites that had to be killed."""
    for daemon in daemons:
        _signal(daemon, signal.SIGTERM)
    stubborn = _wait_gone(daemons)
    for daemon in stubborn:
        kill(daemon)
    return [daemon.site for daemon in stubborn]


def _signal(daemon: Running, number: signal.Signals) -> None:
    """Never another process: a descriptor of it stays with it, also when its id is used again."""
    try:
        descriptor = os.pidfd_open(daemon.pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # the system has none
        if _is_there(daemon):
            with contextlib.suppress(ProcessLookupError):
                os.kill(daemon.pid, number)
        return
    try:
        if _is_there(daemon):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def _wait_gone(daemons: Sequence[Running]) -> list[Running]:
    until = time.monotonic() + STOP_S
    left = list(daemons)
    while left and time.monotonic() < until:
        left = [daemon for daemon in left if started_at(daemon.pid) == daemon.started]
        if left:
            time.sleep(_POLL_S)
    return left
