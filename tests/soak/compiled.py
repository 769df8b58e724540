"""Random schedules on the compiled companion and on the pure modules: the same history each time.

The companion is built once, for the sources as they are, into `.soak/compiled`; that takes a minute
or two. The pure run is in this process (`make soak` switches the companion off), the compiled one
in a process of its own.
"""

import fcntl
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from ordercast.companion import digest_of_sources
from ordercast.core.order.registry import PROTOCOLS
from ordercast.sim.schedules import schedule
from ordercast.sim.simulate import simulate
from tools.soak.campaign import ROOT, Outcome

CASE_S = 300
PLACE = ROOT / ".soak" / "compiled"
CODE = """
import json, sys
from ordercast.companion import CODE
from ordercast.sim.schedules import schedule
from ordercast.sim.simulate import simulate
protocol, seed = json.loads(sys.argv[1])
print(json.dumps([CODE, simulate(schedule(protocol, seed), seed).history_hash]))
"""


def built() -> Path:
    """Where the companion of these sources is."""
    place = PLACE / digest_of_sources(ROOT / "src" / "ordercast")[:16]
    PLACE.mkdir(parents=True, exist_ok=True)
    with (PLACE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            words = ["-m", "tools.compiled", "--wheel", str(PLACE)]
            subprocess.run([sys.executable, *words], cwd=ROOT, check=True, capture_output=True)
            with zipfile.ZipFile(next(PLACE.glob("*.whl"))) as wheel:
                wheel.extractall(place)
    return place


def run(seed: int) -> Outcome:
    protocol = list(PROTOCOLS)[seed % len(PROTOCOLS)]
    environment = {**os.environ, "PYTHONPATH": str(built()), "ORDERCAST_PURE": ""}
    command = [sys.executable, "-c", CODE, json.dumps([protocol, seed])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    pure = simulate(schedule(protocol, seed), seed).history_hash
    ok = done.returncode == 0 and json.loads(done.stdout) == ["compiled", pure]
    told = "" if ok else f"{protocol} {seed}: pure {pure}, compiled {done.stdout}{done.stderr}"
    return Outcome(ok=ok, counters={protocol: 1}, message=told)
