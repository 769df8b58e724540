"""`ordercast export`: all stores of a cluster as one history, whether the sites run or not.

Stores are read row by row and written piece by piece. Where retention has removed deliveries, a
`base` event says so; where an origin has removed a message that another site still holds, the
message's `sent` row has no digest (docs/store.md).
"""

import json
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace as replace_fields

from ordercast.history.memory import CollectedHistory, CollectedTable
from ordercast.history.order_key import order_key
from ordercast.history.rows import (
    DROPPED,
    END,
    EXCLUDED,
    GAP,
    OPEN,
    Event,
    History,
    Meta,
    dropped_detail,
    gap_detail,
)
from ordercast.history.stream import TableStream, stream_history
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.messages import MessageId
from ordercast.model.version import __version__
from ordercast.net.export.epochs import EpochTable
from ordercast.net.export.forgotten_sends import ExportedTables, ForgottenSends
from ordercast.net.export.marks import ExportMarks, SeqSpans, SiteMark, Streams
from ordercast.net.export.site_events import StoreEvents, event_at
from ordercast.net.export.source import (
    AcceptedBatch,
    CopiedBatch,
    LoggedBatch,
    StoreSource,
    sources,
)
from ordercast.net.store.rows import GAPS

_FACTS = ("deliver", "on_failure", "epochs")
_PROGRESS_EVERY = 65_536  # messages

OnExported = Callable[[Site, str, int], None]
"""(site, table, rows so far)"""


@dataclass(slots=True)
class Exported:
    """How much was written. `missing`: sites of the cluster whose stores are not in the folder."""

    sites: list[Site] = field(default_factory=list)
    missing: list[Site] = field(default_factory=list)
    ended: list[Site] = field(default_factory=list)
    sent: int = 0
    deliveries: int = 0
    gaps: int = 0
    annulled: int = 0  # `deliveries` that were rolled back
    forgotten: int = 0  # `sent` rows without digest
    append: int = 0  # to a lake: its number


def export(
    folder: Path,
    out: Path,
    *,
    ended: Collection[Site] = (),
    replace: bool = False,
    progress: OnExported | None = None,
) -> Exported:
    """Write the history. `ended`: running sites that are known to be quiet; a store that was closed
    quietly says so itself."""
    with (
        opened_stores(Path(folder), ended) as found,
        stream_history(Path(out), replace=replace) as history,
    ):
        return HistoryExport(found, history, progress or no_progress).run()


def collect(folder: Path, *, ended: Collection[Site] = ()) -> tuple[Exported, History]:
    """The same in memory, for small clusters. It needs no pyarrow."""
    collected = CollectedHistory()
    with opened_stores(Path(folder), ended) as found:
        done = HistoryExport(found, collected, no_progress).run()
    return done, collected.history


@contextmanager
def opened_stores(folder: Path, ended: Collection[Site]) -> Iterator[list[StoreSource]]:
    found = sources(folder)
    try:
        for source in found:
            if source.site in ended:
                source.ended, source.ended_ns = True, time.time_ns()
        yield found
    finally:
        for source in found:
            source.close()


def no_progress(site: Site, table: str, rows: int) -> None:
    """The default: progress is not shown."""


