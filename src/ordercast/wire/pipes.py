"""Pipes: bytes between two sites that do not reach each other, relayed by a site that both reach.

A pipe has a number on each of the two connections that carry it. The site whose name sorts first
opens pipes with odd numbers on a connection, the other one with even numbers. An end may send
PIPE_WINDOW bytes; then it waits until the other end makes room.
"""

from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from ordercast.model.fields import Ordinal, Packed, check_site, check_text
from ordercast.model.groups import Site
from ordercast.model.limits import PIPE_BYTES, PIPE_WINDOW


class PipeWanted(Packed, frozen=True, tag="W"):
    """The receiver is asked to join the sender to this site."""

    number: Ordinal
    site: Site

    def check(self) -> None:
        check_site(self.site, "site")


class PipeOffered(Packed, frozen=True, tag="O"):
    """This site wants to be joined to the receiver."""

    number: Ordinal
    site: Site

    def check(self) -> None:
        check_site(self.site, "site")


class PipeData(Packed, frozen=True, tag="B"):
    """Bytes of a pipe. A relay passes them on as they are."""

    number: Ordinal
    data: Annotated[bytes, Meta(min_length=1, max_length=PIPE_BYTES)]


class PipeRoom(Packed, frozen=True, tag="C"):
    """`count` bytes have been read: the receiver may send as many more."""

    number: Ordinal
    count: Annotated[int, Meta(ge=1, le=PIPE_WINDOW)]


class PipeEnd(Packed, frozen=True, tag="X"):
    """The pipe has ended, or was refused. `why` is empty where nothing is wrong."""

    number: Ordinal
    why: str

    def check(self) -> None:
        check_text(self.why, "why")


PipeFrame: TypeAlias = PipeWanted | PipeOffered | PipeData | PipeRoom | PipeEnd
PIPE_FRAMES: Final = (PipeWanted, PipeOffered, PipeData, PipeRoom, PipeEnd)
