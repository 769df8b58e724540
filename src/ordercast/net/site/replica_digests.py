"""The digests of replicas, between the sites of a group: told to other members, kept for the
replicas here, and shown to operators."""

import logging
from collections.abc import Callable
from typing import Any

from ordercast.core.epochs.layout import Layout
from ordercast.model.groups import Group, Site
from ordercast.wire.replica_digest import ReplicaDigest

_log = logging.getLogger("ordercast.net.replica")

MOST_PEERS = 8  # the next sites by name get digests: if all neighbours are equal, all sites are
_AGAIN = 5  # looks without news, after which the last digest is repeated: it may be lost


class DigestExchange:
    """`layout`: the site's present one."""

    def __init__(
        self,
        site: Site,
        layout: Callable[[], Layout],
        send: Callable[[Site, ReplicaDigest], None],
    ) -> None:
        self._site = site
        self._layout = layout
        self._send = send
        self._mine: dict[Group, ReplicaDigest] = {}
        self._silent: dict[Group, int] = {}
        self._heard: dict[Group, dict[Site, ReplicaDigest]] = {}
        self._alarms: dict[Group, str] = {}

    def exchange(
        self, group: Group, mine: ReplicaDigest | None, alarm: str
    ) -> list[tuple[Site, ReplicaDigest]]:
        """A replica of the group says how far it is, and what it finds wrong ("": nothing). Returns
        what the other members said last. A replica that is at no position yet compares only with
        what is said from now on: earlier words may be of replicas that are gone."""
        if mine is None and not alarm:
            self._heard.pop(group, None)
        if alarm and alarm != self._alarms.get(group):
            _log.error("the replicas of %s have diverged: %s", group, alarm)
        self._alarms[group] = alarm
        silent = self._silent.get(group, 0) + 1
        if mine is not None and (mine != self._mine.get(group) or silent >= _AGAIN):
            self._mine[group] = mine
            silent = 0
            for peer in self._told(group):
                self._send(peer, mine)
        self._silent[group] = silent
        return list(self._heard.get(group, {}).items())

    def take(self, peer: Site, digest: ReplicaDigest) -> None:
        members = self._members(digest.group)
        if self._site not in members or peer not in members:
            return  # no concern of this site, or of the peer
        heard = self._heard.setdefault(digest.group, {})
        heard[peer] = digest
        for gone in [site for site in heard if site not in members]:
            del heard[gone]

    def told(self) -> dict[str, Any]:
        """For operators: by group, how far the replica here is, and what is wrong with it."""
        found = {}
        for group, alarm in self._alarms.items():
            last = self._mine[group].points[-1] if group in self._mine else None
            found[group] = {
                "epoch": 0 if last is None else last.epoch,
                "number": 0 if last is None else last.number,
                "compared_with": sorted(self._heard.get(group, {})),
                "diverged": alarm,
            }
        return found

    def _members(self, group: Group) -> tuple[Site, ...]:
        return self._layout().groups.get(group, ())

    def _told(self, group: Group) -> list[Site]:
        layout = self._layout()
        here = [site for site in self._members(group) if site not in layout.absent]
        after = sorted(here, key=lambda site: (site <= self._site, site))
        return [site for site in after if site != self._site][:MOST_PEERS]
