"""Features: what newer programs put into messages and records, and older programs cannot read.

A site uses a feature only when the layout has adopted it. It is adopted when every site of the
roster has a program that knows it (the argument is in docs/epochs.md). What travels through third
sites, or is read from stores later, changes its form only with a feature.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ordercast.model.errors import FrameError

BYGONE: Final = "bygone"
CORES: Final = "cores"
GRANTS: Final = "grants"
HEADERS: Final = "headers"
IDS: Final = "ids"
LISTS: Final = "lists"
MARKS: Final = "marks"
OUTCOMES: Final = "outcomes"
OUTSIDE: Final = "outside"
PRODUCERS: Final = "producers"
REPEATS: Final = "repeats"

FEATURES: Final[dict[str, str]] = {
    BYGONE: "of a retired site's streams the layout keeps two numbers",
    CORES: "the protocol hybrid:N, with a core of N sites",
    GRANTS: "grants and revoked certificates in the voters' log; who asks for a change",
    HEADERS: "messages have headers, the time of sending, and the groups they are addressed to",
    MARKS: "the protocol hybrid:N:M, with arrow groups of M sites below its core",
    IDS: "of several copies of a message with an id the first in the log is delivered",
    LISTS: "requests to listed sites, or to several groups, are recognised as those to a group",
    OUTCOMES: "sites ask members of a group what became of a producer's message, or of an id",
    OUTSIDE: "sites ask members of a group about its clients, and take their requests too",
    REPEATS: "a client's request is recognised by its group, at whichever member it is repeated",
    PRODUCERS: "of several copies of a producer's message the first in the log is delivered",
}
"""The features of this program: name, and its meaning in half a line."""

MOST_FEATURES: Final = 64  # names in a layout, a record, a frame or a hello
FEATURE_CHARACTERS: Final = 32  # of a name


def known_features() -> tuple[str, ...]:
    """The names of all features that this program has."""
    return tuple(sorted(FEATURES))


def are_features(names: Sequence[str]) -> bool:
    """Whether these can be names of features, of this program or of a newer one."""
    return len(names) <= MOST_FEATURES and all(
        0 < len(name) <= FEATURE_CHARACTERS and name.isascii() and name.isprintable()
        for name in names
    )


def check_features(names: Sequence[str]) -> None:
    """Raise FrameError unless these can be names of features."""
    if not are_features(names):
        raise FrameError(
            f"features: at most {MOST_FEATURES:,} names of 1 to {FEATURE_CHARACTERS:,} characters"
        )


def lacking(used: Iterable[str], has: Sequence[str]) -> tuple[str, ...]:
    """The features in use that a program does not have."""
    return tuple(name for name in used if name not in has)
