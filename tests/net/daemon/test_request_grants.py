"""Every request of a client, for every subject, with every grant: allowed as docs/operations.md
says, or refused by name and counted."""

from types import SimpleNamespace
from typing import cast, get_args

import pytest

from ordercast.core.epochs.layout import Layout
from ordercast.model.epochs import (
    AddProducer,
    AddSite,
    Grant,
    JoinGroup,
    RemoveProducer,
    RevokeCertificate,
)
from ordercast.model.errors import NotGranted
from ordercast.model.grants import ACTS, ClientSubject, Grants, grant_line
from ordercast.model.messages import CLIENT_BYTES
from ordercast.net.admin import frames
from ordercast.net.daemon.permits import admit
from ordercast.net.site.permits import Permits

SUBJECTS = (
    ClientSubject("socket", ""), ClientSubject("site", "b"), ClientSubject("client", "x"),
)  # fmt: skip
GROUPS = ("alpha", "beta", "*")

# What each request needs: all of a list; or, after "some", one of these acts for any group.
NEEDS: list[tuple[frames.ClientFrame, list[str]]] = [
    (frames.ClientHello(6, "local", "a", bytes(CLIENT_BYTES)), []),
    (frames.Send(1, "alpha", (), 1, b"", False, 0), ["send:alpha"]),
    (frames.Send(1, "", ("a", "b"), 1, b"", False, 0), ["send:*"]),
    (frames.Watch(1, "alpha", 1, 1), ["send:alpha"]),
    (frames.Produce(1, "alpha", 1, b"", "p", 1, 0), ["send:alpha"]),
    (frames.SendById(1, "alpha", 1, b"", "id", 1), ["send:alpha"]),
    (frames.IdMarkRequest(1, "alpha"), ["send:alpha"]),
    (frames.SendOnce(1, "alpha", 1, b"", 1, 0), ["send:alpha"]),
    (frames.SendListedOnce(1, "@x", 1, b"", 1, 0, ("a", "b"), False), ["send:*"]),
    (frames.Subscribe(1, None, False), ["some", "read"]),
    (frames.Subscribe(1, 1, True), ["some", "read", "observe"]),
    (frames.Credit(1, 1, 1, 0), []),  # of a subscription that was let in, and is looked at again
    (frames.Unsubscribe(1), []),
    (frames.Confirm(1, 1), ["read:*"]),
    (frames.StatusRequest(1), ["some", "read", "observe", "admin"]),
    (frames.TimesRequest(1, 1), ["some", "read", "observe"]),
    (frames.DigestRequest(1, "alpha", None, ""), ["read:alpha"]),
    (frames.Follow(1, "r", ("alpha",)), ["read:alpha"]),
    (frames.Follow(1, "r", ("alpha", "beta")), ["read:alpha", "read:beta"]),
    (frames.Follow(1, "r", None), ["some", "read"]),  # its groups are looked at when it is found
    (frames.ReadRange(1, "r", 1, 2), ["some", "read"]),
    (frames.ConfirmRead(1, 1, 1), []),  # of a reader that is followed
    (frames.ReaderReset(1, "r", None), ["admin:*"]),
    (frames.ReaderRemoval(1, "r"), ["admin:*"]),
    (frames.CopyRequest(1), ["admin:*"]),
    (frames.CopyPiece(1, 0), ["admin:*"]),
    (frames.Change(1, "c", (JoinGroup("alpha", "c"),)), ["admin:alpha"]),
    (
        frames.Change(1, "c", (JoinGroup("alpha", "c"), JoinGroup("beta", "c"))),
        ["admin:alpha", "admin:beta"],
    ),
    (frames.Change(1, "c", (AddSite("q", ""),)), ["admin:*"]),
    (frames.Change(1, "c", (Grant("site:b", ("send:*",)),)), ["admin:*"]),
    (frames.Change(1, "c", (RevokeCertificate("client:y", "ab" * 32),)), ["admin:*"]),
    (frames.Change(1, "c", (AddProducer("p", "alpha"),)), ["send:alpha"]),
    (frames.Change(1, "c", (RemoveProducer("p", "alpha"),)), ["admin:*"]),
]  # fmt: skip


def expected(needs: list[str], grants: tuple[str, ...]) -> bool:
    if needs[:1] == ["some"]:
        return any(grant.split(":")[0] in needs[1:] for grant in grants)
    return all(need in grants or need.split(":")[0] + ":*" in grants for need in needs)


def test_every_kind_of_request_is_in_the_table() -> None:
    assert {type(frame) for frame, _ in NEEDS} == set(get_args(frames.ClientFrame))


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_request_is_allowed_if_and_only_if_it_is_granted(subject: ClientSubject) -> None:
    one = [(f"{act}:{group}",) for act in ACTS for group in GROUPS]
    two = [(f"{act}:alpha", f"{act}:beta") for act in ACTS]
    for grants in ((), *one, *two):
        others = grant_line("client:another", ["send", "read", "observe", "admin"], "")
        mine = grant_line(str(subject), list(grants), "") if grants else None
        table = Grants((others, mine) if mine is not None else (others,))
        layout = cast(Layout, SimpleNamespace(grants=table))
        permits = Permits("a", SimpleNamespace(layout=layout), table)
        for frame, needs in NEEDS:
            before = permits.refused.total()
            if expected(needs, grants):
                admit(permits, subject, frame)
                assert permits.refused.total() == before, frame
                continue
            with pytest.raises(NotGranted, match=f"^{subject} has no grant "):
                admit(permits, subject, frame)
            assert permits.refused.total() == before + 1, frame
