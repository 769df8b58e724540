"""Whether what a process holds stays the same over a long run: memory, descriptors, threads, store.

A sample is one reading of one site's process. Judged are the samples of a site over the whole run,
and those since its last restart where there are enough: the median of the last quarter against the
median of the second one (in the first, caches and buffers fill), and the trend over the last three
quarters, in units per hour, where they are long enough to show one."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

LEAST_SAMPLES = 8
TREND_S = 2_400.0  # a shorter time shows no trend: caches fill for a quarter of an hour
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    at_s: float  # since the run began
    site: str
    pid: int
    rss_mb: float
    descriptors: int
    threads: int
    store_mb: float
    cpu_s: float

    def as_json(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Room:
    """How much more a process may hold."""

    growth: float  # from the second to the last quarter
    hourly: float  # by the trend


ROOMS: Mapping[str, Room] = {
    "rss_mb": Room(8.0, 2.5),
    "descriptors": Room(4, 2.0),
    "threads": Room(1, 1.0),
    "store_mb": Room(6.0, 4.0),
}


def read_sample(at_s: float, site: str, pid: int, directory: Path) -> Sample | None:
    """Of a live process; None: it has just ended. Only where there is /proc."""
    proc = Path(f"/proc/{pid}")
    try:
        pages = int((proc / "statm").read_text(encoding="ascii").split()[1])
        stat = (proc / "stat").read_text(encoding="utf-8", errors="replace")
        descriptors = len(list((proc / "fd").iterdir()))
        threads = len(list((proc / "task").iterdir()))
    except (OSError, IndexError):
        return None
    ticks = sum(map(int, stat.rpartition(")")[2].split()[11:13]))
    store = sum(path.stat().st_size for path in directory.glob(f"{site}.db*"))
    cpu = ticks / os.sysconf("SC_CLK_TCK")
    return Sample(
        round(at_s, 1), site, pid, round(pages * PAGE / 1e6, 2), descriptors, threads,
        round(store / 1e6, 3), cpu,
    )  # fmt: skip


def judge_flatness(samples: Sequence[Sample]) -> list[str]:
    """What grows; nothing if there are too few samples to tell."""
    wrong = []
    for site in sorted({sample.site for sample in samples}):
        whole = [sample for sample in samples if sample.site == site]
        latest = [sample for sample in whole if sample.pid == whole[-1].pid]
        wrong += [f"{site}: {what}" for what in _grown(whole)]
        if len(latest) < len(whole):
            wrong += [f"{site} since its restart: {what}" for what in _grown(latest)]
    return wrong


def quarters(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the second and of the last quarter."""
    quarter = len(values) // 4
    return median(values[quarter : 2 * quarter]), median(values[-quarter:])


def hourly_trend(samples: Sequence[Sample], name: str) -> float:
    """The slope of the line of least squares, per hour."""
    times = [sample.at_s / 3600 for sample in samples]
    values = [float(getattr(sample, name)) for sample in samples]
    mean_t, mean_v = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - mean_t) ** 2 for time in times)
    return sum(
        (time - mean_t) * (value - mean_v) for time, value in zip(times, values, strict=True)
    ) / (spread or 1.0)


def _grown(samples: Sequence[Sample]) -> list[str]:
    if len(samples) < LEAST_SAMPLES:
        return []
    wrong = []
    later = samples[len(samples) // 4 :]
    lasting = later[-1].at_s - later[0].at_s >= TREND_S
    for name, room in ROOMS.items():
        second, last = quarters([float(getattr(sample, name)) for sample in samples])
        if last - second > room.growth:
            wrong.append(f"{name} was {second:g} in the second quarter, {last:g} in the last")
        slope = hourly_trend(later, name)
        if lasting and slope > room.hourly:
            wrong.append(f"{name} grows by {slope:.1f} an hour")
    return wrong
