"""Every request of a client, for every subject, with every grant: allowed as docs/operations.md
says, or refused by name and counted."""

from itertools import product
from types import SimpleNamespace
from typing import cast, get_args

import pytest

from ordercast.core.epochs.grant_edits import why_not_granted
from ordercast.core.epochs.layout import Layout, nowhere
from ordercast.model.epochs import (
    AddGroup,
    AddProducer,
    AddSite,
    AddVoter,
    Edit,
    Grant,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveProducer,
    RemoveVoter,
    RetireSite,
    RevokeCertificate,
    UseBuilder,
    UseGrants,
    UseProtocol,
    Withdraw,
)
from ordercast.model.errors import Error, NotGranted
from ordercast.model.grants import ACTS, ClientSubject, Grants, grant_line
from ordercast.model.messages import CLIENT_BYTES
from ordercast.net.admin import frames
from ordercast.net.daemon.permits import admit
from ordercast.net.site.permits import MOST_COUNTED, Permits

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
    (frames.GrantsRequest(1), ["admin:*"]),
]  # fmt: skip

EDITS: list[tuple[tuple[Edit, ...], list[str]]] = [
    ((JoinGroup("alpha", "c"),), ["admin:alpha"]),
    ((LeaveGroup("alpha", "c"),), ["admin:alpha"]),
    ((AddGroup("alpha", ("a",)),), ["admin:alpha"]),
    ((RemoveGroup("alpha"),), ["admin:alpha"]),
    ((JoinGroup("alpha", "c"), JoinGroup("beta", "c")), ["admin:alpha", "admin:beta"]),
    ((JoinGroup("alpha", "c"), AddSite("q", "")), ["admin:alpha", "admin:*"]),
    ((AddProducer("p", "alpha"), RemoveGroup("beta")), ["send:alpha", "admin:beta"]),
    ((AddProducer("p", "alpha"),), ["send:alpha"]),
    ((AddProducer("+ids", "alpha"),), ["send:alpha"]),
    *(
        ((edit,), ["admin:*"])
        for edit in (
            AddSite("q", ""), RetireSite("a"), UseBuilder("star", "a"), UseProtocol("ring"),
            AddVoter("a"), RemoveVoter("a"), Grant("site:b", ("send:*",)), Withdraw("site:b"),
            UseGrants(()), RevokeCertificate("client:y", "ab" * 32), RemoveProducer("p", "alpha"),
        )
    ),
]  # fmt: skip
NEEDS += [(frames.Change(1, "c", edits), needs) for edits, needs in EDITS]


def expected(needs: list[str], grants: tuple[str, ...]) -> bool:
    if needs[:1] == ["some"]:
        return any(grant.split(":")[0] in needs[1:] for grant in grants)
    return all(need in grants or need.split(":")[0] + ":*" in grants for need in needs)


def test_every_kind_of_request_is_in_the_table() -> None:
    assert {type(frame) for frame, _ in NEEDS} == set(get_args(frames.ClientFrame))
    assert {type(edit) for edits, _ in EDITS for edit in edits} == set(get_args(Edit))


ONE = [(f"{act}:{group}",) for act in ACTS for group in GROUPS]
TWO = [(f"{act}:alpha", f"{act}:beta") for act in ACTS]


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_request_is_allowed_if_and_only_if_it_is_granted(subject: ClientSubject) -> None:
    for grants in ((), *ONE, *TWO):
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


def test_a_site_that_is_not_told_its_cluster_yet_refuses_other_sites_for_now_only() -> None:
    layout = nowhere(["a", "b"])
    permits = Permits("c", SimpleNamespace(layout=layout), Grants())
    with pytest.raises(Error, match="has not heard yet who is of the cluster") as found:
        permits.admit_client(ClientSubject("site", "b"))
    assert not isinstance(found.value, NotGranted)
    assert permits.refused["site:b", "connect"] == 1


def test_refusals_of_ever_new_subjects_are_all_counted() -> None:
    table = Grants(())
    layout = cast(Layout, SimpleNamespace(grants=table))
    permits = Permits("a", SimpleNamespace(layout=layout), table)
    for number in range(MOST_COUNTED + 50):
        with pytest.raises(NotGranted):
            admit(permits, ClientSubject("client", f"c{number}"), frames.Confirm(1, 1, 0))
    assert len(permits.refused) == MOST_COUNTED + 1
    assert permits.refused["others", "read"] == 50


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_the_manager_decides_a_change_if_and_only_if_it_is_granted(subject: ClientSubject) -> None:
    """A site is believed that some client of its own may send."""
    for mine, others in product(((), *ONE, *TWO), ("send", "read,observe,admin")):
        lines = [grant_line("client:another", others.split(","), "")]
        lines += [grant_line(str(subject), list(mine), "")] if mine else []
        layout = cast(Layout, SimpleNamespace(grants=Grants(tuple(lines))))
        believed = ("send:*",) if subject.kind == "site" and others == "send" else ()
        for edits, needs in EDITS:
            why_not = why_not_granted(layout, subject, edits)
            assert (why_not == "") == expected(needs, mine + believed), (edits, mine, why_not)
            assert not why_not or " has no grant " in why_not
