"""Implicit groups: what a send to several groups or to listed sites goes to.

Its name is made from its members alone, so every site gives the same union the same name.
"""

import hashlib
from collections.abc import Collection, Iterable

from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.groups import Group, Site
from ordercast.model.limits import MEMBERS
from ordercast.model.names import nearest

IMPLICIT_PREFIX = "@"  # no name that a user may choose begins with it


def implicit_group(members: Iterable[Site]) -> Group:
    """`@` and 16 hex digits of the SHA-256 of the sorted members, joined by commas."""
    text = ",".join(sorted(set(members)))
    return IMPLICIT_PREFIX + hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def listed_sites(sites: Iterable[Site], known: Collection[Site]) -> tuple[Site, ...]:
    """The members of an implicit group, sorted, each once. Raises Error if they make none."""
    members = tuple(sorted(dict.fromkeys(sites)))
    if not members:
        raise ConfigError("sites: none is listed")
    for site in members:
        if site not in known:
            raise ConfigError(f"sites: there is no site {site!r}{nearest(site, known)}")
    if len(members) > MEMBERS:
        raise TooLarge(f"{len(members):,} listed sites; the limit is {MEMBERS:,}")
    return members


def is_implicit(group: Group) -> bool:
    return group.startswith(IMPLICIT_PREFIX)
