"""`ordercast export`: all stores of a cluster as one history, whether the sites run or not.

Stores are read row by row and written piece by piece. Where retention has removed deliveries, a
`base` event says so; where an origin has removed a message that another site still holds, the
message's `sent` row has no digest (docs/store.md).
"""

import json
import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace as replace_fields

from ordercast.history.collected import CollectedHistory, CollectedTable
from ordercast.history.order_key import order_key
from ordercast.history.rows import (
    BASE,
    CRASH,
    DROPPED,
    END,
    EXCLUDED,
    GAP,
    OPEN,
    RESTART,
    RETURNED,
    ROLLBACK,
    Event,
    History,
    Meta,
    gap_detail,
)
from ordercast.history.stream import HistoryStream, TableStream, stream_history
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.messages import MessageId
from ordercast.model.version import __version__
from ordercast.net.export.epochs import EpochTable
from ordercast.net.export.forgotten_sends import ForgottenSends
from ordercast.net.export.source import CopiedBatch, LoggedBatch, StoreSource, sources
from ordercast.net.store.events import parse_opening
from ordercast.net.store.rows import GAPS

_FACTS = ("deliver", "on_failure", "epochs")
_JOIN = '{"reason":"join"}'
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
        _opened(Path(folder), ended) as found,
        stream_history(Path(out), replace=replace) as history,
    ):
        return _Export(found, history, progress or _silent).run()


def collect(folder: Path, *, ended: Collection[Site] = ()) -> tuple[Exported, History]:
    """The same in memory, for small clusters. It needs no pyarrow."""
    collected = CollectedHistory()
    with _opened(Path(folder), ended) as found:
        done = _Export(found, collected, _silent).run()
    return done, collected.history


@contextmanager
def _opened(folder: Path, ended: Collection[Site]) -> Iterator[list[StoreSource]]:
    found = sources(folder)
    try:
        for source in found:
            if source.site in ended:
                source.ended, source.ended_ns = True, time.time_ns()
        yield found
    finally:
        for source in found:
            source.close()


def _silent(site: Site, table: str, rows: int) -> None:
    """The default: progress is not shown."""