class HistoryExport:
    """`marks`: how much of the stores the history has already; it has moved on when `run` is done.
    `grows`: more may be appended, so what may still be taken back is left for later."""

    def __init__(
        self,
        found: list[StoreSource],
        history: ExportedTables,
        progress: OnExported,
        marks: ExportMarks | None = None,
        *,
        grows: bool = False,
    ) -> None:
        self.found = found
        self.history = history
        self.progress = progress
        self.marks = ExportMarks() if marks is None else marks
        self.grows = grows
        self.facts = _facts(found)
        self.epochs = EpochTable(found)
        self.done = Exported([source.site for source in found])
        self.limits = {s.site: s.last_delivered(self.facts["deliver"]) for s in found}
        self.forgotten = ForgottenSends(history, self.marks.sent if grows else None)
        self.excludes = self.facts["on_failure"] == "exclude"
        self.delivered: Streams = {}  # by this export, where the history grows
        self.moved: set[Site] = set()  # sites with new rows
        self.lacking: dict[Site, int] = {}  # the last position that the store no longer has

    def run(self) -> Exported:
        named = self.epochs.sites() | set(self.facts.get("sites", ()))
        self.done.missing = sorted(named - {source.site for source in self.found})
        self.done.ended = [source.site for source in self.found if source.ended]
        for source in self.found:
            self._require_newer(source)
            if self.grows:
                self._hold(source)
            else:
                self._sent(source)
        gaps: dict[Site, list[Event]] = {}
        for source in self.found:
            gaps[source.site] = self._deliveries(source)
        if self.grows:  # what was delivered is decided
            for source in self.found:
                self._sent(source)
        self.forgotten.write()
        self.done.forgotten = self.forgotten.written
        self.done.sent += self.forgotten.written
        with self.history.table("events") as events:
            for source in self.found:
                mark = self._mark(source)
                for event in self._events(source, gaps[source.site]):
                    mark.events += 1
                    events.append(replace_fields(event, n=mark.events))
        self._groups_and_epochs()
        self.history.finish(self._meta())
        return self.done

    def _mark(self, source: StoreSource) -> SiteMark:
        return self.marks.of(source.site, source.number, source.path)

    def _require_newer(self, source: StoreSource) -> None:
        mark = self._mark(source)
        if source.log.last_row() < max(mark.log_row, mark.sent_row, mark.annulled_row):
            raise ConfigError(
                f"{source.path}: ends before what the lake has of site {source.site!r}:"
                " it is an older copy"
            )

    def _sends(self, source: StoreSource) -> Iterator[tuple[AcceptedBatch, int]]:
        """The accepted batches that the history has not got, and when they were sent."""
        mark = self._mark(source)
        latest = mark.latest_ns
        after = min([mark.sent_row + 1, *mark.undecided]) - 1
        for item in source.sends.accepted(after):
            if item.row <= mark.sent_row:
                if item.row in mark.undecided:
                    yield item, mark.undecided[item.row]
                continue
            # The clock of the machine may have been set back.
            latest = max(latest, item.contents.sent_ns or item.at_ns)
            yield item, latest

    def _hold(self, source: StoreSource) -> None:
        for item, _ in self._sends(source):
            self._holds(item)
        self._has(source)

    def _holds(self, item: AcceptedBatch) -> None:
        # An excluded site may have delivered a batch before it was refused.
        self.forgotten.holds(item.batch, sent=not (item.refused and self.excludes))

    def _has(self, source: StoreSource) -> None:
        # Under `exclude` a site relays a message before it is stored: after a crash others have it,
        # and its origin does not.
        surely = source.ended or not self.excludes
        self.forgotten.has(source.site, source.incarnation, source.forgotten() if surely else None)

    def _sent(self, source: StoreSource) -> None:
        limit, mark = self.limits[source.site], self._mark(source)
        undecided: dict[int, int] = {}
        last = (mark.sent_row, mark.latest_ns)
        progress_at = _PROGRESS_EVERY
        with self.history.table("sent") as table:
            for item, sent_ns in self._sends(source):
                last = max(last, (item.row, sent_ns))
                batch, contents = item.batch, item.contents
                if not self.grows:
                    self._holds(item)
                if item.refused or self._is_written(item):
                    continue
                if self._is_undecided(source, item):
                    undecided[item.row] = sent_ns
                    continue
                after, count = min(item.after, limit), batch.count
                table.extend(
                    count,
                    {
                        "origin": batch.origin, "incarnation": batch.incarnation,
                        "group_name": batch.group, "seq": _range(batch.seq, count),
                        "after_position": after, "after_attempt": item.attempt if after else 0,
                        "sent_ns": sent_ns, "size": contents.sizes(),
                        "digest": contents.digests(), "headers": contents.shown(),
                        "addressed": contents.addressed, **item.parts._asdict(),
                    },
                )  # fmt: skip
                self.epochs.note(batch.group, batch.members)
                if table.rows >= progress_at:
                    progress_at += _PROGRESS_EVERY
                    self.progress(source.site, "sent", table.rows)
            self.done.sent += table.rows
            self.progress(source.site, "sent", table.rows)
        if not self.grows:
            self._has(source)
        (mark.sent_row, mark.latest_ns), mark.undecided = last, undecided

    def _is_written(self, item: AcceptedBatch) -> bool:
        """Whether the history has its rows; if not, it will have them."""
        if not self.grows:
            return False
        batch = item.batch
        known = self.marks.sent.get((batch.origin, batch.incarnation, batch.group))
        return known is not None and known.has(batch.seq)

    def _is_undecided(self, source: StoreSource, item: AcceptedBatch) -> bool:
        """Whether it may still be refused: nobody has delivered it. If not, it is written now."""
        if not self.grows:
            return False
        batch = item.batch
        stream = (batch.origin, batch.incarnation, batch.group)
        here = self.delivered.get(stream)
        if not source.ended and (here is None or not here.has(batch.seq)):
            return True
        self.marks.sent.setdefault(stream, SeqSpans()).add(batch.seq, batch.seq + batch.count - 1)
        return False

    def _deliveries(self, source: StoreSource) -> list[Event]:
        """Write the rows of a site's deliveries. Returns the events of its gaps and copies."""
        site, limit, mark = source.site, self.limits[source.site], self._mark(source)
        self._find_lacking(source, mark)
        shed = _Shed(source)
        gaps: list[Event] = []
        log_row = mark.log_row
        progress_at = _PROGRESS_EVERY
        with self.history.table("deliveries") as table:
            for item in source.log.logged(mark.log_row):
                if item.position > limit:
                    break
                batch = item.placed.batch
                self.epochs.delivered(site, item.epoch, batch.group, batch.members)
                self.forgotten.delivered(item, agreed=source.ended or not self.excludes)
                self._note_delivered(item)
                if shed and (hidden := shed.within(item)):
                    gaps.extend(_gaps(site, item, hidden))
                    self._rows(table, site, item, hidden)
                else:
                    self._rows(table, site, item, ())
                log_row, mark.position = item.row, item.position + batch.count - 1
                if table.rows >= progress_at:
                    progress_at += _PROGRESS_EVERY
                    self.progress(site, "deliveries", table.rows)
            self.done.deliveries += table.rows
            self.progress(site, "deliveries", table.rows)
            if table.rows:
                self.moved.add(site)
        self._annulled(source, mark)
        self.done.gaps += len(gaps)
        for copied in source.log.copies:
            gaps.extend(_copies(site, copied))
            log_row = max(log_row, copied.row)
        mark.log_row = log_row
        return gaps

    def _find_lacking(self, source: StoreSource, mark: SiteMark) -> None:
        """Whether the store begins above what the history has of it."""
        back = source.log.rows(
            "position", f"events WHERE kind = 'rollback' AND n > {mark.event_row}"
        )
        mark.position = min([mark.position, *(position for (position,) in back)])
        kept_after = min(source.log.first_position() - 1, self.limits[source.site])
        if kept_after > mark.position:
            self.lacking[source.site] = kept_after

    def _note_delivered(self, item: LoggedBatch) -> None:
        if self.grows:
            batch = item.placed.batch
            stream = (batch.origin, batch.incarnation, batch.group)
            spans = self.delivered.setdefault(stream, SeqSpans())
            spans.add(batch.seq, batch.seq + batch.count - 1)

    def _annulled(self, source: StoreSource, mark: SiteMark) -> None:
        """Write the deliveries that were rolled back, in a file of their own. Those up to the last
        row of the log that was written before were written then."""
        after = max(mark.log_row, mark.annulled_row)
        if not source.log.rows("n", f"annulled WHERE n > {after} LIMIT 1"):
            return
        with self.history.table("deliveries") as table:
            for item in source.log.annulled(after):
                batch = item.placed.batch
                self.epochs.delivered(source.site, item.epoch, batch.group, batch.members)
                self._note_delivered(item)
                self._rows(table, source.site, item, ())
                mark.annulled_row = max(mark.annulled_row, item.row)
            self.done.annulled += table.rows

    def _rows(
        self,
        table: TableStream | CollectedTable,
        site: Site,
        item: LoggedBatch,
        hidden: Collection[int],
    ) -> None:
        batch, contents, parts = item.placed.batch, item.contents, item.parts
        positions, seqs = _range(item.position, batch.count), _range(batch.seq, batch.count)
        if hidden:
            kept = [n for n, position in enumerate(positions) if position not in hidden]
            positions, seqs = [positions[n] for n in kept], [seqs[n] for n in kept]
            contents, parts = contents.only(kept), parts.only(kept)
        table.extend(
            len(positions),
            {
                "site": site, "position": positions, "attempt": item.attempt, "epoch": item.epoch,
                "group_name": batch.group, "origin": batch.origin,
                "incarnation": batch.incarnation, "seq": seqs, "delivered_ns": item.at_ns,
                "digest": contents.digests(), "order_key": order_key(item.placed.key),
                "sent_ns": contents.sent_ns, "headers": contents.shown(),
                "addressed": contents.addressed, **parts._asdict(),
            },
        )  # fmt: skip

    def _events(self, source: StoreSource, gaps: Sequence[Event]) -> Iterable[Event]:
        """The events that the history has not got."""
        site, mark = source.site, self._mark(source)
        told = StoreEvents(self.epochs, source, mark)
        made = [*told.bases(self.lacking.get(site, 0)), *told.rows()]
        closed = self.epochs.left_since(site, told.epoch)
        if closed and not told.away and closed != mark.excluded:  # it has not heard of it
            mark.excluded = closed
            made.append(event_at(site, EXCLUDED, self.limits[site], closed, 0, "{}", told.attempt))
        made += gaps
        ends = source.ended and not (told.away or closed)  # an excluded one that ended was retired
        at = (self.limits[site], told.epoch)
        goes_on = mark.ended and (not ends or site in self.moved)
        if goes_on and not made:  # the `end` was not the last
            made.append(event_at(site, OPEN, at[0], at[1], time.time_ns(), "{}", told.attempt))
        if ends and (made or not mark.ended):
            made.append(event_at(site, END, *at, source.ended_ns, "{}", told.attempt))
        if made:
            mark.ended = made[-1].kind == END
        return made

    def _groups_and_epochs(self) -> None:
        """The rows that the history has not got. Of an epoch that all stores have forgotten it may
        know more than they tell."""
        told = {epoch for epoch, row in self.marks.epochs.items() if row.protocol}
        with self.history.table("groups") as table:
            for row in self.epochs.group_rows(told):
                if row not in self.marks.groups:
                    table.append(row)
        with self.history.table("epochs") as table:
            for one in self.epochs.epoch_rows(self.facts):
                if one.epoch not in self.marks.epochs:
                    table.append(one)

    def _meta(self) -> Meta:
        config = {"cluster": self.found[0].cluster, **self.facts, "missing": self.done.missing}
        return Meta(code_version=__version__, config=config, clock="utc")


