"""Soak campaign: lakes that grow while random schedules run, with kills in appends and compacts.

After every append the lake must have the rows of a full export, and its verdict."""

import random
import tempfile
from pathlib import Path

from support.cases.growing_lakes import grow
from tools.soak.campaign import Outcome

CASE_S = 5


def run(seed: int) -> Outcome:
    rng = random.Random(f"lakes {seed}")
    kind = rng.choice(("parquet", "parquet", "delta"))
    excluding = rng.choice(("", "drawn", "hard"))
    keep_all = rng.random() < 0.7
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        grown, _ = grow(seed, Path(place), excluding=excluding, kind=kind, keep_all=keep_all)
    counts = {
        "appends": grown.appends, "kills": grown.kills, "compacted": grown.compacted,
        "compared": grown.compared, "lakes that ended with a lost store": int(grown.lost),
    }  # fmt: skip
    return Outcome(True, counts, "")
