"""What a cluster file gives its sites to begin with, for tests that ask who orders what."""

from ordercast.core.structure import Structure
from ordercast.net.cluster.config import Cluster


def structure_of(cluster: Cluster, group: str) -> Structure:
    """Of the group's domain."""
    domain = cluster.first_layout().domain_of([group])
    assert domain is not None
    return domain.structure


def primary_of(cluster: Cluster, group: str) -> str:
    return structure_of(cluster, group).primary(group)
