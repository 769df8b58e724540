"""The group table: which sites belong to which groups, and how much is sent to each.

A table is what a user writes in a groups file (TOML or JSON of the same shape) and what every
forest builder reads. Parsing takes text, not paths: reading files is the caller's business.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ordercast.model.arguments import require_list
from ordercast.model.errors import ConfigError
from ordercast.model.names import nearest, require_distinct, require_keys, require_name, shown

Site: TypeAlias = str
Group: TypeAlias = str
Pair: TypeAlias = tuple[Site, Site]  # sorted: both ways are one

MAX_RATE = 1e12  # messages per second; sums of rates stay far from what a float cannot hold

_KEYS = ("sites", "groups", "rates", "tree")


def pair(a: Site, b: Site) -> Pair:
    return (a, b) if a < b else (b, a)


@dataclass(frozen=True, slots=True)
class GroupTable:
    """Groups by name with their members; sites in no group are allowed; a rate is 1.0 if absent.
    `tree`: of each site the one above it, for the builder `given`; a root has none."""

    sites: tuple[Site, ...]
    groups: Mapping[Group, tuple[Site, ...]]
    rates: Mapping[Group, float] = field(default_factory=dict)
    tree: Mapping[Site, Site] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        groups: Mapping[Group, Sequence[Site]],
        *,
        sites: Sequence[Site] | None = None,
        rates: Mapping[Group, float] | None = None,
        tree: Mapping[Site, Site] | None = None,
    ) -> "GroupTable":
        """A checked table from plain data. Raises ConfigError for every mistake that a groups file
        may have."""
        data: dict[str, Any] = {"groups": lists_of(groups)}
        if sites is not None:
            data["sites"] = list(require_list(sites, "sites"))
        if rates is not None:
            data["rates"] = dict(rates)
        if tree is not None:
            data["tree"] = dict(tree)
        return _table(data, "groups")

    def rate(self, group: Group) -> float:
        """How often messages are sent to the group, relative to the others. Raises nothing."""
        return self.rates.get(group, 1.0)

    @property
    def memberships(self) -> int:
        """The sizes of all groups together."""
        return sum(len(members) for members in self.groups.values())


def lists_of(groups: Mapping[Group, Sequence[Site]]) -> dict[Group, list[Site]]:
    """The members of each group as lists. Raises ConfigError if they are none."""
    if not isinstance(groups, Mapping):
        raise ConfigError(f"groups: a table of lists is needed, not {shown(groups)}")
    return {g: list(require_list(members, f"groups.{g}")) for g, members in groups.items()}


def parse_groups(text: str, *, source: str) -> GroupTable:
    """Parse a groups file, TOML or JSON; `source` names it in errors."""
    if not text.strip():
        raise ConfigError(f"{source}: the file is empty")
    try:
        # No TOML begins with a brace, so JSON is known by it also where there is no file name.
        if source.lower().endswith(".json") or text.lstrip().startswith("{"):
            data = json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, source))
        else:
            data = tomllib.loads(text)
    except ValueError as error:  # of both parsers, and of numbers with thousands of digits
        raise ConfigError(f"{source}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source}: nested too deeply for a groups file") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: a groups file is an object with the key 'groups'")
    return _table(data, source)


def _unique(pairs: list[tuple[str, Any]], source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ConfigError(f"{source}: key {key!r} is written twice")
        found[key] = value
    return found


def _table(data: Mapping[str, Any], source: str) -> GroupTable:
    require_keys(data, _KEYS, source)
    if "groups" not in data:
        raise ConfigError(f"{source}: the table [groups] is missing")
    groups = _groups(data["groups"], source)
    sites = _sites(data.get("sites"), groups, source)
    rates = _rates(data.get("rates", {}), groups, source)
    return GroupTable(sites, groups, rates, _tree(data.get("tree", {}), sites, source))


def _groups(data: Any, source: str) -> dict[Group, tuple[Site, ...]]:
    if not isinstance(data, dict):
        raise ConfigError(
            f"{source}: 'groups' must be a table of name = [members], not {shown(data)}"
        )
    if not data:
        raise ConfigError(f"{source}: [groups] is empty")
    groups: dict[Group, tuple[Site, ...]] = {}
    for name, members in data.items():
        require_name(name, f"{source}: groups")
        where = f"{source}: groups.{name}"
        if not isinstance(members, list):
            raise ConfigError(f"{where}: must be a list of sites, not {shown(members)}")
        if not members:
            raise ConfigError(f"{where}: has no members")
        seen: set[Site] = set()
        for site in members:
            if require_name(site, where) in seen:
                raise ConfigError(f"{where}: member {site!r} is listed twice")
            seen.add(site)
        groups[name] = tuple(members)
    require_distinct(groups, f"{source}: groups")
    return groups


def _sites(listed: Any, groups: Mapping[Group, tuple[Site, ...]], source: str) -> tuple[Site, ...]:
    if listed is None:
        union = dict.fromkeys(site for members in groups.values() for site in members)
        require_distinct(union, f"{source}: sites of the groups")
        return tuple(sorted(union))
    if not isinstance(listed, list):
        raise ConfigError(f"{source}: 'sites' must be a list of names, not {shown(listed)}")
    known: set[Site] = set()
    for site in listed:
        require_name(site, f"{source}: sites")
        if site in known:
            raise ConfigError(f"{source}: sites: {site!r} is listed twice")
        known.add(site)
    require_distinct(listed, f"{source}: sites")
    for group, members in groups.items():
        for site in members:
            if site not in known:
                raise ConfigError(
                    f"{source}: groups.{group}: {site!r} is not in 'sites'{nearest(site, listed)}"
                )
    return tuple(listed)


def _rates(data: Any, groups: Mapping[Group, tuple[Site, ...]], source: str) -> dict[Group, float]:
    if not isinstance(data, dict):
        raise ConfigError(
            f"{source}: 'rates' must be a table of group = messages per second, not {shown(data)}"
        )
    rates: dict[Group, float] = {}
    for group, rate in data.items():
        where = f"{source}: rates.{group}"
        if group not in groups:
            raise ConfigError(f"{where}: there is no such group{nearest(group, groups)}")
        if isinstance(rate, bool) or not isinstance(rate, int | float):
            raise ConfigError(f"{where}: must be a number, not {shown(rate)}")
        if not 0 <= rate <= MAX_RATE:
            limits = f"a number from 0 to {MAX_RATE:g}"
            raise ConfigError(f"{where}: {shown(rate)} is not a rate ({limits})")
        rates[group] = float(rate)
    return rates


def _tree(data: Any, sites: Sequence[Site], source: str) -> dict[Site, Site]:
    if not isinstance(data, dict):
        raise ConfigError(
            f"{source}: 'tree' must be a table of site = the site above it, not {shown(data)}"
        )
    known = set(sites)
    tree: dict[Site, Site] = {}
    for site, above in data.items():
        where = f"{source}: tree.{site}"
        for each in (site, above):
            if not isinstance(each, str) or each not in known:
                hint = nearest(each, sites) if isinstance(each, str) else ""
                raise ConfigError(f"{where}: there is no site {shown(each)}{hint}")
        tree[site] = above
    _require_no_circle(tree, source)
    return tree


def _require_no_circle(tree: Mapping[Site, Site], source: str) -> None:
    done: set[Site] = set()  # sites from which a root is reached
    for site in tree:
        path: dict[Site, None] = {}
        at: Site | None = site
        while at is not None and at not in done:
            if at in path:
                raise ConfigError(f"{source}: tree.{at}: the site is above itself")
            path[at] = None
            at = tree.get(at)
        done.update(path)
