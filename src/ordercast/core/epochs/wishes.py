"""Changes asked for at this site. The voters are told of each until the records have its
outcome."""

from ordercast.core.epochs.layout import Layout
from ordercast.model.epochs import Edit
from ordercast.model.features import GRANTS
from ordercast.model.grants import SITE, ClientSubject
from ordercast.model.groups import Site
from ordercast.model.options import MILLISECOND, NEVER
from ordercast.wire.epochs import ChangeRequest, ClientChange

_AGAIN = 200 * MILLISECOND


class Wishes:
    """`outcomes`: the names of decided changes, each with "" if it is done, else why not. A change
    that a client of the site's daemon wants has the subject of the client."""

    def __init__(self, site: Site) -> None:
        self._own = ClientSubject(SITE, site)
        self.asked: dict[str, tuple[tuple[Edit, ...], ClientSubject]] = {}
        self.outcomes: list[tuple[str, str]] = []
        self.alarm_at = NEVER

    def want(
        self, now: int, change: str, edits: tuple[Edit, ...], subject: ClientSubject | None,
        layout: Layout,
    ) -> None:  # fmt: skip
        self.asked[change] = edits, subject or self._own
        self.alarm_at = now
        self.answer(layout)

    def answer(self, layout: Layout) -> None:
        for change in [change for change in self.asked if change in layout.outcomes]:
            del self.asked[change]
            self.outcomes.append((change, layout.outcomes[change]))

    def due(self, now: int, layout: Layout) -> list[ChangeRequest | ClientChange]:
        """The requests to tell the voters now."""
        if not self.asked:
            self.alarm_at = NEVER
        elif now >= self.alarm_at:
            self.alarm_at = now + _AGAIN
            names = GRANTS in layout.features
            return [
                ClientChange(change, edits, str(subject))
                if names and subject != self._own
                else ChangeRequest(change, edits)
                for change, (edits, subject) in self.asked.items()
            ]
        return []
