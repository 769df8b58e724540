"""Which grants the requests of a daemon's clients need. A session has a subject, and a request is
an act with groups."""

from collections.abc import Iterable

from ordercast.core.epochs.grant_edits import needed_for
from ordercast.model.grants import ADMIN, EVERY, OBSERVE, READ, SEND, ClientSubject
from ordercast.model.groups import Group
from ordercast.net.admin.frames import (
    Change,
    ClientFrame,
    Confirm,
    CopyPiece,
    CopyRequest,
    DigestRequest,
    Follow,
    GrantsRequest,
    IdMarkRequest,
    Produce,
    ReaderRemoval,
    ReaderReset,
    ReadRange,
    Send,
    SendById,
    SendListedOnce,
    SendOnce,
    StatusRequest,
    Subscribe,
    TimesRequest,
    Watch,
)
from ordercast.net.site.permits import Permits


def admit(permits: Permits, subject: ClientSubject, frame: ClientFrame) -> None:
    """Raise NotGranted unless the subject may ask for this."""
    for act, group in _asked(frame):
        permits.require(subject, act, group)
    if some := _some(frame):
        permits.require_some(subject, some)


def _asked(frame: ClientFrame) -> Iterable[tuple[str, Group]]:
    """The grants that a request needs. A request about the site as a whole needs all groups: a
    position that is confirmed is confirmed for all readers of the site, a list of sites is no named
    group, and a store has the messages of all groups."""
    if isinstance(frame, SendListedOnce):
        return [(SEND, EVERY)]
    if isinstance(frame, Send):
        return [(SEND, EVERY if frame.sites else frame.group)]
    if isinstance(frame, Watch | Produce | SendById | SendOnce | IdMarkRequest):
        return [(SEND, frame.group)]
    if isinstance(frame, Confirm):
        return [(READ, EVERY)]
    if isinstance(frame, DigestRequest):
        return [(READ, frame.group)]
    if isinstance(frame, Follow):
        return [(READ, group) for group in frame.groups or ()]
    if isinstance(frame, ReaderReset | ReaderRemoval | CopyRequest | CopyPiece | GrantsRequest):
        return [(ADMIN, EVERY)]
    if isinstance(frame, Change):
        return needed_for(frame.edits)
    return ()


def _some(frame: ClientFrame) -> tuple[str, ...]:
    """Acts of which one must be granted for some group. A reader gets the messages of the groups
    that it may read. Everybody who reads or changes the cluster may ask for its status."""
    if isinstance(frame, Subscribe):
        return (OBSERVE, READ) if frame.observe else (READ,)
    if isinstance(frame, Follow | ReadRange):
        return (READ,)
    if isinstance(frame, TimesRequest):
        return (OBSERVE, READ)
    return (OBSERVE, READ, ADMIN) if isinstance(frame, StatusRequest) else ()
