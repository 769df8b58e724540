"""What a site that is no member of a group asks a member about the group's clients.

The core knows nothing of these frames: they are between the drivers of two sites (docs/requests.md,
"Through a site that is no member"). They are sent only where the layout has adopted `outside`.
"""

from typing import TypeAlias

from ordercast.model.errors import FrameError
from ordercast.model.fields import (
    Natural,
    Ordinal,
    Packed,
    check_destination,
    check_group,
    check_named_group,
)
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import implicit_group, is_implicit


class ClientMarksWanted(Packed, frozen=True, tag="G"):
    """A question about the group. No two questions of a site have the same number."""

    group: Group
    question: Natural

    def check(self) -> None:
        check_named_group(self.group, "group")


class ClientMarksTold(Packed, frozen=True, tag="H"):
    """The answer: the epoch in which the sender is, the mark that clients may stamp with (0: none),
    and the horizon of its window now."""

    group: Group
    question: Natural
    epoch: Ordinal
    mark: Natural
    horizon: Natural

    def check(self) -> None:
        check_named_group(self.group, "group")


class ListMarksWanted(Packed, frozen=True, tag="V"):
    """As `ClientMarksWanted`, about a list of sites, where the layout has adopted `lists`."""

    group: Group
    question: Natural
    members: tuple[Site, ...]

    def check(self) -> None:
        check_destination(self.group, self.members, "group")
        if implicit_group(self.members) != self.group:
            raise FrameError(f"group: {self.group!r} is not the name of its list of sites")


class ListMarksTold(Packed, frozen=True, tag="Y"):
    """As `ClientMarksTold`, of a list of sites."""

    group: Group
    question: Natural
    epoch: Ordinal
    mark: Natural
    horizon: Natural

    def check(self) -> None:
        if not is_implicit(self.group):
            raise FrameError(f"group: {self.group!r} is no list of sites")
        check_group(self.group, "group")


Asked: TypeAlias = ClientMarksWanted | ListMarksWanted
Answered: TypeAlias = ClientMarksTold | ListMarksTold
ClientMarksFrame: TypeAlias = Asked | Answered
