"""What a page may do to a cluster, if the server was started with --control: change groups, switch
the protocol, kill a site.

A change is asked of a site that is up, as the verbs do. Killing is for processes of this machine.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from ordercast.core.order.registry import PROTOCOLS, protocol_named
from ordercast.model.epochs import Edit, JoinGroup, LeaveGroup, UseProtocol
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.names import require_name
from ordercast.net.client.destinations import Destination, LocalDestination
from ordercast.net.client.overview import Overview
from ordercast.net.cluster import processes
from ordercast.web.answers import text_of
from ordercast.web.feed import Sampler

ACTIONS = ("join", "leave", "switch", "kill")
_CHANGE_S = 30.0
_START_S = 5.0


class Controls:
    """State: none of its own. Every request is checked against the last sample."""

    def __init__(self, place: Destination, sampler: Sampler) -> None:
        self._place = place
        self._sampler = sampler

    def told(self) -> dict[str, Any]:
        """What a page may offer."""
        kills = isinstance(self._place, LocalDestination)
        return {
            "actions": [name for name in ACTIONS if kills or name != "kill"],
            "protocols": list(PROTOCOLS),
        }

    async def do(self, body: Mapping[str, Any]) -> str:
        """Returns what was done, in a line."""
        action = text_of(body, "action")
        if action not in ACTIONS:
            raise ConfigError(f"action: {action!r} is none of {', '.join(ACTIONS)}")
        view = await self._sampler.once()
        if action == "switch":
            protocol = text_of(body, "protocol")
            protocol_named(protocol)
            await self._change(view, UseProtocol(protocol))
            return f"the protocol is {protocol} now"
        site = _known(text_of(body, "site"), view)
        if action == "kill":
            return await self._kill(site)
        group = require_name(text_of(body, "group"), "group")
        if group not in view.groups:
            raise ConfigError(f"there is no group {group!r}")
        edit = JoinGroup(group, site) if action == "join" else LeaveGroup(group, site)
        await self._change(view, edit)
        return f"{site} has {'joined' if action == 'join' else 'left'} {group}"

    async def _change(self, view: Overview, edit: Edit) -> None:
        up = [site for site, each in sorted(view.sites.items()) if each.state == "up"]
        if not up:
            raise ConfigError("no site is up that could be asked")
        try:
            async with (
                asyncio.timeout(_CHANGE_S),
                self._place.client(up[0], start_s=_START_S, flush_s=1.0) as client,
            ):
                await client.change(edit)
        except TimeoutError:
            raise ConfigError(
                f"not done within {_CHANGE_S:g} s; it may still be: see 'ordercast epoch'"
            ) from None

    async def _kill(self, site: Site) -> str:
        if not isinstance(self._place, LocalDestination):
            raise ConfigError("kill: the sites run on other machines")
        daemon = processes.running(self._place.directory, site)
        if daemon is None:
            raise ConfigError(f"{site} does not run on this machine")
        await asyncio.to_thread(processes.kill, daemon)
        return f"{site} (process {daemon.pid}) is killed"


def _known(site: str, view: Overview) -> Site:
    if site not in view.sites:
        raise ConfigError(f"there is no site {site!r}")
    return site
