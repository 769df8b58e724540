"""Bodies that came before their final headers: in `tom` origins send them straight to receivers.

The number of bodies and of bytes is bounded. A body for which there is no room is dropped; the site
fetches it from the ordering node when its header has come.
"""

from collections.abc import Iterable

from ordercast.model.groups import Site
from ordercast.model.messages import Batch
from ordercast.wire.tom import MessageName

EARLY_BODIES = 1_024
EARLY_BYTES = 16_777_216


def name_of(batch: Batch) -> MessageName:
    return (batch.origin, batch.incarnation, batch.group, batch.seq)


class EarlyBodies:
    def __init__(self) -> None:
        self._most, self._most_bytes = EARLY_BODIES, EARLY_BYTES
        self._held: dict[MessageName, Batch] = {}
        self._bytes = 0

    def add(self, batch: Batch) -> bool:
        """Keep the body; whether there was room. A repeat changes nothing."""
        name = name_of(batch)
        if name in self._held:
            return True
        if len(self._held) >= self._most or self._bytes + len(batch.body) > self._most_bytes:
            return False
        self._held[name] = batch
        self._bytes += len(batch.body)
        return True

    def take(self, name: MessageName) -> Batch | None:
        batch = self._held.pop(name, None)
        if batch is not None:
            self._bytes -= len(batch.body)
        return batch

    def origins(self) -> Iterable[Site]:
        """The origin of each body."""
        return (name[0] for name in self._held)

    def __len__(self) -> int:
        return len(self._held)
