"""Deliveries that were taken back ([GS] §5.2.1): as events of a store, and in place in a stream.

A reader knows the last attempt whose rollback it was told, or need not be. It is told the next one
when it stands at the rollback's position, or beyond it: then it was given what is annulled.
"""

import json
from collections.abc import Iterable

from ordercast.core.epochs.returning import Rollback
from ordercast.model.messages import MessageId

ROLLBACK, EXCLUDED, RETURNED = "rollback", "excluded", "returned"  # kinds, as a history has them
_TOLD = 20


def rollback_event(rolled: Rollback) -> tuple[str, int, str]:
    told = {"attempt": rolled.attempt, "epoch": rolled.epoch, "annulled": rolled.annulled}
    return ROLLBACK, rolled.position, json.dumps(told, separators=(",", ":"))


def rollback_told(position: int, detail: str) -> Rollback:
    told = json.loads(detail)
    annulled = tuple((at, MessageId(*message)) for at, message in told["annulled"])
    return Rollback(position, told["attempt"], told["epoch"], annulled)


class Rollbacks:
    """In order: attempts grow, positions need not."""

    def __init__(self, rolled: Iterable[Rollback] = ()) -> None:
        self._rolled = list(rolled)
        self.last = self._rolled[-1].attempt if self._rolled else 1

    def add(self, rolled: Rollback) -> bool:
        """Whether that is news: a restart repeats what the store has."""
        if rolled.attempt <= self.last:
            return False
        self._rolled.append(rolled)
        self.last = rolled.attempt
        return True

    def told(self) -> list[tuple[int, int]]:
        return [(one.attempt, one.position) for one in self._rolled[-_TOLD:]]

    def seen_by(self, read: int) -> int:
        """The attempt of what stands at a position now: who goes on behind it is told of later
        ones, also if it stands exactly where one went back to."""
        return max((one.attempt for one in self._rolled if one.position < read), default=1)

    def due(self, attempt: int, read: int) -> Rollback | None:
        """What a reader of this attempt that has come to `read` is to be told now."""
        if attempt == self.last:  # the common case
            return None
        for one in self._rolled:
            if one.attempt > attempt and one.position <= read:
                return one
        return None

    def limit(self, attempt: int) -> int | None:
        """Up to where what was seen in this attempt still stands; None: all of it."""
        return min((one.position for one in self._rolled if one.attempt > attempt), default=None)
