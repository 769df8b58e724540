"""What a site that is no member of a group asks a member about the group's clients.

The core knows nothing of these frames: they are between the drivers of two sites (docs/requests.md,
"Through a site that is no member"). They are sent only where the layout has adopted `outside`.
"""

from typing import TypeAlias

from ordercast.model.fields import Natural, Ordinal, Packed, check_named_group
from ordercast.model.groups import Group


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


ClientMarksFrame: TypeAlias = ClientMarksWanted | ClientMarksTold
