"""Fields of what travels between sites: their types, and the checks that a type cannot express.

The decoder checks what an annotation says: ranges of numbers, lengths. A name, a relation between
two fields and a total are checked afterwards, by the `check` of the struct that has them. Such a
check raises FrameError in one line that begins with the field; the struct around it puts its own
field in front.
"""

import re
from collections.abc import Iterable, Sized
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from ordercast.model.errors import FrameError
from ordercast.model.limits import LARGEST_NUMBER, MEMBERS, NAMES_KEPT, TEXT
from ordercast.model.names import NAME_PATTERN

Ordinal: TypeAlias = Annotated[int, Meta(ge=1, le=LARGEST_NUMBER)]
"""A number that begins at 1: a seq, an epoch, a place."""
Natural: TypeAlias = Annotated[int, Meta(ge=0, le=LARGEST_NUMBER)]
"""A count, or a number where 0 means none."""
StoreNumber: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""The number of a store: 63 random bits. Nobody counts on from it, so it may be above others."""

IMPLICIT_PATTERN: Final = re.compile(r"@[0-9a-f]{16}", re.ASCII)
KNOWN_NAMES: Final[set[str]] = set()
"""Right names seen lately. To look into a set is ten times quicker than to match a pattern."""
_SHOWN = 64  # characters of a wrong value that a message repeats


class Packed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Data that is encoded as an array: its tag, if it has one, then its fields in order."""

    def check(self) -> None:
        """Raise FrameError unless the rules hold that the fields' types do not express."""


def check_each(parts: Iterable[Packed], field: str) -> None:
    for place, part in enumerate(parts):
        try:
            part.check()
        except FrameError as error:
            raise FrameError(f"{field}[{place}].{error}") from None


def check_length(value: Sized, least: int, most: int, field: str) -> None:
    if not least <= len(value) <= most:
        raise FrameError(f"{field} has {len(value):,} entries, not {least:,} to {most:,}")


def check_text(text: str, field: str, least: int = 0) -> None:
    if not least <= len(text) <= TEXT:
        raise FrameError(f"{field}: a text of {len(text):,} characters, not {least:,} to {TEXT:,}")
    if not (text.isascii() and text.isprintable()):
        raise FrameError(f"{field}: {text[:_SHOWN]!a} is not printable ASCII")


def plain_text(text: str) -> str:
    """The text as `check_text` lets it pass."""
    return ascii(text)[1:-1][:TEXT] if not (text.isascii() and text.isprintable()) else text[:TEXT]


# --- names ----------------------------------------------------------------------------------------


def check_site(name: str, field: str) -> None:
    if name not in KNOWN_NAMES and not _is_name(name):
        raise FrameError(f"{field}: {_shown(name)} is not a site's name")


def check_sites(names: Iterable[str], field: str) -> None:
    for name in names:
        if name not in KNOWN_NAMES:
            check_site(name, field)


def check_group(name: str, field: str) -> None:
    """The name of a group, or of an implicit one."""
    if name not in KNOWN_NAMES and not _is_name(name) and IMPLICIT_PATTERN.fullmatch(name) is None:
        raise FrameError(f"{field}: {_shown(name)} is not a group's name")


def check_named_group(name: str, field: str) -> None:
    check_group(name, field)
    if name.startswith("@"):
        raise FrameError(f"{field}: {name!r} is a list of sites, not a group")


def check_destination(group: str, members: tuple[str, ...], field: str) -> None:
    """A named group; or, where members are listed, the implicit group."""
    if not members:
        if group not in KNOWN_NAMES and not _is_name(group):
            raise FrameError(f"{field}: {_shown(group)} is not a group's name")
        return
    if IMPLICIT_PATTERN.fullmatch(group) is None:
        raise FrameError(f"{field}: members are listed, but {_shown(group)} is not implicit")
    check_length(members, 0, MEMBERS, f"{field}: members")
    check_sites(members, f"{field}: members")


def _is_name(name: str) -> bool:
    if NAME_PATTERN.fullmatch(name) is None:
        return False
    if len(KNOWN_NAMES) >= NAMES_KEPT:
        KNOWN_NAMES.clear()
    KNOWN_NAMES.add(name)
    return True


def _shown(name: str) -> str:
    return repr(name) if len(name) <= _SHOWN else repr(name[:_SHOWN]) + "…"
