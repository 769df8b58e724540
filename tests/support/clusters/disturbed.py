"""The random schedules of `campaigns` over real connections. A proxy before every site disturbs
them until it has done so a given number of times."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.cluster.config import Cluster
from ordercast.net.cluster.file import cluster_of_groups
from ordercast.net.local import LocalCluster
from ordercast.net.site.assembly import AnyTransport, MakeTransport, TransportSite, over_tcp
from support.clusters.campaigns.local_kills import Campaign, Case, Found
from support.clusters.processes import NAME
from support.harness import loops
from support.harness.ports import free_ports
from support.network.proxy import Manners, Proxy


class ProxiedCluster(LocalCluster):
    """Sites of this process over TCP; each is dialled through a proxy of its own."""

    def __init__(self, cluster: Cluster, directory: Path, seed: object, manners: Manners) -> None:
        super().__init__(cluster, directory)
        self.proxies = {
            site: Proxy(address, f"{seed} {site}", manners)
            for site, address in cluster.addresses().items()
        }

    async def __aenter__(self) -> "ProxiedCluster":
        for proxy in self.proxies.values():
            await proxy.start()
        await super().__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        try:
            await super().__aexit__(*error)
        finally:
            for proxy in self.proxies.values():
                await proxy.close()

    def _transport(self) -> MakeTransport:
        def make(host: TransportSite) -> AnyTransport:
            through = {site: proxy.address for site, proxy in self.proxies.items()}
            del through[host.site]
            sites = {
                site: replace(written, address=through.get(site, written.address))
                for site, written in self.cluster.sites.items()
            }
            return over_tcp(replace(self.cluster, sites=sites))(host)

        return make

    @property
    def disturbances(self) -> int:
        return sum(proxy.disturbances.total() for proxy in self.proxies.values())


class DisturbedCampaign(Campaign):
    def __init__(self, case: Case, directory: Path, *, disturbances: int, tls: bool) -> None:
        super().__init__(case, directory)
        self.wanted = disturbances
        self.tls = tls
        self.cluster: ProxiedCluster | None = None

    def _make(self, stores: Path) -> LocalCluster:
        sites = sorted({site for members in self.groups.values() for site in members})
        options = {**self._options(), "name": NAME, "timeouts": {"suspect": "300ms"}}
        if self.tls:
            write_certificates(NAME, sites, self.directory / "certs")
            options["tls"] = {"dir": str(self.directory / "certs")}
        else:
            options["secret"] = str(self.directory / "secret")
        ports = free_ports(len(sites))
        addresses = {site: f"127.0.0.1:{port}" for site, port in zip(sites, ports, strict=True)}
        cluster = cluster_of_groups(self.groups, addresses=addresses, **options)
        manners = Manners(mean_bytes=8_000)
        self.cluster = ProxiedCluster(cluster, stores, f"{self.case}", manners)
        return self.cluster

    def _has_more(self, site: str) -> bool:
        assert self.cluster is not None
        return super()._has_more(site) or self.cluster.disturbances < self.wanted

    async def _disturb(self, cluster: LocalCluster) -> None:
        await super()._disturb(cluster)
        assert self.cluster is not None
        while self.cluster.disturbances < self.wanted:
            await asyncio.sleep(0.02)
        for proxy in self.cluster.proxies.values():
            proxy.calm = True
        self.found.disturbances = self.cluster.disturbances


def run_disturbed(case: Case, directory: Path, *, disturbances: int, tls: bool) -> Found:
    campaign = DisturbedCampaign(case, directory, disturbances=disturbances, tls=tls)
    return loops.run(campaign.run(), limit_s=30 + disturbances)
