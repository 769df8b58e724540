"""Changes asked for at this site. The voters are told of each until the records have its
outcome."""

from ordercast.core.epochs.layout import Layout
from ordercast.model.epochs import Edit
from ordercast.model.options import MILLISECOND, NEVER
from ordercast.wire.epochs import ChangeRequest

_AGAIN = 200 * MILLISECOND


class Wishes:
    """`outcomes`: the names of decided changes, each with "" if it is done, else why not."""

    def __init__(self) -> None:
        self.asked: dict[str, tuple[Edit, ...]] = {}
        self.outcomes: list[tuple[str, str]] = []
        self.alarm_at = NEVER

    def want(self, now: int, change: str, edits: tuple[Edit, ...], layout: Layout) -> None:
        self.asked[change] = edits
        self.alarm_at = now
        self.answer(layout)

    def answer(self, layout: Layout) -> None:
        for change in [change for change in self.asked if change in layout.outcomes]:
            del self.asked[change]
            self.outcomes.append((change, layout.outcomes[change]))

    def due(self, now: int) -> list[ChangeRequest]:
        """The requests to tell the voters now."""
        if not self.asked:
            self.alarm_at = NEVER
        elif now >= self.alarm_at:
            self.alarm_at = now + _AGAIN
            return [ChangeRequest(change, edits) for change, edits in self.asked.items()]
        return []
