"""[TOM] §4 by running the protocols: transmissions M where there is multicast, and the load X: what
the busiest host receives and sends, a multicast counted as one send (`work_max`), or as as many as
it has receivers (`load_max`).

A run draws a table; s sources send one message each to the same group at the same time. One rule
counts for all protocols: equal content that a site sends to several receivers at one time is one
transmission, as the paper has it. So a site that forwards TOM's final header to its children
(errata TOM-3) makes one transmission, as a site of the propagation graph does, and so does a
metagroup's delegate that serves child delegates and its own members. Beside what is measured stand
the printed formula and the corrected one, with the depths, paths and metagroups of the very same
group.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from ordercast.core.structure import Structure
from ordercast.forest.metagroups import quotient
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.options import SECOND
from ordercast.pipeline.sweeps.swept_verb import Config, Measured
from ordercast.pipeline.sweeps.tables import draw_table, drawing_of
from ordercast.plan.advice import advise
from ordercast.sim.chance import Chance
from ordercast.sim.message_costs import Overheard, PlannedSend, overhear
from ordercast.sim.simulate import EPOCH
from ordercast.studies.tom.costs import PACKETS, TRANSMISSIONS, FormulaTerms, figure_5

MEMBERS, OUTSIDE = "members", "outside"
_BUILDERS = {"centralized": "star", "metagroup": "metagroups", "tom": "balanced"}
ORDERED_AT_A_SITE = ("centralized", "propagation", "metagroup", "tom")
_SETTLED = 9 * SECOND  # an idle ring's token is slow by then; it may be anywhere
_MOST = {"symmetric": 500}  # hosts: it takes about 2rn messages
_BRANCHING = {"balanced": 5}  # the B of Figure 5
_ROUNDED = 1e-9  # transmissions: what two sums of whole numbers and means may differ by


def table_of_sources(config: Config, seed: int) -> tuple[GroupTable, Group, tuple[Site, ...]]:
    """A drawn table, the group that is sent to, and who sends: members of it, or outsiders."""
    drawn = draw_table(drawing_of(config), seed)
    group = min(drawn.groups)
    count = config["sources"]
    if config["sent_by"] == MEMBERS:
        chosen = Chance(seed, "sources").sample(drawn.groups[group], count)
        return drawn, group, tuple(chosen)
    outside = tuple(f"{OUTSIDE}{number}" for number in range(count))
    return GroupTable((*drawn.sites, *outside), drawn.groups), group, outside


def message_costs(config: Config, seed: int, _run: str) -> Measured:
    """Per protocol: M and X as measured, and both formulas of M."""
    table, group, sources = table_of_sources(config, seed)
    measures: dict[str, float] = {}
    for protocol, (printed, corrected) in TRANSMISSIONS.items():
        if config["sites"] > _MOST.get(protocol, config["sites"]):
            continue
        structure = structure_for(protocol, table)
        at = _when(protocol, seed)
        found = heard_from(
            at,
            overhear(structure, protocol, [PlannedSend(at, s, group) for s in sources], seed=seed),
        )
        setting = setting_of(protocol, structure, group, sources)
        loads, sent = found.loads(), found.sends()
        work = sent + found.received()  # a multicast is one send
        engaged = [site for site in loads if not site.startswith(OUTSIDE)]
        measures |= {
            f"{protocol}/transmissions": sent.total(),
            f"{protocol}/printed": printed(setting),
            f"{protocol}/corrected": corrected(setting),
            f"{protocol}/as_printed_share": abs(sent.total() - printed(setting)) < _ROUNDED,
            f"{protocol}/messages": found.messages,
            f"{protocol}/load_max": max((loads[site] for site in engaged), default=0),
            f"{protocol}/work_max": max((work[site] for site in engaged), default=0),
            f"{protocol}/hosts_engaged": len(engaged),
            **_orderers(protocol, structure),
            **_packets(protocol, structure, group, sources, setting, (loads, work)),
            f"{protocol}/figure_5": printed(figure_5(config["sites"])),
            f"{protocol}/figure_5_receivers": printed(
                figure_5(config["sites"], height_of="receivers")
            ),
        }
    return Measured({name: float(value) for name, value in measures.items()})


def _packets(
    protocol: str,
    structure: Structure,
    group: Group,
    sources: Sequence[Site],
    setting: FormulaTerms,
    counted: tuple[Counter[Site], Counter[Site]],
) -> dict[str, float]:
    """What hosts send and receive, by role, mean over the hosts of a role: copies, and with a
    multicast as one; and what equations 1 to 5 say."""
    top = structure.primary(group)
    hosts: dict[str, Sequence[Site]] = {
        "source": sources,
        "order": (top,),
        "receiver": [s for s in structure.groups[group] if s not in sources and s != top],
    }
    found: dict[str, float] = {}
    for role, term in PACKETS[protocol].items():
        found[f"{protocol}/x_{role}_printed"] = term(setting)
        if hosts[role]:
            loads, work = (fmean(each[site] for site in hosts[role]) for each in counted)
            found |= {f"{protocol}/x_{role}": loads, f"{protocol}/x_{role}_multicast": work}
    return found


def _orderers(protocol: str, structure: Structure) -> dict[str, float]:
    """How many sites order the groups of the session, and the share of the groups that one of them
    orders at most; of protocols where one site orders a group."""
    if protocol not in ORDERED_AT_A_SITE:
        return {}
    found = Counter(structure.primary(group) for group in structure.groups)
    return {
        f"{protocol}/orderers": len(found),
        f"{protocol}/orderer_share": max(found.values()) / found.total(),
    }


def _when(protocol: str, seed: int) -> int:
    """At once, where nothing turns in an idle domain."""
    return _SETTLED + Chance(seed, "when").below(_SETTLED) if protocol == "ring" else 0


def heard_from(at: int, found: Overheard) -> Overheard:
    """Without the frames heard before anybody sent."""
    return replace(found, heard=[frame for frame in found.heard if frame.at >= at])


def structure_for(protocol: str, table: GroupTable) -> Structure:
    builder = _BUILDERS.get(protocol, "greedy")
    forest = advise(table, builder, branching=_BRANCHING.get(builder)).forest
    return Structure(EPOCH, table, forest)


def setting_of(
    protocol: str, structure: Structure, group: Group, sources: tuple[Site, ...]
) -> FormulaTerms:
    """The terms of the formulas, for the group that is sent to."""
    members, top = structure.groups[group], structure.primary(group)
    tellers = structure.tellers
    hosts = tellers.domains[tellers.root_of[top]]
    inside = sum(source in members for source in sources)
    setting = FormulaTerms(
        len(sources), len(members), len(hosts), inside=inside, on_top=sources.count(top)
    )
    below = Counter(above for above, _ in _edges(structure, group))
    forwarding = len(below)
    setting = replace(setting, branching=max(below.values(), default=0))
    depth = max((structure.depth(site) for site in members), default=0) - structure.depth(top)
    if protocol == "propagation":
        return replace(setting, depth=depth, forwarding=forwarding)
    if protocol == "metagroup":
        return _of_metagroups(setting, structure, group, forwarding)
    if protocol == "tom":
        paths = [len(structure.labels.path(source, top)) for source in sources]
        return replace(setting, path=sum(paths) / len(paths), forwarding=forwarding)
    return setting


def _of_metagroups(
    setting: FormulaTerms, structure: Structure, group: Group, forwarding: int
) -> FormulaTerms:
    delegates = quotient(structure.table).table.groups[group]
    top = structure.depth(structure.primary(group))
    return replace(
        setting,
        depth=max(structure.depth(site) for site in delegates) - top,
        metagroups=len(delegates),
        forwarding=forwarding,
    )


def _edges(structure: Structure, group: Group) -> list[tuple[Site, Site]]:
    """Parent and child on the ways from the primary down to the members, each once."""
    top, found = structure.primary(group), dict[tuple[Site, Site], None]()
    for member in structure.groups[group]:
        site = member
        while site != top:
            above = structure.parent(site)
            assert above is not None
            found[above, site] = None
            site = above
    return list(found)
