"""Soak campaign: the page in a browser, about 200 simulated sites at 10,000 messages/s, and about
ten real daemons under load. It draws soon, is never busy for long, and holds little."""

import tempfile
from pathlib import Path

from support.clusters.page_load import PageFigures, measure, running, simulated
from tools.soak.campaign import Outcome

CASE_S = 150
LIMITS = {
    "simulated": PageFigures(5_000, 500, 1_000, 50_000, 10_000, (), ""),
    "daemons": PageFigures(5_000, 500, 1_000, 50_000, 10_000, (), ""),
}


def run(seed: int) -> Outcome:
    wrong, told, counters = [], [], {}
    for name, feed in {"simulated": simulated, "daemons": running}.items():
        with (
            tempfile.TemporaryDirectory(prefix="oc-soak-") as place,
            feed(Path(place), seed) as url,
        ):
            found = measure(url)
        told.append(f"{name}: {found}")
        wrong += [f"{name}: {line}" for line in found.beyond(LIMITS[name])]
        for figure in ("first_picture", "longest_task", "click_to_detail", "heap", "sent"):
            counters[f"{name}: {figure}"] = getattr(found, figure)
    return Outcome(not wrong, counters, "; ".join([*wrong, *told])[:1500])
