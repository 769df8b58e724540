"""The same random schedules under `exclude`: sites are killed and excluded, come back, and the
network is split and heals, so that sites that were never killed are excluded and return too."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from ordercast.net.local import LocalCluster
from ordercast.net.site.node import Node, site_of
from support.clusters.campaigns.local_kills import QUIET_S, Campaign, Case, Found
from support.harness import loops

SUSPECT_S = 0.15


class ExcludingCampaign(Campaign):
    pauses, pause_s = 1.0, 0.1

    def _options(self) -> dict[str, Any]:
        return {**super()._options(), "timeouts": {"suspect": f"{SUSPECT_S:g}s"}}

    def _has_more(self, site: str) -> bool:
        return super()._has_more(site) or self.found.kills < self.case.kills

    def _is_done(self, site: str, node: Node) -> bool:
        """All must have returned too: an absent site looks done, and has more to come."""
        back = site_of(node).presence.state() == "present" and not site_of(node).core.layout.absent
        return back and super()._is_done(site, node)

    async def _calm(self, cluster: LocalCluster) -> None:
        """Stop all sites at one moment: if they left one by one, the rest would exclude them."""
        await super()._calm(cluster)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(QUIET_S):
                await self._until_done(cluster)
        for node in cluster.nodes.values():
            site_of(node).driver.close()
        await asyncio.gather(*(cluster.kill(site) for site in list(cluster.nodes)))

    async def _disturb(self, cluster: LocalCluster) -> None:
        """Each failure lasts long enough to be noticed, or nearly so."""
        rng, sites = self.rng, sorted(cluster.cluster.sites)
        await asyncio.sleep(4 * SUSPECT_S)
        down: list[str] = []
        while self.found.kills < self.case.kills:
            if rng.random() < 0.4:
                sides = rng.sample(sites, len(sites))
                cut = rng.randrange(1, len(sites))
                cluster.split(sides[:cut], sides[cut:])
                self.found.disturbances += 1
                await asyncio.sleep(rng.random() * 5 * SUSPECT_S)
                cluster.heal()
            up = [site for site in sites if site not in down]
            everybody = rng.random() < 0.1
            for site in rng.sample(up, len(up) if everybody else min(1, len(up))):
                await self._kill(cluster, site)
                down.append(site)
            await asyncio.sleep(rng.random() * 5 * SUSPECT_S)
            while len(down) > rng.randrange(2):
                self._begin(back := down.pop(0), await cluster.start(back))
            await asyncio.sleep(rng.random() * 3 * SUSPECT_S)
        for back in down:
            self._begin(back, await cluster.start(back))


def run_excluding(case: Case, directory: Path) -> Found:
    return loops.run(ExcludingCampaign(case, directory).run())
