"""The events of a store: the openings of epochs, rollbacks, and which of them a reader is told.

An event is (kind, position, detail); the kinds are those of a history, and `ABSENT`. The details
are JSON. The lists of openings and rollbacks say what a reader of the ordered log has yet to hear.
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.records import EpochOpened
from ordercast.core.epochs.returning import Rollback
from ordercast.history.rows import OPEN, ROLLBACK
from ordercast.model.messages import MessageId

ABSENT = "absent"  # the absent sites, and the absent members of the open epochs' groups
_OPENING_FIELDS = EpochOpened.__struct_fields__
_LAST_ROLLBACKS = 20  # so many are shown to an operator


def opening_event(opened: EpochOpened) -> tuple[str, int, str]:
    fields = {name: getattr(opened, name) for name in _OPENING_FIELDS if name != "position"}
    return OPEN, opened.position, json.dumps(fields, separators=(",", ":"))


def parse_opening(position: int, detail: str) -> EpochOpened:
    fields = json.loads(detail)
    values = [position if name == "position" else fields[name] for name in _OPENING_FIELDS]
    return msgspec.convert(values, EpochOpened)


def rollback_event(rolled: Rollback) -> tuple[str, int, str]:
    fields = {"attempt": rolled.attempt, "epoch": rolled.epoch, "annulled": rolled.annulled}
    return ROLLBACK, rolled.position, json.dumps(fields, separators=(",", ":"))


def parse_rollback(position: int, detail: str) -> Rollback:
    fields = json.loads(detail)
    annulled = tuple((at, MessageId(*message)) for at, message in fields["annulled"])
    return Rollback(position, fields["attempt"], fields["epoch"], annulled)


def founding_facts(layout: Layout) -> list[dict[str, Any]]:
    """The epochs that a cluster was founded with, for `Store.describe`. No event tells their
    opening."""
    return [
        {
            "epoch": epoch,
            "protocol": domain.protocol,
            "builder": domain.builder,
            "members": {group: list(sites) for group, sites in domain.structure.groups.items()},
        }
        for epoch, domain in layout.domains.items()
    ]


class OpenedEpochs:
    """The epochs that a site opened, in order: epochs grow, positions do not shrink."""

    def __init__(self, opened: Iterable[EpochOpened] = ()) -> None:
        self._opened = list(opened)
        self.last = self._opened[-1].epoch if self._opened else 0

    def add(self, opened: EpochOpened) -> bool:
        """Add an opening. Returns whether it is new: a restart repeats openings that the store
        has."""
        if opened.epoch <= self.last:
            return False
        self._opened.append(opened)
        self.last = opened.epoch
        return True

    def of(self, epoch: int) -> EpochOpened | None:
        for opened in reversed(self._opened):
            if opened.epoch == epoch:
                return opened
        return None

    def seen_by(self, read: int) -> int:
        """The last epoch that opened before position `read` was delivered. A reader that goes on
        after `read` is told the later ones, and those that opened exactly there."""
        for opened in reversed(self._opened):
            if opened.position < read:
                return opened.epoch
        return 0

    def after(self, epoch: int, read: int) -> list[EpochOpened]:
        """The openings to tell a reader that knows `epoch` and has read up to position `read`. An
        epoch that opened before `read` is not told: the reader began further on."""
        return [o for o in self._opened if o.epoch > epoch and o.position >= read]

    def until(self, epoch: int, read: int, rolled: Rollback) -> list[EpochOpened]:
        """The same before a rollback is told: only the epochs that were open when it happened."""
        return [o for o in self.after(epoch, read) if o.epoch <= rolled.epoch]


class RollbackLog:
    """The rollbacks of a site ([GS] §5.2.1), in order: attempts grow, positions need not.

    A reader knows the last attempt whose rollback it was told. It is told the next rollback when it
    has read up to the rollback's position or further: then it was given deliveries that are
    annulled.
    """

    def __init__(self, rolled: Iterable[Rollback] = ()) -> None:
        self._rolled = list(rolled)
        self.last = self._rolled[-1].attempt if self._rolled else 1

    def add(self, rolled: Rollback) -> bool:
        """Add a rollback. Returns whether it is new: a restart repeats rollbacks that the store
        has."""
        if rolled.attempt <= self.last:
            return False
        self._rolled.append(rolled)
        self.last = rolled.attempt
        return True

    def latest(self) -> list[tuple[int, int]]:
        """(attempt, position) of the last rollbacks."""
        return [(one.attempt, one.position) for one in self._rolled[-_LAST_ROLLBACKS:]]

    def seen_by(self, read: int) -> int:
        """The attempt of the delivery at a position. A reader that goes on after it is told the
        later rollbacks, and one to exactly this position."""
        return max((one.attempt for one in self._rolled if one.position < read), default=1)

    def due(self, attempt: int, read: int) -> Rollback | None:
        """The rollback to tell now to a reader that knows `attempt` and has read up to `read`."""
        if attempt == self.last:  # the common case
            return None
        for one in self._rolled:
            if one.attempt > attempt and one.position <= read:
                return one
        return None

    def limit(self, attempt: int) -> int | None:
        """The last position that still stands of the deliveries in this attempt. None: all
        stand."""
        return min((one.position for one in self._rolled if one.attempt > attempt), default=None)
