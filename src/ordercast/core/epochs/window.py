"""A member's own messages over all its epochs, as the one who sends them sees it."""

from typing import TYPE_CHECKING

from ordercast.model.groups import Group

if TYPE_CHECKING:
    from ordercast.core.epochs.member import Member


class Window:
    """Accepted and not stable, wherever it goes: engines come and go, this stays."""

    def __init__(self, member: "Member") -> None:
        self._member = member

    @property
    def unstable(self) -> int:
        return self.unstable_both()[0]

    @property
    def unstable_bytes(self) -> int:
        return self.unstable_both()[1]

    def unstable_both(self) -> tuple[int, int]:
        """Messages and bytes; asked for every batch that is sent."""
        messages = size = 0
        for engine in self._member.engines.values():
            messages += engine.own.unstable
            size += engine.own.unstable_bytes
        for batch in self._member.flush.waiting():
            messages += batch.count
            size += len(batch.body)
        return messages, size

    def last_seq(self, group: Group) -> int:
        """Given to this site's last message to the group, in any epoch."""
        member = self._member
        last = member.layout.lasts.get((member.name, member.incarnation, group), 0)
        for engine in member.engines.values():
            last = max(last, engine.own.last_seq.get(group, 0))
        for batch in member.flush.waiting():
            if batch.group == group:
                last = max(last, batch.seq + batch.count - 1)
        return last

    def stable_seq(self, group: Group) -> int:
        member = self._member
        last = member.layout.lasts.get((member.name, member.incarnation, group), 0)
        for engine in member.engines.values():
            last = max(last, engine.own.stable_seq(group))
        return last

    def groups(self) -> list[Group]:
        """All that this site has sent to."""
        member = self._member
        found = dict.fromkeys(
            group
            for origin, incarnation, group in member.layout.lasts
            if origin == member.name and incarnation == member.incarnation
        )
        for engine in member.engines.values():
            found.update(dict.fromkeys(engine.own.last_seq))
        found.update(dict.fromkeys(batch.group for batch in member.flush.waiting()))
        return list(found)
