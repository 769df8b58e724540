"""A live audit with its checkpoint: what both ways of following share."""

from collections.abc import Callable, Iterable
from pathlib import Path

from ordercast.check.live import PATIENCE, WINDOW, LiveAudit
from ordercast.history.rows import History
from ordercast.pipeline.following.checkpoints import AuditCheckpoint, KeptBatch
from ordercast.pipeline.following.verdicts import LiveVerdict, verdict_of

ReadAgain = Callable[[], Iterable[History]]


class CheckpointedAudit:
    """Takes batches by number. A batch that was taken before, and kept, changes nothing."""

    def __init__(
        self,
        history: str,
        checkpoint: Path | None = None,
        *,
        patience: int = PATIENCE,
        window: int = WINDOW,
        read_again: ReadAgain | None = None,
    ) -> None:
        self._history = history
        self._limits = (patience, window)
        self._read_again = read_again
        self.checkpoint = None if checkpoint is None else AuditCheckpoint(checkpoint, history)
        kept = None if self.checkpoint is None else self.checkpoint.load()
        if kept is None:
            self._live = LiveAudit(*self._limits)
            self._batch = -1
            self._told: dict[str, int] = {}
        else:
            self._live = LiveAudit.restore(kept.audit, *self._limits)
            self._batch = kept.batch
            self._told = kept.told
        self.left = {} if kept is None else kept.left
        self.figures = b"" if kept is None else kept.figures

    @property
    def batch(self) -> int:
        """The last one that was taken; -1: none."""
        return self._batch

    @property
    def verdict(self) -> LiveVerdict:
        """The verdict of all rows so far, without new alerts."""
        return verdict_of(self._live, self._batch, self._told)

    def take(
        self,
        batch: int,
        rows: History,
        left: dict[str, dict[str, list[int]]] | None = None,
        figures: bytes = b"",
    ) -> LiveVerdict:
        """The verdict with these rows. `left` and `figures` are kept with it."""
        if batch <= self._batch:
            return self.verdict
        self._live.add(rows)
        if self._live.contradicted and self._read_again is not None:
            self._live = LiveAudit(*self._limits)
            for portion in self._read_again():
                self._live.add(portion)
        verdict = verdict_of(self._live, batch, self._told)
        self._batch = batch
        self._told = dict(verdict.report["checks"])
        if self.checkpoint is not None:
            audit = self._live.snapshot()
            self.checkpoint.save(
                KeptBatch(batch, self._history, audit, left or {}, self._told, figures)
            )
        return verdict
