"""The box that a node hands to its store for each outbox of the core."""

from collections.abc import Mapping, Sequence

import msgspec

from ordercast.core.epochs.log_tail import Rollback
from ordercast.core.epochs.records import Anew, EpochOpened, MemberRecord
from ordercast.model.groups import Group, Site
from ordercast.model.messages import DeliveredBatch
from ordercast.net.store.reader_rows import ReaderRow
from ordercast.wire.lineage import StorePoint


class StoreBox(msgspec.Struct):
    """`records` and `forget` come from the outbox; the node adds the rest.

    An outbox that ends epochs (its records have a Finish, an Open, or a layout caught up with) may
    replace the end of the ordered log. Then `logged` says where the member's log ends after it,
    `caught` has all that it delivers, and its `forget` is in the same box.

    `delivered`, `after_position` and `confirmed` are positions of an attempt. Where that attempt is
    older than the log's, only the part that was not rolled back since is taken.
    """

    records: Sequence[MemberRecord] = ()
    at_ns: int = 0  # wall-clock time
    # The application's last delivery when it sent the batches that are accepted.
    after_position: int = 0
    delivered: int = 0  # the last position released to the application; alone it causes no commit
    # The last position that the application has confirmed, if that is new.
    confirmed: int | None = None
    forget: Anew | None = None
    requests: Sequence[tuple[bytes, int, Group, int, int]] = ()  # client, number, group, seq, count
    answered: Sequence[tuple[bytes, int]] = ()  # a client will not repeat requests up to the number
    events: Sequence[tuple[str, int, str]] = ()  # kind, position, detail (docs/store.md)
    caught: Sequence[DeliveredBatch | EpochOpened | Rollback] = ()
    logged: int | None = None
    after_attempt: int = 1  # the attempt that the application has reached
    confirmed_attempt: int = 0  # the attempt of `confirmed`; 0: `after_attempt`
    refused: Sequence[tuple[Group, int]] = ()  # group and seq of own batches that no epoch takes
    points: Mapping[Site, StorePoint] = msgspec.field(default_factory=dict)  # of others' stores
    readers: Sequence[ReaderRow] = ()  # named readers, as they are now
    readers_gone: Sequence[str] = ()  # names of those that were removed; before `readers`
    # Nobody waits for this box to be durable: the writer may wait a moment for the next one.
    may_linger: bool = False
    # Filled in by the store: the count of boxes with requests, and which requests to delete
    # (client, first number, last number).
    heard: int = 0
    gone: Sequence[tuple[bytes, int, int]] = ()
