"""Grants and revoked certificates in the layout: what the edits about them do, and which grants a
change needs (the argument is in docs/epochs.md, "Grants").

Such a change closes no epoch. It is done by the record that begins it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ordercast.core.epochs.layout import Layout
from ordercast.core.senders import Senders, senders_by
from ordercast.model.epochs import (
    AddGroup,
    AddProducer,
    Edit,
    Grant,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RevokeCertificate,
    UseGrants,
    Withdraw,
)
from ordercast.model.errors import ConfigError, NotGranted
from ordercast.model.features import GRANTS
from ordercast.model.grants import (
    ADMIN,
    EVERY,
    SEND,
    SITE,
    ClientSubject,
    Grants,
    grant_line,
    grants_told,
)
from ordercast.model.groups import Group

MOST_REVOKED = 4_096  # certificates
MOST_WITHDRAWN = 1_000  # grants to send, of epochs that are open

_ABOUT_GRANTS = (Grant, Withdraw, UseGrants, RevokeCertificate)
_OF_GROUPS = (AddGroup, JoinGroup, LeaveGroup, RemoveGroup)


def about_grants(edits: Iterable[Edit]) -> bool:
    """Whether the change is one of grants or certificates, at least in part."""
    return any(isinstance(edit, _ABOUT_GRANTS) for edit in edits)


def granted(layout: Layout, edits: Iterable[Edit]) -> Layout:
    """The layout after edits of grants and certificates. Raises ConfigError if they are
    impossible."""
    if GRANTS not in layout.features:
        raise ConfigError("grants: not before every site runs a release that knows them in the log")
    grants, revoked, founds = layout.grants, dict(layout.revoked), False
    for edit in edits:
        if isinstance(edit, Grant):
            grants = grants.given(grant_line(edit.subject, list(edit.acts), "grants"))
        elif isinstance(edit, Withdraw):
            grants = grants.withdrawn(grant_line(edit.subject, list(edit.acts), "grants"))
        elif isinstance(edit, UseGrants):
            founds = grants.lines is None
            grants = grants_told(edit.lines) if founds else grants
        elif isinstance(edit, RevokeCertificate):
            revoked[edit.fingerprint] = edit.subject
        else:
            raise ConfigError("grants: they are changed by themselves, and nothing else with them")
    grants.require_room()
    if layout.grants.is_changeable() and not grants.is_changeable() and not founds:
        raise ConfigError(f"grants: nobody would have {ADMIN}:{EVERY}, to change them again")
    if len(revoked) > MOST_REVOKED:
        raise ConfigError(
            f"certificates: {MOST_REVOKED:,} are revoked, which is the most: replace the authority"
        )
    first = founds and all(not domain.after for domain in layout.domains.values())
    withdrawn = layout.withdrawn if first else _withdrawn(layout, grants)
    return replace(layout, grants=grants, revoked=revoked, withdrawn=withdrawn)


def _withdrawn(layout: Layout, grants: Grants) -> dict[tuple[str, str], int]:
    """The grants to send that are gone, and the last epoch that was open when they went."""
    oldest, now = min(layout.domains, default=0), grants.sends()
    found = {
        pair: epoch
        for pair, epoch in layout.withdrawn.items()
        if epoch >= oldest and pair not in now
    }
    found |= dict.fromkeys((p for p in layout.grants.sends() if p not in now), layout.last_epoch)
    return found if len(found) <= MOST_WITHDRAWN else {(EVERY, EVERY): layout.last_epoch}


def senders_in(layout: Layout, epoch: int) -> Senders | None:
    """Who may send in the epoch. None: every site, to every group."""
    before = [pair for pair, upto in layout.withdrawn.items() if upto >= epoch]
    return senders_by([*layout.grants.sends(), *before])


def needed_for(edits: Iterable[Edit]) -> list[tuple[str, Group]]:
    """The grants that a change needs. Who may send to a group may be a producer there. An edit of
    no single group needs a grant for all groups."""
    return [
        (SEND, edit.group)
        if isinstance(edit, AddProducer)
        else (ADMIN, edit.group if isinstance(edit, _OF_GROUPS) else EVERY)
        for edit in edits
    ]


def why_not_granted(layout: Layout, subject: ClientSubject, edits: Iterable[Edit]) -> str:
    """The grant that the subject lacks for a change; "": none. While the log has no table, the
    sites go by their files."""
    if layout.grants.lines is None:
        return ""
    try:
        for act, group in needed_for(edits):
            if act == SEND and subject.kind == SITE:  # it may ask for its socket, or its clients
                senders = senders_by(layout.grants.sends())
                if senders is not None:
                    senders.require(subject.name, group, ())
            else:
                layout.grants.require(subject, act, group)
    except NotGranted as error:
        return str(error)
    return ""


class EpochSenders:
    """State: who may send in each epoch, by the grants of the layout that was asked about last."""

    def __init__(self) -> None:
        self._grants: Grants | None = None
        self._withdrawn: Mapping[tuple[str, str], int] | None = None
        self._known: dict[int, Senders | None] = {}

    def are_new(self, layout: Layout) -> bool:
        """Whether this layout has other grants."""
        return layout.grants is not self._grants or layout.withdrawn is not self._withdrawn

    def of(self, layout: Layout, epoch: int) -> Senders | None:
        if layout.grants is not self._grants or layout.withdrawn is not self._withdrawn:
            self._grants, self._withdrawn, self._known = layout.grants, layout.withdrawn, {}
        if epoch not in self._known:
            if len(self._known) > len(layout.domains):
                self._known = {e: one for e, one in self._known.items() if e in layout.domains}
            self._known[epoch] = senders_in(layout, epoch)
        return self._known[epoch]
