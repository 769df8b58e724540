"""Epochs that a site opened, as events of its store; its application's stream has them in place."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.records import EpochOpened
from ordercast.core.epochs.returning import Rollback

OPEN = "open"  # the kind of event, as a history has it
_FIELDS = EpochOpened.__struct_fields__


def tell_opened(opened: EpochOpened) -> str:
    """As the detail of an event in the store, which has the position."""
    told = {name: getattr(opened, name) for name in _FIELDS if name != "position"}
    return json.dumps(told, separators=(",", ":"))


def open_event(opened: EpochOpened) -> tuple[str, int, str]:
    return OPEN, opened.position, tell_opened(opened)


def opened_told(position: int, detail: str) -> EpochOpened:
    told = json.loads(detail)
    values = [position if name == "position" else told[name] for name in _FIELDS]
    return msgspec.convert(values, EpochOpened)


def founding_told(layout: Layout) -> list[dict[str, Any]]:
    """The epochs that a cluster was founded with, for `Store.describe`: nothing opens them."""
    return [
        {
            "epoch": epoch,
            "protocol": domain.protocol,
            "builder": domain.builder,
            "members": {group: list(sites) for group, sites in domain.structure.groups.items()},
        }
        for epoch, domain in layout.domains.items()
    ]


class Openings:
    """In order: epochs grow, positions do not shrink."""

    def __init__(self, opened: Iterable[EpochOpened] = ()) -> None:
        self._opened = list(opened)
        self.last = self._opened[-1].epoch if self._opened else 0

    def add(self, opened: EpochOpened) -> bool:
        """Whether that is news: a restart repeats what the store has."""
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
        """The last epoch that opened before position `read` was delivered: a reader that goes on
        behind it is told the later ones, also one that stands exactly there."""
        for opened in reversed(self._opened):
            if opened.position < read:
                return opened.epoch
        return 0

    def after(self, epoch: int, read: int) -> list[EpochOpened]:
        """What a reader is to be told that knows `epoch` and stands behind position `read`: not
        what opened before that, where it began further on than the stream was then."""
        return [o for o in self._opened if o.epoch > epoch and o.position >= read]

    def until(self, epoch: int, read: int, rolled: Rollback) -> list[EpochOpened]:
        """The same before a rollback: what opened at the position that it goes back to, and was
        open already."""
        return [o for o in self.after(epoch, read) if o.epoch <= rolled.epoch]
