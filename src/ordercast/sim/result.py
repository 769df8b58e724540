"""What a run gives back: the numbers of `ordercast sim --json`, the verdict and the history."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ordercast.history.rows import History
from ordercast.sim.recorder import Violation

MILLISECOND = 1e6


@dataclass(frozen=True, slots=True)
class Latency:
    """From submission to delivery at each member, in milliseconds."""

    mean: float
    p50: float
    p99: float

    @classmethod
    def of(cls, nanoseconds: Sequence[int]) -> "Latency":
        if not nanoseconds:
            return cls(0.0, 0.0, 0.0)
        ranked = sorted(nanoseconds)
        last = len(ranked) - 1
        return cls(
            round(sum(ranked) / len(ranked) / MILLISECOND, 6),
            round(ranked[last // 2] / MILLISECOND, 6),
            round(ranked[(last * 99 + 99) // 100] / MILLISECOND, 6),
        )


@dataclass(frozen=True, slots=True)
class SimResult:
    """`faults` counts what was injected, by kind; `longest_ns` is the slowest delivery."""

    protocol: str
    builder: str
    seed: int
    sent: int
    delivered: int
    data_frames: int
    control_frames: int
    voters_frames: int
    latency: Latency
    epochs: int
    violations: tuple[Violation, ...]
    replay: str
    history_hash: str
    events: int
    virtual_ns: int
    wall_seconds: float
    faults: dict[str, int]
    history: History
    spread: dict[str, int] = field(default_factory=dict)  # the counts of the ways to many

    @property
    def ok(self) -> bool:
        return not self.violations

    def as_json(self) -> dict[str, Any]:
        return {
            "protocol": self.protocol,
            "builder": self.builder,
            "seed": self.seed,
            "sent": self.sent,
            "delivered": self.delivered,
            "frames": {
                "data": self.data_frames,
                "control": self.control_frames,
                "voters": self.voters_frames,
            },
            "latency_ms": asdict(self.latency),
            "epochs": self.epochs,
            "faults": self.faults,
            **({"dissemination": self.spread} if self.spread else {}),
            "violations": [violation._asdict() for violation in self.violations],
            "replay": self.replay,
            "history_hash": self.history_hash,
            "events": self.events,
            "virtual_seconds": self.virtual_ns / 1e9,
            "wall_seconds": round(self.wall_seconds, 3),
        }
