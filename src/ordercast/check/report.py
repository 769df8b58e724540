"""All checks over a history: what `ordercast audit --engine memory` prints."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ordercast.check.acyclic_order import check_acyclic_order
from ordercast.check.agreement import check_agreement
from ordercast.check.causal_order import check_causal_order
from ordercast.check.fifo import check_fifo
from ordercast.check.integrity import check_integrity
from ordercast.check.lost import check_lost
from ordercast.check.pairwise_order import check_pairwise_order
from ordercast.check.positions import check_positions
from ordercast.check.resent import check_resent
from ordercast.check.runs import split_runs
from ordercast.check.verdict import Verdict, combine
from ordercast.check.view import View
from ordercast.history.rows import History

Check = Callable[[View], Verdict]

CHECKS: Mapping[str, Check] = {
    "integrity": check_integrity,
    "agreement": check_agreement,
    "lost": check_lost,
    "fifo": check_fifo,
    "pairwise_order": check_pairwise_order,
    "acyclic_order": check_acyclic_order,
    "positions": check_positions,
    "resent": check_resent,
}
ON_REQUEST: Mapping[str, Check] = {"causal_order": check_causal_order}


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts by name and what they are about. Runs are judged apart and summed here."""

    rows: int
    sites: int
    messages: int
    runs: int
    seconds: float
    annulled: int
    unagreed: int
    verdicts: Mapping[str, Verdict]

    @property
    def ok(self) -> bool:
        return all(verdict.ok for verdict in self.verdicts.values())

    @property
    def checks(self) -> dict[str, int]:
        return {name: verdict.count for name, verdict in self.verdicts.items()}

    def as_json(self) -> dict[str, Any]:
        """The object that `ordercast audit` prints."""
        verdicts = self.verdicts
        return {
            "ok": self.ok,
            "rows": self.rows,
            "sites": self.sites,
            "messages": self.messages,
            "runs": self.runs,
            "seconds": round(self.seconds, 3),
            "checks": self.checks,
            "informative": {
                "pending": sum(verdict.pending for verdict in verdicts.values()),
                "unagreed": self.unagreed,
                "annulled": self.annulled,
            },
            "truncated": [name for name, verdict in verdicts.items() if verdict.truncated],
            "witnesses": {
                name: dict(verdict.witness)
                for name, verdict in verdicts.items()
                if verdict.witness is not None
            },
        }


def check_history(history: History, causal: bool = False) -> Report:
    """Judge every run of a history by itself and add up."""
    start = time.perf_counter()
    checks = {**CHECKS, **ON_REQUEST} if causal else CHECKS
    rows = sites = messages = annulled = unagreed = 0
    verdicts: dict[str, list[tuple[str | None, Verdict]]] = {name: [] for name in checks}
    runs = split_runs(history)
    for run, part in runs:
        view = View(part)
        for name, check in checks.items():
            verdicts[name].append((run, check(view)))
        rows += view.live_rows
        sites += len(view.sites)
        messages += len(view.messages)
        annulled += view.annulled
        unagreed += view.unagreed
    return Report(
        rows,
        sites,
        messages,
        len(runs),
        time.perf_counter() - start,
        annulled,
        unagreed,
        {name: combine(found) for name, found in verdicts.items()},
    )
