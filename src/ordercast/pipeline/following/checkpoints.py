"""Checkpoints of a live audit: one file per batch, whole or not there; the last two are kept."""

from pathlib import Path

import msgspec

from ordercast.model.errors import ConfigError
from ordercast.whole_files import write_file

QUERY, FIGURES = "query", "query-figures"
"""Folders in which Spark keeps the offsets of the audit's query and of that of live figures."""
_SUFFIX = ".batch"
_KEPT = 2


class KeptBatch(msgspec.Struct):
    """The state after a batch. `left`: for each table and file seen so far, the row groups still to
    be read. `told`: the count of each check that was last told. `figures`: the open windows of the
    live figures, if this process makes them."""

    batch: int
    history: str
    audit: bytes
    left: dict[str, dict[str, list[int]]] = {}
    told: dict[str, int] = {}
    figures: bytes = b""


class AuditCheckpoint:
    """A folder of its own. A batch is kept before its verdict is told."""

    def __init__(self, folder: Path, history: str) -> None:
        self._folder = folder
        self._history = history
        try:
            folder.mkdir(parents=True, exist_ok=True)
            strange = [p.name for p in folder.iterdir() if not p.name.startswith((".", "batch-"))]
        except OSError as error:
            raise ConfigError(f"--checkpoint {folder}: {error.strerror}") from None
        strange = [name for name in strange if name not in (QUERY, FIGURES)]
        if strange:
            raise ConfigError(
                f"--checkpoint {folder}: holds {min(strange)!r}, which is no checkpoint:"
                " choose a folder of its own"
            )

    @property
    def query(self) -> Path:
        return self._folder / QUERY

    def load(self) -> KeptBatch | None:
        """The last one. Raises ConfigError if it is of another history, or cannot be read."""
        files = self._files()
        if not files:
            return None
        try:
            kept = msgspec.msgpack.decode(files[-1].read_bytes(), type=KeptBatch)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{files[-1]}: is no checkpoint of a live audit: {error}") from None
        if kept.history != self._history:
            raise ConfigError(
                f"--checkpoint {self._folder}: is of the history {kept.history},"
                f" not of {self._history}"
            )
        return kept

    def save(self, kept: KeptBatch) -> None:
        name = f"batch-{kept.batch:012}{_SUFFIX}"
        write_file(self._folder / name, msgspec.msgpack.encode(kept), durable=True)
        for old in self._files()[:-_KEPT]:
            old.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"batch-*{_SUFFIX}"))
