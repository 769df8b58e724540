"""Slow members (`slow_member = "exclude"`): a site's own messages wait for them for too long.

A message that is not stable waits for some sites (`holders`). If the oldest one stays the same for
several timeouts of a silent site, these sites are named to the manager, which excludes one of them
at a time.
"""

from typing import Protocol, TypeAlias

from ordercast.core.engine import Engine
from ordercast.core.epochs.layout import Layout
from ordercast.core.observation import holders
from ordercast.model.groups import Group, Site
from ordercast.model.options import Options

_PATIENCE = 4  # times the timeout of a silent site

Oldest: TypeAlias = tuple[int, Group, int]


class _Member(Protocol):
    """The member whose messages wait."""

    name: Site
    now: int
    options: Options
    layout: Layout
    engines: dict[int, Engine]


class Slowness:
    """State: the oldest own message that is not stable, and since when it is the oldest."""

    def __init__(self, member: _Member, *, excludes: bool) -> None:
        self._member = member
        self._excludes = excludes
        self._oldest: dict[int, tuple[Oldest, int]] = {}  # by epoch

    def named(self) -> tuple[Site, ...]:
        member = self._member
        if member.options.slow_member != "exclude" or not self._excludes:
            return ()
        before, self._oldest = self._oldest, {}
        found: dict[Site, None] = {}
        for epoch, engine in member.engines.items():
            own = engine.own
            if not engine.epoch_state.places or not (own.unstable and own.kept):
                continue
            first = own.kept[0]
            oldest: Oldest = (epoch, first.group, own.stable_seq(first.group))
            same, since = before.get(epoch, (oldest, member.now))
            self._oldest[epoch] = (oldest, since if same == oldest else member.now)
            if member.now - self._oldest[epoch][1] > _PATIENCE * member.options.timing.suspect:
                found.update(dict.fromkeys(holders(engine)))
        found.pop(member.name, None)
        return tuple(found)

    def awaited(self) -> tuple[Site, ...]:
        """Origins outside this site's domain that it waits to hear from. They cannot be
        excluded."""
        home = self._member.layout.home(self._member.name)
        if home is None or not self._excludes:
            return ()
        engine = self._member.engines[home.epoch]
        waits = (
            engine.direct.awaited()
            if engine.direct is not None and engine.epoch_state.works
            else ()
        )
        return tuple(site for site in waits if site not in home.sites)
