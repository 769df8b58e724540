"""Grants and revoked certificates in the layout: what the edits about them do, and which grants a
change needs (the argument is in docs/epochs.md, "Grants").

Such a change closes no epoch. It is done by the record that begins it.
"""

from collections.abc import Iterable
from dataclasses import replace

from ordercast.core.epochs.layout import Layout
from ordercast.model.epochs import (
    AddGroup,
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
    ClientSubject,
    grant_line,
    grants_told,
)
from ordercast.model.groups import Group

MOST_REVOKED = 4_096  # certificates

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
            f"certificates: {MOST_REVOKED} are revoked, which is the most: replace the authority"
        )
    return replace(layout, grants=grants, revoked=revoked)


def needed_for(edits: Iterable[Edit]) -> list[tuple[str, Group]]:
    """The grants that a change needs. What concerns no one group needs all of them."""
    return [(ADMIN, edit.group if isinstance(edit, _OF_GROUPS) else EVERY) for edit in edits]


def why_not_granted(layout: Layout, subject: ClientSubject, edits: Iterable[Edit]) -> str:
    """The grant that the subject lacks for a change; "": none. While the log has no table, the
    sites go by their files."""
    if layout.grants.lines is None:
        return ""
    try:
        for act, group in needed_for(edits):
            layout.grants.require(subject, act, group)
    except NotGranted as error:
        return str(error)
    return ""
