"""What a driver hands to its store for one outbox: the face of the stores to the node."""

from collections.abc import Sequence

import msgspec

from ordercast.core.epochs.records import Anew, EpochOpened, MemberRecord
from ordercast.core.epochs.returning import Rollback
from ordercast.model.groups import Group
from ordercast.model.messages import DeliveredBatch


class Written(msgspec.Struct):
    """`records` and `forget` as in the outbox; the rest is the node's.

    `at_ns` is wall-clock time; `after_position` the last delivery that the application was handed
    when it sent what is accepted here; `delivered` the last position released to the application
    (it alone causes no commit); `confirmed` what the application has confirmed, if that is news.
    `refused` are group and seq of own batches that no epoch takes (the outbox's receipts say so).
    `requests` are (client, number, group, seq, count); a client will not repeat those up to the
    number it `answered`. Of both the store makes when they were `heard`, and which are `gone`:
    (client, first number, last). `events` are (kind, position, detail): a gap
    (`gaps.tell_gap`), an epoch opened (`openings.open_event`), a rollback
    (`rollbacks.rollback_event`), a base, excluded, returned; see docs/store.md.

    An outbox that ends epochs (its records have a Finish, an Open, or a layout caught up with) may
    replace the end of the ordered log: then `logged` is where the log of the member ends after it,
    `caught` all that it delivers, and its `forget` goes with it.

    `after_attempt`: the attempt that the application has come to; `delivered` and `after_position`
    are of it. A rollback counts when the application has been told. `confirmed_attempt` is that of
    what it has confirmed (0: the same). What comes of a lower attempt than the log's is taken for
    the part of it that was not rolled back.
    """

    records: Sequence[MemberRecord] = ()
    at_ns: int = 0
    after_position: int = 0
    delivered: int = 0
    confirmed: int | None = None
    forget: Anew | None = None
    requests: Sequence[tuple[bytes, int, Group, int, int]] = ()
    answered: Sequence[tuple[bytes, int]] = ()
    events: Sequence[tuple[str, int, str]] = ()
    caught: Sequence[DeliveredBatch | EpochOpened | Rollback] = ()
    logged: int | None = None
    after_attempt: int = 1
    confirmed_attempt: int = 0
    refused: Sequence[tuple[Group, int]] = ()
    heard: int = 0
    gone: Sequence[tuple[bytes, int, int]] = ()
