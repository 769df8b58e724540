"""An engine by itself: messages of its application, admitted as a member would, in one epoch."""

from collections.abc import Sequence
from typing import Any, cast

from ordercast.core.engine import Engine
from ordercast.core.epochs.admission import Admission, Origin, Reservation
from ordercast.model.implicit import implicit_group


class _Alone:
    """What admission asks of a member, answered from one engine; also its window and layout."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name, self.options = engine.name, engine.options
        self.window = self.layout = self
        self.lasts: dict[str, int] = {}
        self.features = ()

    def unstable_both(self) -> tuple[int, int]:
        return self.engine.own.unstable, self.engine.own.unstable_bytes

    def require_stream(self, group: str, members: Sequence[str]) -> None:
        """There is room for all."""

    def require_past(self) -> None:
        self.engine.own.require_past(self.name)

    def next_seq(self, group: str) -> int:
        return self.engine.own.last_seq.get(group, 0) + 1

    def accept(self, now: int, batch: Reservation) -> bool:
        group, members = batch.group, batch.members
        if not self.engine.may_accept(group, members):
            return False
        self.engine.accept(now, group, members, batch.seq, len(batch.payloads), batch.body())
        return True


def submit(engine: Engine, now: int, group: str, payloads: list[bytes]) -> int:
    """The batch's first seq. Nothing but the time is changed when this raises."""
    engine.structure.members(group)
    return _submit(engine, now, group, (), payloads)


def submit_to(
    engine: Engine, now: int, sites: Sequence[str], payloads: list[bytes]
) -> tuple[str, int]:
    """The same for listed sites: (group name, first seq)."""
    group = implicit_group(members := engine.structure.listed(sites))
    engine.structure.primary(group, members)
    return group, _submit(engine, now, group, members, payloads)


def _submit(
    engine: Engine, now: int, group: str, members: tuple[str, ...], payloads: list[bytes]
) -> int:
    engine.now, engine.stirred = now, True
    around: Any = _Alone(engine)
    return Admission(cast(Origin, around)).submit(now, group, members, payloads)
