"""[GS] Appendix I's propagation graph generator, executed line by line: the oracle for `greedy`.

Names and steps are the paper's (sets, marks, the repeat loop, the recursion, here as a work list
because paths can be longer than Python's stack). Mended only where errata GS-5 says it must be:
the closure's test reads `∃ s ∈ g`, and the partition is the finest one.
"""

from collections.abc import Mapping, Sequence


def literal_forest(
    groups: Mapping[str, Sequence[str]], tie: Sequence[str] = ()
) -> tuple[dict[str, str | None], dict[str, str]]:
    """(parent, primary) of the forest that the pseudo-code builds."""
    members = {name: frozenset(sites) for name, sites in groups.items()}
    parent: dict[str, str | None] = {}
    primary: dict[str, str] = {}
    unmarked_groups = set(members)
    unmarked_sites = {s for sites in members.values() for s in sites}
    rank = {site: place for place, site in enumerate(tie)}

    def occurs_most_frequently(candidates: set[str], among: set[str]) -> str:
        def key(s: str) -> tuple[int, int, str]:
            return (-sum(s in members[g] for g in among), rank.get(s, len(rank)), s)

        return min(candidates, key=key)

    def new_subtree(current_subroot: str) -> list[str]:
        intersecters: set[str] = set()
        unmarked_sites.discard(current_subroot)
        for s in unmarked_sites:
            if any(s in members[g] and current_subroot in members[g] for g in unmarked_groups):
                intersecters.add(s)
        for g in list(unmarked_groups):
            if current_subroot in members[g]:
                unmarked_groups.discard(g)
                primary[g] = current_subroot
        closure = {g for g in unmarked_groups if members[g] & intersecters}
        while True:
            reached = {s for g in closure for s in members[g]}
            grown = closure | {g for g in unmarked_groups if members[g] & reached}
            if grown == closure:
                break
            closure = grown
        partitions = finest_partition(closure)
        for s in intersecters:
            if not any(s in members[g] for part in partitions for g in part):
                parent[s] = current_subroot
                unmarked_sites.discard(s)
        children = []
        for part in partitions:
            present = {s for g in part for s in members[g]}
            newsite = occurs_most_frequently(present & intersecters, part)
            parent[newsite] = current_subroot
            children.append(newsite)
        return children

    def finest_partition(among: set[str]) -> list[set[str]]:
        parts: list[set[str]] = []
        for g in sorted(among):
            touching = [p for p in parts if any(members[g] & members[h] for h in p)]
            parts = [p for p in parts if p not in touching]
            parts.append({g}.union(*touching))
        return parts

    while unmarked_groups:
        candidates = {s for g in unmarked_groups for s in members[g]}
        root = occurs_most_frequently(candidates, unmarked_groups)
        parent[root] = None
        waiting = [root]
        while waiting:
            waiting.extend(new_subtree(waiting.pop(0)))
    return parent, primary
