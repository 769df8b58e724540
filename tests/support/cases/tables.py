"""Group tables for tests: Hypothesis strategies, seeded random tables, the papers' examples."""

import random
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from ordercast.model.groups import GroupTable

FIGURE_2 = {"alpha": "abcd", "beta": "cdef"}
FIGURE_3 = {
    "alpha1": "cd",
    "alpha2": "abc",
    "alpha3": "bcde",
    "alpha4": "def",
    "alpha5": "ef",
    "alpha6": "bg",
    "alpha7": "ch",
    "alpha8": "dj",
}
FIGURE_3_TIE = ("d", "c", "e")  # errata GS-7
FIGURE_5 = {"alpha": "abcde", "beta": "bfgh", "gamma": "ab"}


def table_of(groups: Mapping[str, Sequence[str]]) -> GroupTable:
    return GroupTable.of({name: list(members) for name, members in groups.items()})


def random_table(
    sites: int, groups: int, size: int, seed: int, *, spread: float | None = None
) -> GroupTable:
    """Groups of `size` uniformly drawn sites, or drawn around a random centre on a ring."""
    rng = random.Random(seed)
    drawn: dict[str, list[str]] = {}
    for number in range(groups):
        members: set[int] = set()
        centre = rng.randrange(sites)
        while len(members) < min(size, sites):
            place = rng.randrange(sites) if spread is None else round(rng.gauss(centre, spread))
            members.add(place % sites)
        drawn[f"g{number}"] = [f"s{site}" for site in sorted(members)]
    return GroupTable.of(drawn, sites=[f"s{site}" for site in range(sites)])


@st.composite
def tables(draw: st.DrawFn, max_sites: int = 12, max_groups: int = 10) -> GroupTable:
    """Small tables of any shape: nested, equal, single-site groups, several domains, idle sites."""
    sites = [f"s{i}" for i in range(draw(st.integers(1, max_sites)))]
    members = st.lists(st.sampled_from(sites), min_size=1, max_size=len(sites), unique=True)
    groups = draw(st.lists(members, min_size=1, max_size=max_groups))
    weights = draw(st.lists(st.integers(0, 50), min_size=len(groups), max_size=len(groups)))
    return GroupTable.of(
        {f"g{i}": m for i, m in enumerate(groups)},
        sites=sites,
        rates={f"g{i}": float(w) for i, w in enumerate(weights) if w},
    )
