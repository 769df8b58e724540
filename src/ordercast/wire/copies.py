"""What a site that is no member of a group asks a member about a producer's messages to the group,
or about an id.

The core knows nothing of these frames: they are between the drivers of two sites (docs/producers.md
and docs/ids.md, "Through a site that is no member"). They are sent only where the layout has
adopted `outcomes`.
"""

from typing import Annotated, TypeAlias

from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.fields import Natural, Ordinal, Packed, check_named_group
from ordercast.model.groups import Group
from ordercast.model.messages import CLIENT_BYTES, is_by_id, ticket_in

Name: TypeAlias = Annotated[bytes, Meta(max_length=CLIENT_BYTES)]


class CopyWanted(Packed, frozen=True, tag="J"):
    """A question about the group. `client`: under which the producer's messages travel, or the
    message with the id; empty: it is only asked up to which number ids are settled. No two
    questions of a site have the same number."""

    group: Group
    question: Natural
    client: Name

    def check(self) -> None:
        check_named_group(self.group, "group")
        _check_name(self.client)


class CopyTold(Packed, frozen=True, tag="Z"):
    """The answer: the epoch in which the sender is; the last number of the producer in its log, or
    the number that the id has there (0: none); and the number up to which ids are settled."""

    group: Group
    question: Natural
    client: Name
    epoch: Ordinal
    number: Natural
    settled: Natural

    def check(self) -> None:
        check_named_group(self.group, "group")
        _check_name(self.client)


def _check_name(client: bytes) -> None:
    whole = len(client) == CLIENT_BYTES and (ticket_in(client) or is_by_id(client))
    if client and not whole:
        raise FrameError("client: it is neither of a producer nor of an id")


CopyFrame: TypeAlias = CopyWanted | CopyTold
