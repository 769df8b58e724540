"""Points of a sweep, the seeds of their runs, and how a run is done wherever it is sent.

A run's seed is a hash of the sweep's seed, the point's options and the repetition, so it does not
matter which worker does it, how the runs were split, or which other points there are.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from ordercast.model.errors import Error
from ordercast.pipeline.sweeps.swept_verb import Config, Experiment

_TOLD = 2000  # characters of an error


@dataclass(frozen=True, slots=True)
class Point:
    """A combination of options; `key` is the same text for the same options in any order.

    `trouble`: why it cannot be run, known before it is tried.
    """

    config: Config
    key: str
    trouble: str = ""

    @classmethod
    def of(cls, config: Config, trouble: str = "") -> "Point":
        key = json.dumps(config, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return cls(config, key, trouble)


@dataclass(frozen=True, slots=True)
class Task:
    """One run; repetitions count from 1."""

    point: Point
    repetition: int
    seed: int

    @property
    def run(self) -> str:
        """The run's name in a history: short, and different for every point and repetition."""
        return f"{hashlib.sha256(self.point.key.encode()).hexdigest()[:10]}-{self.repetition}"


class FinishedRun(msgspec.Struct, frozen=True):
    """A finished run. `error` is empty when it went well; `history` travels to the driver only."""

    key: str
    repetition: int
    seed: int
    measures: dict[str, float] = {}
    notes: dict[str, str] = {}
    error: str = ""
    history: bytes = b""


def seed_of(sweep_seed: int, key: str, repetition: int) -> int:
    """63 bits: fits a column of Parquet and the option `--seed`."""
    digest = hashlib.sha256(f"{sweep_seed}/{repetition}/{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def tasks_of(point: Point, repetitions: Iterable[int], sweep_seed: int) -> list[Task]:
    return [Task(point, n, seed_of(sweep_seed, point.key, n)) for n in repetitions]


def perform(experiment: Experiment, task: Task) -> FinishedRun:
    """Do one run; an exception becomes a failed run."""
    key, repetition, seed = task.point.key, task.repetition, task.seed
    try:
        measured = experiment(task.point.config, seed, task.run)
    except Exception as error:
        return failed(task, told(error))
    return FinishedRun(
        key, repetition, seed, measured.measures, measured.notes, history=measured.history
    )


def failed(task: Task, error: str) -> FinishedRun:
    return FinishedRun(task.point.key, task.repetition, task.seed, error=error)


def told(error: BaseException) -> str:
    """One line; of our own errors the message alone."""
    lines = str(error).split("\n")
    message = " ".join(line.strip() for line in lines if line.strip())[:_TOLD]
    if isinstance(error, Error):
        return message
    return f"{type(error).__name__}: {message}".rstrip(": ")
