"""Recovering a cluster that has lost most of its voters for good (docs/operations.md tells how).

The operator names the lost voters. One voter that is left gets a last record, `Recovered`, written
into its store: from then on only the voters that are left count. It must be the one whose log is
the furthest, because the others follow it. All stores that are looked at are held meanwhile, so
their sites do not run.
"""

import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberRecord
from ordercast.core.epochs.voters_log import Appendix, Ballot, LogSnapshot
from ordercast.model.epochs import Entry, Recovered
from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.names import nearest
from ordercast.net.cluster import processes
from ordercast.net.cluster.addresses import parse_address
from ordercast.net.cluster.config import Cluster
from ordercast.net.site.founding import begin
from ordercast.net.store.box import StoreBox
from ordercast.net.store.store import Store

_DIAL_S = 2.0
_LOOK_S = 0.1  # between looks whether the store can be written


@dataclass(frozen=True, slots=True)
class LeftVoter:
    """A voter that is left: how far its log is."""

    site: Site
    term: int  # of its last record
    records: int


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What is to be done: `chosen` gets the record; then `voters` decide without `lost`."""

    chosen: Site
    voters: tuple[Site, ...]
    lost: tuple[Site, ...]
    left: tuple[LeftVoter, ...]  # the voters that were looked at, the furthest first


class Recovery:
    """Holds the stores of the voters that are left and are here. Use it in a `with`."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        if cluster.durability == "memory":
            raise ConfigError(f"{cluster.source}: durability is 'memory': there are no stores")
        self._cluster = cluster
        self._directory = directory
        self._stores: dict[Site, Store] = {}
        self._members: dict[Site, Member] = {}
        self._stack = ExitStack()

    def __enter__(self) -> "Recovery":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    # --- what is there ----------------------------------------------------------------------------

    def plan(self, lost: Sequence[Site], chosen: Site = "") -> RecoveryPlan:
        """Raises ConfigError, in one line, if this cannot or need not be done. `chosen`: the voter
        to go on from, if some of those that are left are on other machines."""
        here = [chosen] if chosen else self._voters_here(lost)
        for site in here:
            if site in lost:
                raise ConfigError(f"site {site!r} is named as lost, and cannot be gone on from")
            self._open(site)
        if not self._members:
            raise ConfigError(f"{self._directory}: no voter that is left has its store here")
        found = sorted(
            (self._left(site) for site in self._members),
            key=lambda one: (-one.term, -one.records, one.site),
        )
        best = found[0].site
        stores = self._stores_at(best)
        self._require_lost(lost, stores)
        left = tuple(sorted(site for site in stores if site not in lost))
        missing = [site for site in left if site not in self._members]
        if missing and not chosen:
            raise ConfigError(
                f"{self._directory}: the store of {missing[0]!r} is not here. If it is on another"
                " machine, compare how far the logs are, and name the furthest with --from"
            )
        if not stores.get(best) or self._stores[best].store_number != stores[best]:
            raise ConfigError(f"site {best!r} has no vote with the store that is here")
        self._require_no_majority(left, stores)
        self._require_silence(lost, self._members[best])
        return RecoveryPlan(best, left, tuple(sorted(lost)), tuple(found))

    def _voters_here(self, lost: Sequence[Site]) -> list[Site]:
        sites = processes.sites_here(self._cluster, self._directory)
        there = [s for s in sites if s not in lost and (self._directory / f"{s}.db").exists()]
        for site in there:
            self._open(site)
        furthest = max(
            self._members.values(),
            key=lambda one: (one.layout.term, one.layout.count),
            default=None,
        )
        voters = () if furthest is None else furthest.raft.log.voters or furthest.layout.voters
        for site in [site for site in self._members if site not in voters]:
            del self._members[site]
        return list(self._members)

    def _open(self, site: Site) -> None:
        if site in self._members:
            return
        daemon = processes.running(self._directory, site)
        if daemon is not None:
            raise ConfigError(f"site {site!r} runs here (process {daemon.pid}): stop it first")
        path = self._directory / f"{site}.db"
        if not path.exists():
            raise ConfigError(f"{path}: there is no such store")
        store = Store.open(
            path, cluster=self._cluster.name, site=site, durability=self._cluster.durability,
            call=lambda then: then(),
        )  # fmt: skip
        self._stack.callback(store.close_sync)
        begun = begin(self._cluster, site, store)
        self._stores[site] = store
        self._members[site] = Member(
            site, begun.layout, begun.cluster.options(), begun.cluster.build, boot=store.boot,
            store=store.store_number, records=store.restored(),
        )  # fmt: skip

    def _left(self, site: Site) -> LeftVoter:
        member = self._members[site]
        log, layout = member.raft.log, member.layout
        if layout.count > log.last:  # it was told more than its log has
            return LeftVoter(site, layout.term, layout.count)
        return LeftVoter(site, log.term_of(log.last), log.last)

    def _stores_at(self, site: Site) -> Mapping[Site, int]:
        return self._members[site].raft.log.stores()

    # --- what must be so --------------------------------------------------------------------------

    def _require_lost(self, lost: Sequence[Site], stores: Mapping[Site, int]) -> None:
        if not lost:
            raise ConfigError("cluster recover: name the lost voters, each with --lost")
        for site in lost:
            if site not in stores:
                raise ConfigError(
                    f"site {site!r} is no voter{nearest(site, stores)}; the voters are"
                    f" {', '.join(sorted(stores))}"
                )
            path = self._directory / f"{site}.db"
            if path.exists():
                raise ConfigError(
                    f"{path}: the store of {site!r} is here, so it is not lost: start it, or move"
                    " its files away if it cannot be read"
                )

    def _require_no_majority(self, left: Sequence[Site], stores: Mapping[Site, int]) -> None:
        counted = [site for site, store in stores.items() if store]
        there = [site for site in left if stores[site]]
        if 2 * len(there) > len(counted):
            raise ConfigError(
                f"{', '.join(there)}: a majority of the voters ({', '.join(sorted(counted))})."
                " Start them, and remove the others' votes with 'ordercast voter remove'"
            )

    def _require_silence(self, lost: Sequence[Site], member: Member) -> None:
        for site in lost:
            address = self._address(site, member)
            if address is not None and _answers(address):
                raise ConfigError(
                    f"site {site!r} answers at {address[0]}:{address[1]}: it is not lost"
                )

    def _address(self, site: Site, member: Member) -> tuple[str, int] | None:
        told = member.layout.addresses.get(site)
        if told:
            return parse_address(told, f"address of site {site!r}")
        written = self._cluster.sites.get(site)
        return None if written is None else written.address

    # --- doing it ---------------------------------------------------------------------------------

    def carry_out(self, plan: RecoveryPlan) -> None:
        """Write the record into the store of the chosen voter, durably. Raises ConfigError, in one
        line, if that cannot be written."""
        records, store = self._records(plan), self._stores[plan.chosen]
        done = threading.Event()
        store.write(StoreBox(records=records, at_ns=time.time_ns()), done.set)
        while not done.wait(_LOOK_S):
            if store.failed is not None:
                raise ConfigError(
                    f"{store.path}: cannot be written: {store.failed}; see to that, and recover"
                    " again (if the lost are no voters then, this was written at last)"
                )

    def _records(self, plan: RecoveryPlan) -> list[MemberRecord]:
        member = self._members[plan.chosen]
        log, layout = member.raft.log, member.layout
        stores = log.stores()
        term = max(one.raft.term for one in self._members.values()) + 1
        records: list[MemberRecord] = [Ballot(term, plan.chosen)]
        last = log.last
        if layout.count > last:  # the log goes on from what the site has been told
            last = layout.count
            data = member.folds.pack(layout)
            known = tuple(stores.items())
            records.append(LogSnapshot(last, layout.term, known, data, layout.chain))
        voters = tuple((site, stores[site]) for site in plan.voters)
        lost = tuple((site, stores[site]) for site in plan.lost)
        records.append(Appendix(last + 1, (Entry(term, Recovered(voters, lost)),)))
        return records


def _answers(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, timeout=_DIAL_S):
            return True
    except OSError:
        return False
