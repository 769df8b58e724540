"""A soak case of programs or clients that move between real daemons, in a folder of its own."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from support.clusters.campaigns.client_kills import Case, Found
from tools.soak.campaign import Outcome

_KILLS = 10


def moving(seed: int, clients: int, run: Callable[[Case, Path], Found]) -> Outcome:
    """Both levels in turn, so that logs are rolled back; one case of four has slow disks."""
    case = Case(
        seed,
        "propagation",
        level=("agreed", "safe")[seed % 2],
        slow=seed % 4 == 1,
        clients=clients,
        kills=_KILLS,
    )
    with tempfile.TemporaryDirectory(prefix="oc-soak-") as place:
        found = run(case, Path(place))
    return Outcome(not found.wrong, dict(found.counts), f"{case}: {'; '.join(found.wrong)[:1500]}")
