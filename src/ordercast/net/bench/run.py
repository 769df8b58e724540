"""`ordercast bench`: real processes on this machine's loopback, under load, timed and compared.

`run_members` conducts the members of any system through a run. `run_bench` does so with sites of
ours: it makes a cluster file, certificates and stores in a directory of its own.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ordercast.core.order.registry import protocol_named
from ordercast.model.errors import ConfigError, Error
from ordercast.net.bench.meter import STAMP_BYTES
from ordercast.net.bench.site import GROUP

SYSTEM = "ordercast"
WARM_S = 1.0
PATIENCE_S = 60.0  # for a member to answer, beside the time it is told to send
OnPhase: TypeAlias = Callable[[str], None]
"""Told what the members do now."""


def _nobody(_: str) -> None:
    """Drop what is told of the progress."""


@dataclass(frozen=True, slots=True)
class BenchSpec:
    members: int = 3
    payload: int = 100
    seconds: float = 10.0
    protocol: str = "propagation"
    deliver: str = "agreed"
    durability: str = "memory"
    tls: bool = False
    api: str = "message"
    rate: float | None = None  # messages per second of all members together; None: all that goes

    def __post_init__(self) -> None:
        protocol_named(self.protocol)
        if self.payload < STAMP_BYTES:
            raise ConfigError(
                f"payload: {self.payload:,} bytes are too few ({STAMP_BYTES} hold the time sent)"
            )
        if self.rate is not None and self.rate <= 0:
            raise ConfigError(f"rate: {self.rate:g} is not above 0")
        if self.seconds <= 0:
            raise ConfigError(f"seconds: {self.seconds:g} is not above 0")


def run_bench(spec: BenchSpec, tell: OnPhase = _nobody) -> dict[str, Any]:
    """What `ordercast bench --json` prints."""
    with tempfile.TemporaryDirectory(prefix="ordercast-bench-") as made:
        directory = Path(made)
        sites = [f"m{number}" for number in range(1, spec.members + 1)]
        cluster = _write_cluster(spec, sites, directory)
        commands = [
            [
                sys.executable, "-m", "ordercast.net.bench.site",
                json.dumps({
                    **member_spec(spec),
                    "cluster": str(cluster), "site": site, "dir": str(directory),
                    "durability": spec.durability,
                }),
            ]
            for site in sites
        ]  # fmt: skip
        measured = run_members(commands, spec.seconds, tell)
    return {"system": SYSTEM, **asdict(spec), **measured}


def member_spec(spec: BenchSpec) -> dict[str, Any]:
    """What every system's members are told."""
    return {
        "members": spec.members,
        "payload": spec.payload,
        "batch": spec.api == "batch",
        "rate": (spec.rate or 0.0) / spec.members,
    }


def free_ports(count: int) -> list[int]:
    """Free a moment ago: other programs could take them, which a member would tell."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _write_cluster(spec: BenchSpec, sites: Sequence[str], directory: Path) -> Path:
    lines = [
        "[cluster]",
        'name = "bench"',
        f'protocol = "{spec.protocol}"',
        f'deliver = "{spec.deliver}"',
        f'durability = "{spec.durability}"',
        "[groups]",
        f"{GROUP} = {json.dumps(sites)}",
    ]
    if spec.tls:
        from ordercast.net.cluster.certificates import write_certificates

        write_certificates("bench", sites, directory / "certs")
        lines += ["[tls]", f"dir = {json.dumps(str(directory / 'certs'))}"]
    for site, port in zip(sites, free_ports(len(sites)), strict=True):
        lines += [f"[sites.{site}]", f'address = "127.0.0.1:{port}"']
    path = directory / "cluster.toml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- Conducting a run -----------------------------------------------------------------------------


def run_members(
    commands: Sequence[Sequence[str]], seconds: float, tell: OnPhase = _nobody
) -> dict[str, Any]:
    """Start the members, load them for `seconds`, and put together what they measured."""
    tell(f"starting {len(commands):,} members")
    with ExitStack() as stack:
        members = [BenchProcess(list(command)) for command in commands]
        for member in members:
            stack.callback(member.end)
        for member in members:
            member.hear("started", PATIENCE_S)
        tell("warming them up")
        for member in members:
            member.say(warm=True)
        for member in members:
            member.hear("warmed", PATIENCE_S)
        tell(f"all send, for {WARM_S + seconds:g} s")
        for member in members:
            member.say(go=[WARM_S, seconds])
        sent = [member.hear("sent", PATIENCE_S + WARM_S + seconds) for member in members]
        tell("waiting until all is delivered")
        for member in members:
            member.say(total=sum(sent))
        results = [member.hear("result", PATIENCE_S) for member in members]
        for member in members:
            member.say(end=True)
        for member in members:
            member.wait()
    return _together(results, sum(sent))


def _together(results: Sequence[dict[str, Any]], sent: int) -> dict[str, Any]:
    delays = sorted(delay for result in results for delay in result["delays_ns"])
    messages = min(result["messages"] for result in results)
    cpu_s = sum(result["cpu_s"] for result in results)
    return {
        "msgs_per_s": round(min(result["msgs_per_s"] for result in results)),
        "p50_ms": _quantile_ms(delays, 0.50),
        "p99_ms": _quantile_ms(delays, 0.99),
        "cpu_us_per_msg": round(cpu_s * 1e6 / messages, 3) if messages else None,
        "same_order": len({(result["count"], result["hash"]) for result in results}) == 1,
        "messages": sent,
    }


def _quantile_ms(delays: Sequence[int], share: float) -> float | None:
    if not delays:
        return None
    return round(delays[min(len(delays) - 1, int(share * len(delays)))] / 1e6, 3)


class BenchProcess:
    """A member's process; it is gone when this is done with it, whatever happens."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
            process_group=0,  # Ctrl-C in a terminal is for us alone: we end the members
        )
        self._late = False

    def say(self, **words: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(words) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._gone() from None

    def hear(self, word: str, patience_s: float) -> Any:
        assert self._process.stdout is not None
        timer = threading.Timer(patience_s, self._give_up)
        timer.daemon = True  # Ctrl-C may come before it can be cancelled: nobody waits for it then
        try:
            timer.start()
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise self._gone()
        return json.loads(line)[word]

    def _give_up(self) -> None:
        self._late = True
        self._process.kill()

    def _gone(self) -> Error:
        code = self._process.wait()
        if self._late:
            return Error("a member of the benchmark did not answer in time")
        return Error(f"a member of the benchmark ended with code {code}; see above")

    def wait(self) -> None:
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._give_up()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
