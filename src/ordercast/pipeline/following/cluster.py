"""Following a cluster that runs: its stores are appended to a lake, and the lake is followed."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ordercast.check.live import PATIENCE, WINDOW
from ordercast.pipeline.following.checkpointed_audit import CheckpointedAudit
from ordercast.pipeline.following.figures_in_process import OnFigures, WindowFigures
from ordercast.pipeline.following.folder import GrowingFolder
from ordercast.pipeline.following.verdicts import LiveVerdict


def follow_stores(
    lake: Path,
    look: Callable[[], object],
    *,
    checkpoint: Path | None = None,
    every_s: float,
    once: bool = False,
    patience: int = PATIENCE,
    window: int = WINDOW,
    figures: Path | None = None,
    on_figures: OnFigures | None = None,
) -> Iterator[LiveVerdict]:
    """Yields the verdict after each batch of new rows in the stores, and never ends; with `once`,
    it ends with the rows that are there now. `look` appends new rows of the stores to the lake. A
    lake and its checkpoint go together. `figures` and `on_figures`: as in `follow_folder`."""
    look()
    folder: GrowingFolder
    audit = CheckpointedAudit(
        str(lake.resolve()), checkpoint, patience=patience, window=window,
        read_again=lambda: folder.read_again(),
    )  # fmt: skip
    folder = GrowingFolder(lake, audit.left)
    made = None if figures is None else WindowFigures(figures, on_figures, audit.figures)
    if audit.batch >= 0:
        yield audit.verdict
    while True:
        for rows in folder.batches():
            yield audit.take(
                audit.batch + 1, rows, folder.left,
                b"" if made is None else made.take(audit.batch + 1, rows),
            )  # fmt: skip
        if once:
            return
        time.sleep(every_s)
        look()
