"""The lines that operators want in a daemon's log: excluded sites, and the causes of delay here.

The site is looked at every half second, and each change is logged once: the log grows with events,
not with time. Links that come and go are only reported as events, because the transport logs them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from ordercast.net.site.named_readers import WARN, reader_warnings
from ordercast.net.site.running_site import RunningSite
from ordercast.net.site.status import held_by

_log = logging.getLogger("ordercast.net.daemon")

_EVERY_S = 0.5
_STUCK_LOOKS = 10  # looks in a row that find a window full; then it is logged
_FULL = 0.9  # part of a limit that counts as full: what is left is smaller than any batch


class OperatorLog:
    """Compares the site with its state at the last look. `tell` is called with the events."""

    def __init__(self, site: RunningSite, tell: Callable[[str, dict[str, Any]], None]) -> None:
        self.site = site
        self.tell = tell
        self._links: dict[str, bool] = {}
        self._holding = False
        self._failed = False
        self._near: set[str] = set()  # named readers that are near their limit
        self._full = 0
        self._standing = ""
        self._away: dict[str, int] = {}
        self._refused = 0  # the last epoch whose forest was refused
        self._attempt = site.stream.attempt
        self._incarnation = site.incarnation
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_EVERY_S, self._look)
        self._look_at_links()
        self._look_at_store()
        self._look_at_reader()
        self._look_at_named_readers()
        self._look_at_window()
        self._look_at_standing()
        self._look_at_rollbacks()
        self._look_at_forest()

    def _look_at_forest(self) -> None:
        """Report an epoch that has another forest and protocol than were asked for."""
        home = self.site.core.layout.home(self.site.site)
        if home is not None and home.refused and home.epoch != self._refused:
            self._refused = home.epoch
            _log.warning("epoch %d: %s orders everything: %s", home.epoch, home.root, home.refused)
            self.tell("forest", {"epoch": home.epoch, "refused": home.refused})

    def _look_at_standing(self) -> None:
        """Report whether this site takes part, and which sites of the cluster are excluded."""
        site = self.site
        if not site.presence.excludes:
            return
        standing = site.presence.state()
        if standing != self._standing:
            before, self._standing = self._standing, standing
            if before:  # at the start no site is there yet
                say = _log.info if standing in ("present", "flushing") else _log.warning
                say("this site: %s%s", standing, _because(site.presence.why_not()))
                self.tell("standing", {"standing": standing})
        away = dict(site.core.layout.absent)
        if away != self._away:
            gone = [name for name in away if name not in self._away]
            back = [name for name in self._away if name not in away]
            self._away = away
            if gone:
                _log.warning("excluded: %s", ", ".join(gone))
            if back:
                _log.info("back: %s", ", ".join(back))
            self.tell("excluded", {"sites": sorted(away)})

    def _look_at_rollbacks(self) -> None:
        """Report deliveries that were taken back, and a past that was lost with the store."""
        if self.site.incarnation != self._incarnation:
            self._incarnation = self.site.incarnation
            _log.warning(
                "this site came without its store: it has no past, and is incarnation %d now",
                self._incarnation,
            )
        stream = self.site.stream
        before, self._attempt = self._attempt, stream.attempt
        for attempt, position in stream.rolled_back():
            if attempt > before:
                _log.warning("rolled back: what was delivered behind %d never happened", position)
                self.tell("rollback", {"position": position, "attempt": attempt})

    def _look_at_links(self) -> None:
        for link in self.site.transport.links():
            up = link.state == "connected"
            before = self._links.get(link.peer)
            if before is up or (before is None and not up):
                continue
            self._links[link.peer] = up
            self.tell("link", {"peer": link.peer, "up": up, "error": link.last_error})

    def _look_at_store(self) -> None:
        failed = self.site.store.failed
        if (failed is not None) is self._failed:
            return
        self._failed = failed is not None
        if failed is not None:
            _log.error("store: %s; nothing more is acknowledged until it works again", failed)
        else:
            _log.info("store: works again")
        self.tell("store", {"failed": str(failed) if failed is not None else None})

    def _look_at_reader(self) -> None:
        stream = self.site.stream
        if stream.holding is self._holding:
            return
        self._holding = stream.holding
        if stream.holding:
            _log.warning("the application is %d messages behind: others wait for it", stream.lag)
        else:
            _log.info("the application has caught up")
        self.tell("reader", {"holding": stream.holding, "lag": stream.lag})

    def _look_at_named_readers(self) -> None:
        """Report readers that come near their limit, and those that are well again."""
        told = self.site.named.status()
        near = {name for name, each in told.items() if each["limit_used"] >= WARN}
        if near == self._near:
            return
        for line in reader_warnings({name: told[name] for name in sorted(near - self._near)}):
            _log.warning("%s", line)
        self._near = near
        self.tell("readers", {"near_limit": sorted(near)})

    def _look_at_window(self) -> None:
        core = self.site.core
        limits = core.options.limits
        messages = core.window.unstable + core.admission.messages
        size = core.window.unstable_bytes + core.admission.bytes
        full = messages > _FULL * limits.window_messages or size > _FULL * limits.window_bytes
        self._full = self._full + 1 if full else 0
        if self._full == _STUCK_LOOKS:
            names = held_by(core)
            _log.warning("the window is full; held by %s", ", ".join(names) or "nobody known")
            self.tell("window", {"held_by": names})


def _because(why: str | None) -> str:
    return f" ({why})" if why else ""
