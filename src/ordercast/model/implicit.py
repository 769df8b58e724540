"""Implicit groups: what a send to several groups or to listed sites goes to.

Its name is made from its members alone, so every site gives the same union the same name.
"""

import hashlib
from collections.abc import Iterable

from ordercast.model.groups import Group, Site

IMPLICIT_PREFIX = "@"  # no name that a user may choose begins with it


def implicit_group(members: Iterable[Site]) -> Group:
    """`@` and 16 hex digits of the SHA-256 of the sorted members, joined by commas."""
    text = ",".join(sorted(set(members)))
    return IMPLICIT_PREFIX + hashlib.sha256(text.encode("ascii")).hexdigest()[:16]


def is_implicit(group: Group) -> bool:
    return group.startswith(IMPLICIT_PREFIX)