class _Export:
    def __init__(
        self,
        found: list[StoreSource],
        history: HistoryStream | CollectedHistory,
        progress: OnExported,
    ) -> None:
        self.found = found
        self.history = history
        self.progress = progress
        self.facts = _facts(found)
        self.epochs = EpochTable(found)
        self.done = Exported([source.site for source in found])
        self.limits = {s.site: s.last_delivered(self.facts["deliver"]) for s in found}
        self.forgotten = ForgottenSends(history)
        self.excludes = self.facts["on_failure"] == "exclude"

    def run(self) -> Exported:
        named = self.epochs.sites() | set(self.facts.get("sites", ()))
        self.done.missing = sorted(named - {source.site for source in self.found})
        self.done.ended = [source.site for source in self.found if source.ended]
        for source in self.found:
            self._sent(source)
        gaps: dict[Site, list[Event]] = {}
        for source in self.found:
            gaps[source.site] = self._deliveries(source)
        self.forgotten.write()
        self.done.forgotten = self.forgotten.written
        self.done.sent += self.forgotten.written
        with self.history.table("events") as events:
            for source in self.found:
                for number, event in enumerate(self._events(source, gaps[source.site]), 1):
                    events.append(replace_fields(event, n=number))
        self._groups_and_epochs()
        self.history.finish(self._meta())
        return self.done

    def _sent(self, source: StoreSource) -> None:
        limit, latest = self.limits[source.site], 0
        progress_at = _PROGRESS_EVERY
        with self.history.table("sent") as table:
            for at_ns, after, attempt, batch, contents, refused, parts in source.sends.accepted():
                # An excluded site may have delivered a batch before it was refused.
                self.forgotten.holds(batch, sent=not (refused and self.excludes))
                if refused:
                    continue
                # The clock of the machine may have been set back.
                latest = max(latest, contents.sent_ns or at_ns)
                after = min(after, limit)
                count = batch.count
                table.extend(
                    count,
                    {
                        "origin": batch.origin, "incarnation": batch.incarnation,
                        "group_name": batch.group, "seq": _range(batch.seq, count),
                        "after_position": after, "after_attempt": attempt if after else 0,
                        "sent_ns": latest, "size": contents.sizes(),
                        "digest": contents.digests(), "headers": contents.shown(),
                        "addressed": contents.addressed, **parts._asdict(),
                    },
                )  # fmt: skip
                self.epochs.note(batch.group, batch.members)
                if table.rows >= progress_at:
                    progress_at += _PROGRESS_EVERY
                    self.progress(source.site, "sent", table.rows)
            self.done.sent += table.rows
            self.progress(source.site, "sent", table.rows)
        # Under `exclude` a site relays a message before it is stored: after a crash others have it,
        # and its origin does not.
        surely = source.ended or not self.excludes
        self.forgotten.has(source.site, source.incarnation, source.forgotten() if surely else None)

    def _deliveries(self, source: StoreSource) -> list[Event]:
        """Write the rows of a site's deliveries. Returns the events of its gaps and copies."""
        site, limit = source.site, self.limits[source.site]
        shed = _Shed(source)
        gaps: list[Event] = []
        progress_at = _PROGRESS_EVERY
        with self.history.table("deliveries") as table:
            for item in source.log.logged():
                if item.position > limit:
                    break
                batch = item.placed.batch
                self.epochs.delivered(site, item.epoch, batch.group, batch.members)
                self.forgotten.delivered(item, agreed=source.ended or not self.excludes)
                if shed and (hidden := shed.within(item)):
                    gaps.extend(_gaps(site, item, hidden))
                    self._rows(table, site, item, hidden)
                else:
                    self._rows(table, site, item, ())
                if table.rows >= progress_at:
                    progress_at += _PROGRESS_EVERY
                    self.progress(site, "deliveries", table.rows)
            self.done.deliveries += table.rows
            self.progress(site, "deliveries", table.rows)
        self._annulled(source)
        self.done.gaps += len(gaps)
        for copied in source.log.copies:
            gaps.extend(_copies(site, copied))
        return gaps

    def _annulled(self, source: StoreSource) -> None:
        """Write the deliveries that were rolled back, in a file of their own."""
        if not source.log.rows("n", "annulled LIMIT 1"):
            return
        with self.history.table("deliveries") as table:
            for item in source.log.annulled():
                batch = item.placed.batch
                self.epochs.delivered(source.site, item.epoch, batch.group, batch.members)
                self._rows(table, source.site, item, ())
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

    def _events(self, source: StoreSource, gaps: Iterable[Event]) -> Iterable[Event]:
        site, epoch = source.site, self.epochs.founded(source.site)
        kept_after = min(source.log.first_position() - 1, self.limits[site])
        opened = {one.epoch: at_ns for one, at_ns in source.opened()}
        attempt, away, was_away = 1, 0, False
        rows = source.log.rows("kind, position, at_ns, detail", "events ORDER BY n")
        came_later = not epoch or source.incarnation > 1
        if came_later and opened and not any(kind == BASE for kind, *_ in rows):
            yield _event(site, BASE, 0, min(opened), 0, _JOIN)
        if kept_after:
            first = source.log.epoch_after(kept_after) or max(opened, default=epoch)
            yield _event(site, BASE, kept_after, first, 0, '{"reason":"truncated"}')
        for kind, position, at_ns, detail in rows:
            if kind == OPEN:
                one = parse_opening(position, detail)
                if one.epoch in opened:
                    epoch = one.epoch
                    if was_away and one.joined:  # for too long: it was handed the state
                        yield _event(site, BASE, position, epoch, at_ns, _JOIN, attempt)
                    was_away = False
                    del opened[epoch]
                    yield _event(site, OPEN, position, epoch, at_ns, "{}", attempt)
            elif kind == ROLLBACK:
                attempt = json.loads(detail)["attempt"]
                yield _event(site, kind, position, epoch, at_ns, "{}", attempt)
            elif kind in (EXCLUDED, RETURNED):
                away = json.loads(detail)["epoch"] if kind == EXCLUDED else 0
                was_away = was_away or kind == EXCLUDED
                closed = json.loads(detail)["epoch"]
                yield _event(site, kind, position, closed, at_ns, "{}", attempt)
            elif kind in (CRASH, RESTART, BASE):
                yield _event(site, kind, position, epoch, at_ns, detail, attempt)
        closed = self.epochs.left_since(site, epoch)
        if closed and not away:  # the site has not heard that it is excluded
            yield _event(site, EXCLUDED, self.limits[site], closed, 0, "{}", attempt)
        yield from gaps
        if source.ended and not (away or closed):  # an excluded site that ended was retired
            yield _event(site, END, self.limits[site], epoch, source.ended_ns, "{}", attempt)

    def _groups_and_epochs(self) -> None:
        with self.history.table("groups") as table:
            for row in self.epochs.group_rows():
                table.append(row)
        with self.history.table("epochs") as table:
            for one in self.epochs.epoch_rows(self.facts):
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
        made.append(_event(site, GAP, position, item.epoch, item.at_ns, detail, item.attempt))
    return made


def _copies(site: Site, item: CopiedBatch) -> list[Event]:
    after = item.position - 1
    ids = [item.first._replace(seq=seq) for seq in _range(item.first.seq, item.messages)]
    return [
        _event(site, DROPPED, after, item.epoch, item.at_ns, gap_detail(one), item.attempt)
        for one in ids
    ]


def _event(
    site: Site, kind: str, position: int, epoch: int, at_ns: int, detail: str, attempt: int = 1
) -> Event:
    attempt = attempt if position or kind == ROLLBACK else 0
    return Event(site, 0, kind, position, attempt, epoch, at_ns, detail)


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
