"""`ordercast export --append`: what is new in the stores of a cluster, appended to a lake."""

from collections.abc import Callable, Collection
from pathlib import Path

from ordercast.history.lake_writer import LakeWriter, opened_lake
from ordercast.history.reader import read_small_tables
from ordercast.model.groups import Site
from ordercast.net.export.history import (
    Exported,
    HistoryExport,
    OnExported,
    no_progress,
    opened_stores,
)
from ordercast.net.export.marks import ExportMarks
from ordercast.net.export.source import StoreSource


def append(
    folder: Path,
    out: Path,
    *,
    kind: str | None = None,
    ended: Collection[Site] = (),
    still: Callable[[], bool] | None = None,
    progress: OnExported | None = None,
) -> Exported:
    """Append to the lake `out` all that its stores have and it has not; what is there stays as it
    is. `kind`: the format of a new lake, `parquet` or `delta`. `ended`: running sites that are
    known to be quiet, if `still` says so when the stores are pinned. Whenever it is killed, it has
    happened or not."""
    with opened_stores(Path(folder), ended) as found:
        if ended and still is not None and not still():
            for source in found:
                source.ended = source.ended and source.site not in ended
        with opened_lake(Path(out), found[0].cluster, kind) as writer:
            return _append(found, writer, progress or no_progress)


def _append(found: list[StoreSource], writer: LakeWriter, progress: OnExported) -> Exported:
    marks = ExportMarks.decode(writer.marks, writer.folder)
    if writer.lake.append:
        groups, epochs = read_small_tables(writer.folder)
        marks.groups = set(groups)
        marks.epochs = {row.epoch: row for row in epochs}
    appending = writer.append()
    try:
        done = HistoryExport(found, appending, progress, marks, grows=True).run()
    finally:
        appending.close()
    done.append = appending.commit(marks.encode())
    return done
