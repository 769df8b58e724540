"""What a driver hands to its store for one outbox: the face of the stores to the node."""

from collections.abc import Sequence

import msgspec

from ordercast.core.epochs.records import Anew, MemberRecord
from ordercast.model.groups import Group


class Written(msgspec.Struct):
    """`records` and `forget` as in the outbox; the rest is the node's.

    `at_ns` is wall-clock time; `after_position` the last delivery that the application was handed
    when it sent what is accepted here; `delivered` the last position released to the application
    (it alone causes no commit); `confirmed` what the application has confirmed, if that is news.
    `requests` are (client, number, group, seq, count); a client will not repeat those up to the
    number it `answered`. `events` are (kind, position, detail): a gap
    (`gaps.tell_gap`), an epoch opened (`openings.open_event`), a base; see docs/store.md.
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