class _Shed:
    """Positions at which the application was given a gap instead of a message."""

    def __init__(self, source: StoreSource) -> None:
        gaps = source.log.rows("position, detail", GAPS)
        spans = sorted((int(at), int(at) + int(json.loads(text)["count"])) for at, text in gaps)
        self._starts = [start for start, _ in spans]
        self._ends = [end for _, end in spans]

    def __bool__(self) -> bool:
        return bool(self._starts)

    def within(self, item: LoggedBatch) -> set[int]:
        first, last = item.position, item.position + item.placed.batch.count - 1
        hidden: set[int] = set()
        at = bisect_right(self._starts, last) - 1
        while at >= 0 and self._ends[at] > first:
            hidden.update(range(max(first, self._starts[at]), min(last + 1, self._ends[at])))
            at -= 1
        return hidden


def _gaps(site: Site, item: LoggedBatch, hidden: Iterable[int]) -> list[Event]:
    batch = item.placed.batch
    made = []
    for position in sorted(hidden):
        seq = batch.seq + position - item.position
        message = MessageId(batch.origin, batch.incarnation, batch.group, seq)
        detail = gap_detail(message)
        made.append(event_at(site, GAP, position, item.epoch, item.at_ns, detail, item.attempt))
    return made


def _copies(site: Site, item: CopiedBatch) -> list[Event]:
    at = item.position - 1, item.epoch, item.at_ns
    ids = [item.first._replace(seq=seq) for seq in _range(item.first.seq, item.messages)]
    details = [dropped_detail(one, item.outcome) for one in ids]
    return [event_at(site, DROPPED, *at, detail, item.attempt) for detail in details]


def _range(first: int, count: int) -> list[int]:
    return list(range(first, first + count))


def _facts(found: list[StoreSource]) -> dict[str, Any]:
    """What the stores say of their cluster; they must not contradict each other."""
    known: StoreSource | None = None
    for source in found:
        if source.facts is None:
            continue
        for name in _FACTS:
            if name not in source.facts:
                raise ConfigError(f"{source.path}: does not say the cluster's {name!r}")
            if known is not None and known.facts is not None and name != "epochs":
                ours, theirs = source.facts[name], known.facts[name]
                if ours != theirs:
                    raise ConfigError(
                        f"{source.path}: was last run with another {name!r} than {known.path}"
                    )
        if known is None or not known.founding:
            known = source
    if known is None or known.facts is None:
        raise ConfigError(f"{found[0].path}: no site of this cluster was ever started on its store")
    return known.facts
