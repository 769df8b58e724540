"""The receivers' part of [SWAP] §3: messages are chained by predecessor, or by number.

Every site of the domain chains every header, whether it is a member or not. Otherwise a site
outside the predecessor's group would wait for ever for a message that it never sees (errata
SWAP-6). So all sites know the number of a message in the chain, which is its order key.
"""

from collections.abc import Callable

from msgspec.structs import replace

from ordercast.core.order.bodies import name_of
from ordercast.core.order.kept_states import ChainState
from ordercast.core.outbox import Stream, by_stream, stream_seqs
from ordercast.model.messages import Batch
from ordercast.wire.swap import NOBODY, Counted, Follows
from ordercast.wire.tom import MessageName

Header = Follows | Counted


class Chain:
    """State: the end of the chain (`number`, `last`); headers that wait; per origin and group, the
    last seq in the chain. A repeat is known by its seq: messages of one origin to one group are
    chained in order."""

    def __init__(self) -> None:
        self.number = 0
        self.last: MessageName = NOBODY
        self.seqs: dict[Stream, int] = {}
        self._waiting: dict[MessageName | int, Header] = {}

    def has(self, batch: Batch) -> bool:
        return batch.seq <= self.seqs.get((batch.origin, batch.incarnation, batch.group), 0)

    def is_next(self, header: Header) -> bool:
        return self._place(header) in (self.last, self.number + 1)

    def add(self, header: Header) -> None:
        self._waiting[self._place(header)] = header

    def _place(self, header: Header) -> MessageName | int:
        return header.after if isinstance(header, Follows) else header.place

    def next(self) -> Batch | None:
        """The batch that comes right after the end, if its header is here."""
        header = self._waiting.get(self.last) or self._waiting.get(self.number + 1)
        return None if header is None else header.batch

    def link(self, batch: Batch) -> int:
        """Make the batch the end of the chain; its number."""
        self._waiting.pop(self.last, None)
        self.number += 1
        self._waiting.pop(self.number, None)
        self._end(batch)
        return self.number

    def skip_to(self, number: int, batch: Batch) -> None:
        """After a restart: the batch had this number, and all batches before it were chained."""
        if number > self.number:
            name = name_of(batch)
            self._waiting = {
                place: header
                for place, header in self._waiting.items()
                if name_of(header.batch) != name
            }
            self.number = number
            self._end(batch)

    def _end(self, batch: Batch) -> None:
        self.last = name_of(batch)
        stream = (batch.origin, batch.incarnation, batch.group)
        self.seqs[stream] = batch.seq + batch.count - 1

    def state(self, kept: Callable[[Batch], Batch]) -> ChainState:
        """`kept` takes the body off an own batch: the site keeps own bodies elsewhere."""
        return ChainState(
            number=self.number,
            last=self.last,
            seqs=stream_seqs(self.seqs),
            waiting=tuple(replace(h, batch=kept(h.batch)) for h in self._waiting.values()),
        )

    def load(self, state: ChainState) -> None:
        self.number, self.last = state.number, state.last
        self.seqs = by_stream(state.seqs)
        for header in state.waiting:
            self.add(header)

    def __len__(self) -> int:
        return len(self._waiting)
