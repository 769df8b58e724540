"""Following without Spark: one process reads the new rows of a folder, or of a cluster that runs,
and judges them. The stores of a cluster are appended to a lake, and the lake is followed."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ordercast.check.live import PATIENCE, WINDOW
from ordercast.pipeline.following.checkpointed_audit import CheckpointedAudit
from ordercast.pipeline.following.figures_in_process import OnFigures, WindowFigures
from ordercast.pipeline.following.folder import GrowingFolder
from ordercast.pipeline.following.verdicts import LiveVerdict

EVERY_S = 1.0


def follow_folder(
    history: Path,
    look: Callable[[], object] | None = None,
    *,
    checkpoint: Path | None = None,
    every_s: float = EVERY_S,
    once: bool = False,
    patience: int = PATIENCE,
    window: int = WINDOW,
    figures: Path | None = None,
    on_figures: OnFigures | None = None,
) -> Iterator[LiveVerdict]:
    """Yields the verdict after each batch, and never ends; with `once`, it ends with the rows that
    are there now. If the checkpoint has a verdict, that is the first. `look` appends new rows of a
    cluster's stores to the lake `history`; a lake and its checkpoint go together. `figures`: a
    folder for live figures. `on_figures` is called whenever windows close."""
    if look is not None:
        look()
    # An event that was late is in its file by now, and is read first.
    audit = CheckpointedAudit(
        str(history.resolve()), checkpoint, patience=patience, window=window,
        read_again=lambda: folder.read_again(),
    )  # fmt: skip
    folder = GrowingFolder(history, audit.left)
    made = None if figures is None else WindowFigures(figures, on_figures, audit.figures)
    told = audit.batch >= 0
    if told:
        yield audit.verdict
    while True:
        for rows in folder.batches():
            yield audit.take(
                audit.batch + 1, rows, folder.left,
                b"" if made is None else made.take(audit.batch + 1, rows),
            )  # fmt: skip
            told = True
        if once:
            if not told:
                yield audit.verdict
            return
        time.sleep(every_s)
        if look is not None:
            look()
