"""`ordercast node` as processes of the system: started, killed, asked to leave."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

_NODE = (sys.executable, "-m", "ordercast.cli", "node")


class NodeProcesses:
    """One process for each site, each with a cluster file; `paths` is where it finds its code."""

    def __init__(self, folder: Path, files: Mapping[str, Path], paths: list[Path]) -> None:
        self.stores = folder / "stores"
        self._folder = folder
        self._files = files
        self._environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, site: str) -> None:
        words = [*_NODE, str(self._files[site]), "--site", site, "--dir", str(self.stores)]
        with (self._folder / f"{site}.log").open("ab") as log:
            self._running[site] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            )

    def kill(self, site: str) -> None:
        self._running[site].send_signal(signal.SIGKILL)
        self._running[site].wait()

    def stop(self) -> list[str]:
        """Ask all to leave; what is wrong with that."""
        for process in self._running.values():
            process.terminate()
        codes = {site: process.wait(60) for site, process in self._running.items()}
        return [f"{s} ended with {code}: {self.log(s)}" for s, code in codes.items() if code]

    def end(self) -> None:
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    def log(self, site: str) -> str:
        return (self._folder / f"{site}.log").read_text(encoding="utf-8", errors="replace")[-600:]
