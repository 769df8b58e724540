"""What a member does with layouts: fold records into them, write them as bytes, read them back.
Only the manager builds forests, for the records that it proposes."""

from collections.abc import Collection
from dataclasses import replace

from ordercast.core.epochs.chain import linked
from ordercast.core.epochs.changes import FinishOrOpen, fold, with_forests, with_refusal
from ordercast.core.epochs.layout import Build, Layout
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.core.epochs.streams.ends import in_term
from ordercast.forest.forest import Forest
from ordercast.model.epochs import Begin, Entry
from ordercast.model.groups import GroupTable, Pair


class Folds:
    """State: the forest that was last built, the layout that was last packed. Simulated members
    share an object that remembers more (`sim.members`): all of them fold the same records."""

    def __init__(self, build: Build) -> None:
        self.build = build
        self._built: tuple[GroupTable, str, str, Forest] | None = None
        self._packed: tuple[Layout | None, bytes] = (None, b"")

    def fold(self, layout: Layout, entry: Entry) -> Layout:
        after = fold(in_term(layout, entry.term), entry.record, self.build)
        return replace(after, term=entry.term, chain=linked(layout.chain, entry))

    def begin(self, layout: Layout, record: Begin) -> Begin:
        """The record as the manager proposes it: with the reason, if no forest can be built for
        it."""
        return with_refusal(layout, record, self._build)

    def end(
        self, layout: Layout, record: FinishOrOpen, apart: Collection[Pair] = ()
    ) -> FinishOrOpen:
        """The record as the manager proposes it: with the forests of the epochs that it opens. The
        forests avoid the links between pairs that are apart."""
        return with_forests(layout, record, self._build, apart)

    def _build(self, table: GroupTable, builder: str, protocol: str) -> Forest:
        """Build a forest. The forest that was built to see whether a change may begin is used again
        for its end."""
        last = self._built
        if last is None or last[:3] != (table, builder, protocol):
            forest = self.build(table, builder, protocol)
            self._built = last = (table, builder, protocol, forest)
        return last[3]

    def pack(self, layout: Layout) -> bytes:
        """The layout as bytes. This is called at every checkpoint, mostly with the same layout."""
        if self._packed[0] is not layout:
            self._packed = (layout, pack_layout(layout))
        return self._packed[1]

    def unpack(self, data: bytes) -> Layout:
        """Raises FrameError if these bytes are no layout."""
        return unpack_layout(data, self.build)
