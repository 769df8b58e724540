"""What the clients of a daemon may do: every request of theirs is admitted here, or refused.

A session has a subject, and a request is an act with groups. Refusals are counted for operators.
"""

from collections import Counter
from collections.abc import Iterable

from ordercast.model.epochs import AddGroup, Edit, JoinGroup, LeaveGroup, RemoveGroup
from ordercast.model.errors import NotGranted
from ordercast.model.grants import ADMIN, EVERY, OBSERVE, READ, SEND, ClientSubject, Grants
from ordercast.model.groups import Group
from ordercast.net.admin.frames import (
    Change,
    ClientFrame,
    Confirm,
    DigestRequest,
    Follow,
    Produce,
    ReaderRemoval,
    ReaderReset,
    ReadRange,
    Send,
    StatusRequest,
    Subscribe,
    Watch,
)

MOST_COUNTED = 1_000  # pairs of subject and act

_OF_GROUPS = (AddGroup, JoinGroup, LeaveGroup, RemoveGroup)


class Permits:
    def __init__(self, grants: Grants) -> None:
        self.grants = grants
        self.refused: Counter[tuple[str, str]] = Counter()  # by subject and act

    def admit(self, subject: ClientSubject, frame: ClientFrame) -> None:
        """Raise NotGranted unless the subject may ask for this."""
        for act, group in _asked(frame):
            self._require(subject, act, group)
        some = _some(frame)
        if some and not self.grants.allows_some(subject, some):
            self._require(subject, some[0], EVERY)

    def admit_client(self, subject: ClientSubject) -> None:
        """Raise NotGranted unless there is anything that the subject may do."""
        if not self.grants.allows_some(subject):
            self._count(subject, "connect")
            raise NotGranted(f"{subject} has no grant (in the cluster file, under [grants])")

    def admit_reader(self, subject: ClientSubject, groups: Iterable[Group] | None) -> None:
        """Raise NotGranted unless the subject may read all groups of a named reader (None: all):
        who follows it confirms for everybody."""
        for group in (EVERY,) if groups is None else sorted(groups):
            self._require(subject, READ, group)

    def may_read(self, subject: ClientSubject, observe: bool, group: Group) -> bool:
        """Whether messages of the group are for this reader. Who may read may also look on."""
        allows = self.grants.allows
        return allows(subject, READ, group) or (observe and allows(subject, OBSERVE, group))

    def _require(self, subject: ClientSubject, act: str, group: Group) -> None:
        try:
            self.grants.require(subject, act, group)
        except NotGranted:
            self._count(subject, act)
            raise

    def _count(self, subject: ClientSubject, act: str) -> None:
        key = (str(subject), act)
        if key in self.refused or len(self.refused) < MOST_COUNTED:
            self.refused[key] += 1


def _asked(frame: ClientFrame) -> Iterable[tuple[str, Group]]:
    """The grants that a request needs. What concerns the site as a whole needs all groups: a
    position that is confirmed is confirmed for all readers of the site, and a list of sites is
    nobody's group."""
    if isinstance(frame, Send):
        return [(SEND, EVERY if frame.sites else frame.group)]
    if isinstance(frame, Watch | Produce):
        return [(SEND, frame.group)]
    if isinstance(frame, Confirm):
        return [(READ, EVERY)]
    if isinstance(frame, DigestRequest):
        return [(READ, frame.group)]
    if isinstance(frame, Follow):
        return [(READ, group) for group in frame.groups or ()]
    if isinstance(frame, ReaderReset | ReaderRemoval):
        return [(ADMIN, EVERY)]
    if isinstance(frame, Change):
        return [(ADMIN, _changed(edit)) for edit in frame.edits]
    return ()


def _some(frame: ClientFrame) -> tuple[str, ...]:
    """Acts of which one must be granted for some group. A reader gets the messages of the groups
    that it may read, and whoever reads or changes the cluster must be able to ask how it is."""
    if isinstance(frame, Subscribe):
        return (OBSERVE, READ) if frame.observe else (READ,)
    if isinstance(frame, Follow | ReadRange):
        return (READ,)
    return (OBSERVE, READ, ADMIN) if isinstance(frame, StatusRequest) else ()


def _changed(edit: Edit) -> Group:
    return edit.group if isinstance(edit, _OF_GROUPS) else EVERY
