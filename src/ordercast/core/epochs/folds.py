"""What a member does with layouts: fold records into them, write them as bytes, read them back.
Only the manager builds forests, for the records that it proposes."""

from dataclasses import replace

from ordercast.core.epochs.chain import linked
from ordercast.core.epochs.folding import FinishOrOpen, fold, with_forests, with_refusal
from ordercast.core.epochs.layout import Build, Layout
from ordercast.core.epochs.packing import pack_layout, unpack_layout
from ordercast.model.epochs import Begin, Entry


class Folds:
    """State: the layout that was last packed. Simulated members share an object that remembers
    more (`sim.members`): all of them fold the same records."""

    def __init__(self, build: Build) -> None:
        self.build = build
        self._packed: tuple[Layout | None, bytes] = (None, b"")

    def fold(self, layout: Layout, entry: Entry) -> Layout:
        after = fold(layout, entry.record, self.build)
        return replace(after, term=entry.term, chain=linked(layout.chain, entry))

    def begin(self, layout: Layout, record: Begin) -> Begin:
        """As the manager proposes it: with the reason, if no forest can be built for it."""
        return with_refusal(layout, record, self.build)

    def end(self, layout: Layout, record: FinishOrOpen) -> FinishOrOpen:
        """As the manager proposes it: with the forests of the epochs that it opens."""
        return with_forests(layout, record, self.build)

    def pack(self, layout: Layout) -> bytes:
        """Called at every checkpoint, mostly with the same layout."""
        if self._packed[0] is not layout:
            self._packed = (layout, pack_layout(layout))
        return self._packed[1]

    def unpack(self, data: bytes) -> Layout:
        """Raises FrameError if these bytes are no layout."""
        return unpack_layout(data, self.build)
