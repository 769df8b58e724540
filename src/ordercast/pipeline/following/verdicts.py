"""What a live audit tells: the verdict after each batch, and an alert for each check whose count of
violations has grown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ordercast.check.live import LiveAudit


@dataclass(frozen=True, slots=True)
class Alert:
    """A check has a higher count than when it was last told; `witness` is the smallest."""

    batch: int
    check: str
    count: int
    witness: Mapping[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "alert",
            "batch": self.batch,
            "check": self.check,
            "count": self.count,
            "witness": None if self.witness is None else dict(self.witness),
        }


@dataclass(frozen=True, slots=True)
class LiveVerdict:
    """The verdict of all rows up to a batch. `report` is what `ordercast audit` prints for them.
    `held` counts the rows of the window. `holding` names the sites that keep the window open, each
    with the number of messages that it lacks and the first of them."""

    batch: int
    report: Mapping[str, Any]
    held: int
    holding: list[dict[str, Any]]
    alerts: list[Alert]

    @property
    def ok(self) -> bool:
        return bool(self.report["ok"])

    def as_json(self) -> dict[str, Any]:
        """The JSON object of `audit`, with the fields that only a live audit has."""
        return {
            "kind": "verdict",
            "batch": self.batch,
            **self.report,
            "held": self.held,
            "holding": self.holding,
        }


def verdict_of(live: LiveAudit, batch: int, told: Mapping[str, int]) -> LiveVerdict:
    """`told`: the counts that were told before."""
    report = live.report
    alerts = [
        Alert(batch, name, verdict.count, verdict.witness)
        for name, verdict in report.verdicts.items()
        if verdict.count > told.get(name, 0)
    ]
    holding = [
        {"site": one.site, "messages": one.messages, "first": msgspec.to_builtins(one.first)}
        for one in live.holding
    ]
    return LiveVerdict(batch, report.as_json(), live.held, holding, alerts)
