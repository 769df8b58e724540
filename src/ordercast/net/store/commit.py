"""The rows of one transaction, as the ledger works them out and the writer writes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ordercast.model.groups import Group
from ordercast.net.store.log_end import Cut
from ordercast.net.store.rows import Value


@dataclass(slots=True)
class Commit:
    """The rows of one transaction."""

    batches: list[tuple[int | bytes, ...]] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)
    checkpoint: tuple[int | bytes, ...] | None = None
    state: list[tuple[str, Value, int]] = field(default_factory=list)
    requests: list[tuple[bytes, int, Group, int, int, int]] = field(default_factory=list)
    gone: list[tuple[bytes, int, int]] = field(default_factory=list)  # deleted before these
    events: list[tuple[str, int, int, str]] = field(default_factory=list)
    size: int = 0  # bytes, roughly

    def __bool__(self) -> bool:
        return bool(
            self.batches
            or self.cuts
            or self.checkpoint
            or self.state
            or self.requests
            or self.gone
            or self.events
        )

    def forget_requests(self, gone: Sequence[tuple[bytes, int, int]]) -> None:
        """Of each client these numbers: one, or from 0 on; also of rows that would be added."""
        if self.requests:
            alone = {(client, first) for client, first, last in gone if first == last}
            upto = {client: last for client, first, last in gone if first < last}
            self.requests = [
                row
                for row in self.requests
                if row[:2] not in alone and row[1] > upto.get(row[0], 0)
            ]
        self.gone.extend(gone)
