"""The groups and sites that a client can send to, so that mistakes are known at once.

The daemon's word is final: it refuses itself what has changed since it told its clients.
"""

from collections.abc import Iterable

from ordercast.core.epochs.layout import Layout, components
from ordercast.model.errors import CrossDomain, UnknownGroup
from ordercast.model.features import known_features
from ordercast.model.groups import Group, Site
from ordercast.model.implicit import listed_sites
from ordercast.model.names import nearest
from ordercast.net.admin.frames import Targets


def targets_of(layout: Layout) -> Targets:
    domains = tuple(domain.sites for domain in layout.domains.values())
    parts = tuple(_sites_of(layout, names) for names in components(layout.groups))
    if layout.whole and not layout.open:  # one tree, but lists of sites do not use that
        domains = parts
    elif layout.absent:  # a list that only absent sites hold together waits for them
        domains += parts
    sites, groups = tuple(sorted(layout.roster)), tuple(layout.groups.items())
    # Until the cluster is founded, what uses a feature waits at the site.
    features = layout.features if layout.count > 0 else known_features()
    return Targets(sites, groups, domains, features)


def _sites_of(layout: Layout, names: Iterable[Group]) -> tuple[Site, ...]:
    return tuple(sorted({site for name in names for site in layout.groups[name]}))


class KnownTargets:
    """The targets that a client was sent last."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.sites: tuple[Site, ...] = ()
        self.groups: dict[Group, tuple[Site, ...]] = {}
        self.features: tuple[str, ...] = ()
        self._domains: tuple[frozenset[Site], ...] = ()

    def update(self, targets: Targets) -> None:
        self.sites = targets.sites
        self.groups = dict(targets.groups)
        self.features = targets.features
        self._domains = tuple(map(frozenset, targets.domains))

    def members(self, group: Group) -> tuple[Site, ...]:
        found = self.groups.get(group)
        if found is None:
            self._require_admitted()
            raise UnknownGroup(f"there is no group {group!r}{nearest(group, self.groups)}")
        return found

    def listed(self, sites: Iterable[Site]) -> tuple[Site, ...]:
        """Sorted, each once; refused where no one domain has them all."""
        self._require_admitted()
        members = listed_sites(sites, self.sites)
        if not any(domain.issuperset(members) for domain in self._domains):
            raise CrossDomain(f"{', '.join(members)}: no one domain has all of these sites")
        return members

    def _require_admitted(self) -> None:
        if self.site not in self.sites:
            raise UnknownGroup(f"site {self.site!r} is retired, or not admitted yet")
