"""[GS] §3.1: the generator of Appendix I with another choice of root and children.

The paper takes the site in most groups and says that this helps to keep trees short. With any other
site of the same candidates in its place the graph is as correct, but deeper: the heuristic saves
that depth.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean

from ordercast.model.groups import Group, GroupTable, Site
from ordercast.sim.chance import Chance

Choice = Callable[[Sequence[Site], Mapping[Site, int]], Site]
"""One of the candidates, who come in the order of their names, by the number of open groups that
each site is in."""


def at_random(seed: int) -> Choice:
    stream = Chance(seed, "choice of roots")
    return lambda candidates, _: stream.choice(candidates)


def depth_by(choose: Choice, table: GroupTable) -> float:
    """The mean depth of the groups, as `measure` has it of greedy's forest."""
    depth: dict[Site, int] = {}
    top: dict[Group, int] = {}
    waiting: list[tuple[int, set[Site] | None, list[Group]]] = [
        (0, None, part) for part in _parts(table, table.groups)
    ]
    for level, reached, part in waiting:  # grows while it is read
        open_groups: dict[Site, int] = {}
        for group in part:
            for site in table.groups[group]:
                open_groups[site] = open_groups.get(site, 0) + 1
        candidates = sorted(open_groups if reached is None else reached & open_groups.keys())
        subroot = choose(candidates, open_groups)
        depth[subroot] = level
        taken = {group for group in part if subroot in table.groups[group]}
        top |= dict.fromkeys(taken, level)
        met = {site for group in taken for site in table.groups[group]} - depth.keys()
        rest = [group for group in part if group not in taken]
        inside = {site for group in rest for site in table.groups[group]}
        depth |= dict.fromkeys(met - inside, level + 1)
        waiting += [(level + 1, met, below) for below in _parts(table, rest)]
    return fmean(
        max(depth[site] for site in members) - top[group] for group, members in table.groups.items()
    )


def _parts(table: GroupTable, groups: Iterable[Group]) -> list[list[Group]]:
    """The groups in the finest parts that share no site (errata GS-5)."""
    of_site: dict[Site, list[Group]] = {}
    for group in groups:
        for site in table.groups[group]:
            of_site.setdefault(site, []).append(group)
    found, seen = [], set[Group]()
    for first in groups:
        if first in seen:
            continue
        seen.add(first)
        part, known = [first], set[Site]()
        for group in part:  # grows while it is read
            for site in table.groups[group]:
                if site not in known:
                    known.add(site)
                    new = [each for each in of_site[site] if each not in seen]
                    seen |= set(new)
                    part += new
        found.append(part)
    return found
