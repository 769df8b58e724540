"""Messages in an export whose origin's store does not have them: they were sent all the same.

Some site has delivered such a message, but its origin has forgotten it, or relayed it before it was
durable there, or the origin's store is not in the folder. Its `sent` row has no digest and no time.
"""

from msgspec.structs import replace

from ordercast.history.lake_writer import LakeAppend
from ordercast.history.memory import CollectedHistory
from ordercast.history.rows import Sent
from ordercast.history.stream import HistoryStream
from ordercast.history.tables import TABLES
from ordercast.model.groups import Group, Site
from ordercast.model.messages import Batch
from ordercast.net.export.marks import SeqSpans, Streams
from ordercast.net.export.source import LoggedBatch

ExportedTables = HistoryStream | CollectedHistory | LakeAppend
"""Where an export goes."""

_PIECE = 100_000  # rows before they go into a file


class ForgottenSends:
    """`written` counts the rows: the rows without digest in the history's table `sent`."""

    def __init__(self, history: ExportedTables, known: Streams | None = None) -> None:
        """`known`: messages whose rows are there already, in a history that grows."""
        self.written = 0
        self._history = history
        self._last: dict[Site, tuple[int, dict[Group, int] | None]] = {}
        self._held: Streams = {}
        self._unsent: Streams = {}
        self._known: Streams = {} if known is None else known
        self._rows: list[Sent] = []

    def holds(self, batch: Batch, *, sent: bool) -> None:
        """The origin's store has the batch. Not `sent`: refused there; then it counts as sent only
        if some site has delivered it."""
        stream = (batch.origin, batch.incarnation, batch.group)
        held = self._held if sent else self._unsent
        spans = held.get(stream)
        if spans is None:
            spans = held[stream] = SeqSpans()
        spans.add(batch.seq, batch.seq + batch.count - 1)

    def has(self, origin: Site, incarnation: int, last: dict[Group, int] | None) -> None:
        """The origin's store is in the folder. It may have forgotten messages up to the `last` seq
        per group; None: that is not known."""
        self._last[origin] = (incarnation, last)

    def delivered(self, item: LoggedBatch, *, agreed: bool) -> None:
        """A site has delivered the batch. Not `agreed`: the site may have been excluded, and the
        message refused since."""
        batch = item.placed.batch
        origin, incarnation, group = stream = (batch.origin, batch.incarnation, batch.group)
        last = batch.seq + batch.count - 1
        if stream in self._known and self._known[stream].has(batch.seq):
            return
        here = self._last.get(origin)
        if here is not None:
            latest, forgotten = here
            if stream in self._held and self._held[stream].has(batch.seq):
                return
            refused = stream in self._unsent and self._unsent[stream].has(batch.seq)
            floor = 0 if forgotten is None else forgotten.get("", 0)
            never = forgotten is not None and last > forgotten.get(group, floor) and not refused
            if never and agreed and incarnation == latest:
                return  # never accepted there: a fault that the checkers shall find
        self._known.setdefault(stream, SeqSpans()).add(batch.seq, last)
        client, requests, parts = item.parts
        shown, addressed = item.contents.shown(), item.contents.addressed
        for n, size in enumerate(item.contents.sizes()):
            row = Sent(origin, incarnation, group, batch.seq + n, 0, 0, 0, size)
            if shown is not None or addressed is not None:
                headers = None if shown is None else shown[n]
                row = replace(row, headers=headers, addressed=addressed)
            if requests is not None and parts is not None:
                row = replace(row, client=client, request=requests[n], part=parts[n])
            self._rows.append(row)
        if len(self._rows) >= _PIECE:
            self.write()

    def write(self) -> None:
        """Write a file of the rows gathered so far."""
        if not self._rows:
            return
        with self._history.table("sent") as table:
            for row in sorted(self._rows, key=TABLES["sent"].order):
                table.append(row)
            self.written += table.rows
        self._rows.clear()
