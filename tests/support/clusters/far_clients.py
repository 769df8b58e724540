"""A cluster in one network namespace, a client in another: TLS, kills, grants and certificates that
change under load. `run_case` is one such run, and says what was wrong with it."""

import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ordercast.cli import main as command
from ordercast.model.messages import Delivery
from ordercast.net.client import blocking
from ordercast.net.cluster.certificates import add_client_certificates
from support.clusters.processes import write_cluster
from support.network.namespaces import Namespaces

TESTS = Path(__file__).parent.parent.parent
SITES = "abc"
GROUPS = {"alpha": ["a", "b", "c"], "beta": ["b", "c"]}
GRANTS = """
[grants]
socket = ["read", "observe", "admin"]
"client:far" = ["send:alpha", "observe"]
"""
WITHIN_S = 1.0
LIMIT_S = 120.0  # only against hanging


@dataclass
class FarCase:
    seed: int
    rounds: int = 1


@dataclass
class Found:
    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class FarRun:
    """State: the processes, and the lines that the client has said."""

    def __init__(self, case: FarCase, place: Path, stack: ExitStack) -> None:
        self.place = place
        self.stack = stack
        self.found = Found()
        self.draw = random.Random(f"far {case.seed}")
        self.network = stack.enter_context(Namespaces(["cluster", "client"]))
        host = self.network.address["cluster"]
        addresses = {site: f"{host}:{7101 + n}" for n, site in enumerate(SITES)}
        self.remote = {site: f"{host}:{7201 + n}" for n, site in enumerate(SITES)}
        self.file = write_cluster(place, GROUPS, {}, addresses=addresses)
        text = self.file.read_text()
        for site, address in self.remote.items():
            text = text.replace(f"[sites.{site}]", f'[sites.{site}]\nclients = "{address}"')
        self.file.write_text(text + GRANTS)
        add_client_certificates("trial", ["far"], place / "certs")
        self.nodes = {site: self.start_node(site) for site in SITES}
        for node in self.nodes.values():
            self._read(node, "ready")

    def _start(self, where: str, *words: str) -> subprocess.Popen[str]:
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        child = subprocess.Popen(
            [*self.network.words(where), sys.executable, *words],
            cwd=self.place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.stack.callback(child.communicate)
        self.stack.callback(child.kill)
        return child

    def start_node(self, site: str) -> subprocess.Popen[str]:
        words = ("node", self.file.name, "--site", site, "--dir", "stores", "--json")
        return self._start("cluster", "-m", "ordercast.cli", *words)

    def start_client(self, sites: str, first: int) -> subprocess.Popen[str]:
        addresses = ",".join(f"tls://{self.remote[site]}" for site in sites)
        cert = str(self.place / "certs" / "clients" / "far.pem")
        words = ("-m", "support.programs.far_client", addresses, cert, str(first))
        return self._start("client", *words)

    def _read(self, child: subprocess.Popen[str], event: str, **wanted: Any) -> Any:
        """The next line about this event, with these values."""
        assert child.stdout is not None
        begun = time.monotonic()
        while line := child.stdout.readline():
            told = json.loads(line)
            if told["event"] == event and all(told.get(k) == v for k, v in wanted.items()):
                return told
            assert time.monotonic() - begun < LIMIT_S, f"no {event} {wanted}"
        raise AssertionError(f"it ended without {event} {wanted}")

    def verb(self, *words: str) -> float:
        """Run a verb of the command. Returns when it was done."""
        with redirect_stdout(io.StringIO()):
            assert command([*words, "--dir", str(self.place / "stores")]) == 0, words
        return time.time()

    def soon(self, what: str, at: float, done: float) -> None:
        self.found.counts[f"{what}, ms"] += max(0, round(1_000 * (at - done)))
        if at - done > WITHIN_S:
            self.found.wrong.append(f"{what} after {at - done:.2f} s")

    def round(self, first: int) -> tuple[list[int], list[int], int]:
        """A client under load: a kill of its daemon, grants that come and go, its certificate."""
        cluster, counts = str(self.file), self.found.counts
        order = self.draw.sample(SITES, 3)
        client = self.start_client("".join(order), first)
        site = self._read(client, "in")["site"]
        self._read(client, "beta", granted=False)
        done = self.verb("grant", "add", cluster, "client:far", "send:beta")
        self.soon("granted", self._read(client, "beta", granted=True)["at"], done)
        self._read(client, "stable", site=site)

        node = self.nodes[site]
        os.kill(self._pid(site), signal.SIGKILL)
        node.wait(LIMIT_S)
        other = self._read(client, "stable", site=order[1])["site"]
        counts["daemons killed"] += 1
        self.nodes[site] = self.start_node(site)
        self._read(self.nodes[site], "ready")
        self._read(client, "stable", site=other)

        done = self.verb("grant", "remove", cluster, "client:far", "send:beta")
        refused = self._read(client, "beta", granted=False)
        self.soon("withdrawn", refused["at"], done)
        if "client:far has no grant send:beta" not in refused["why"]:
            self.found.wrong.append(f"refused with {refused['why']!r}")
        done = self.verb("certs", "revoke", cluster, "far")
        out = self._read(client, "out")
        self.soon("revoked", out["at"], done)
        if "its certificate is revoked" not in out["why"]:
            self.found.wrong.append(f"let go with {out['why']!r}")
        client.wait(LIMIT_S)
        again = self.start_client(other, 0)
        if again.wait(LIMIT_S) == 0:
            self.found.wrong.append("a revoked certificate was let in")
        add_client_certificates("trial", ["far"], self.place / "certs", renew=True)
        return out["stable"], out["failed"], out["next"]

    def _pid(self, site: str) -> int:
        return int((self.place / "stores" / f"{site}.pid").read_text().split()[0])

    def judge(self, stable: list[int], failed: list[int]) -> None:
        """What was told stable is delivered once, in the order in which it was sent; what failed
        may be delivered, once."""
        seen = []
        with blocking.connect(self.file, "b", dir=self.place / "stores") as reader:
            last = reader.status()["settled"]
            for item in reader.deliveries(1):
                if isinstance(item, Delivery) and item.group == "alpha":
                    seen.append(int(item.payload))
                if isinstance(item, Delivery) and item.position >= last:
                    break
        counts = self.found.counts
        counts["stable"] += len(stable)
        counts["unanswered"] += len(failed)
        if sorted(seen) != sorted(set(seen)):
            self.found.wrong.append("a message was delivered twice")
        if missing := sorted(set(stable) - set(seen)):
            self.found.wrong.append(f"{len(missing)} stable messages were lost: {missing[:5]}")
        acked = [number for number in seen if number in set(stable)]
        if acked != sorted(acked):
            self.found.wrong.append("delivered in another order than sent")

    def revoke_a_site(self) -> None:
        """The links of a site whose certificate is revoked are closed everywhere."""
        done = self.verb("certs", "revoke", str(self.file), "site:c")
        for site in "ab":
            with blocking.connect(self.file, site, dir=self.place / "stores") as looking:
                while "connected" in [
                    link["state"] for link in looking.status()["links"] if link["peer"] == "c"
                ]:
                    if time.time() - done > WITHIN_S:
                        self.found.wrong.append(f"{site} is still connected to c")
                        break
                    time.sleep(0.02)


def run_case(case: FarCase, place: Path) -> Found:
    with ExitStack() as stack:
        run = FarRun(case, place, stack)
        first, stable, failed = 1, list[int](), list[int]()
        for _ in range(case.rounds):
            more, lost, first = run.round(first)
            stable += more
            failed += lost
        run.judge(stable, failed)
        run.revoke_a_site()
        return run.found
