"""Random schedules on the compiled companion and on the pure modules: the same history each time,
and where sites are excluded and lose their stores the same counts.

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
from ordercast.sim import schedules
from ordercast.sim.simulate import simulate
from tools.soak.campaign import CAMPAIGNS, ROOT, Outcome, load_campaign

CASE_S = 300
PLACE = ROOT / ".soak" / "compiled"
KINDS = ("schedule", "cutting", "flushes", "losses")  # of schedules.py; then campaigns
CODE = f"""
import json, runpy, sys
sys.path[:0] = {[str(ROOT), str(ROOT / "tests")]!r}
from ordercast.companion import CODE
told = runpy.run_path({str(Path(__file__))!r})["told"]
print(json.dumps([CODE, told(*json.loads(sys.argv[1]))]))
"""


def told(kind: str, protocol: str, seed: int) -> object:
    """What can be told of a case: the hash of its history, or what a campaign counts in it."""
    if kind in ("flushes", "losses"):
        outcome = load_campaign(CAMPAIGNS / f"{kind}.py").run(seed)
        return [outcome.ok, outcome.message, dict(outcome.counters)]
    return simulate(getattr(schedules, kind)(protocol, seed), seed).history_hash


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
    kind = KINDS[seed % len(KINDS)]
    case = (kind, list(PROTOCOLS)[seed // len(KINDS) % len(PROTOCOLS)], seed)
    environment = {**os.environ, "PYTHONPATH": str(built()), "ORDERCAST_PURE": ""}
    command = [sys.executable, "-c", CODE, json.dumps(case)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    pure = told(*case)
    ok = done.returncode == 0 and json.loads(done.stdout) == ["compiled", pure]
    differs = "" if ok else f"{case}: pure {pure}, compiled {done.stdout}{done.stderr}"
    return Outcome(ok=ok, counters={kind: 1}, message=differs)
