"""Open epochs and changes under way as an operator reads them: plain data, for JSON."""

from typing import Any

from ordercast.core.epochs.layout import Domain, Layout
from ordercast.core.epochs.member import Member
from ordercast.core.structure import Structure
from ordercast.model.epochs import (
    ID_WINDOW,
    PRODUCERS,
    WINDOWS,
    AddGroup,
    AddProducer,
    AddSite,
    AddVoter,
    Edit,
    Grant,
    JoinGroup,
    LeaveGroup,
    RemoveGroup,
    RemoveProducer,
    RemoveVoter,
    RetireSite,
    RevokeCertificate,
    UseBuilder,
    UseGrants,
    Withdraw,
    is_client_mark,
    is_id_mark,
)
from ordercast.model.groups import Group, Site
from ordercast.model.messages import MARK_BITS, generation_in, in_generation


def epochs_told(layout: Layout) -> list[dict[str, Any]]:
    """Every open epoch. `closing` names the change that closes it; `extra` are its relays."""
    closing = {
        epoch: change for change, under_way in layout.closing.items() for epoch in under_way.epochs
    }
    return [_epoch(layout.domains[n], closing.get(n, "")) for n in sorted(layout.domains)]


def _epoch(domain: Domain, change: str) -> dict[str, Any]:
    structure = domain.structure
    return {
        "epoch": domain.epoch,
        "sites": list(domain.sites),
        "root": domain.root,
        "parents": {site: structure.parent(site) for site in domain.sites},
        "protocol": domain.protocol,
        "builder": domain.builder,
        "after": list(domain.after),
        "closing": change,
        "groups": groups_told(structure),
    }


def groups_told(structure: Structure) -> dict[Group, dict[str, Any]]:
    """The members of each group, the site that orders, and the relays that are no members."""
    return {
        group: {
            "members": list(structure.groups[group]),
            "primary": structure.primary(group),
            "extra": _extra(structure, group),
        }
        for group in sorted(structure.groups)
    }


def _extra(structure: Structure, group: Group) -> list[Site]:
    members, primary = structure.members(group), structure.primary(group)
    passed: dict[Site, None] = {primary: None}
    for member in members:
        at: Site | None = member
        while at is not None and at not in passed:
            passed[at] = None
            at = structure.parent(at)
    return sorted(site for site in passed if site not in members)


def changes_told(member: Member) -> list[dict[str, Any]]:
    """Changes under way. `waits_for`: the sites that have not closed yet; only the manager knows
    them, other sites say None."""
    return [
        {
            "change": change,
            "edits": [edit_told(edit) for edit in closing.edits],
            "closes": list(closing.epochs),
            "waits_for": member.manager.missing(change),
        }
        for change, closing in member.layout.closing.items()
    ]


def absences_told(layout: Layout) -> dict[str, Any]:
    """Under `exclude`: the excluded sites, each with the epoch that ended without it; the frozen
    groups, each with the sites that can settle it; the flush under way."""
    flush = layout.flushing
    return {
        "excluded": dict(sorted(layout.absent.items())),
        "frozen": {group: list(who) for group, (_, who) in sorted(layout.frozen.items())},
        "flush": None
        if flush is None
        else {
            "closes": list(flush.epochs),
            "members": list(flush.members),
            "excluded": sorted(flush.absent),
            "returning": [site for site in flush.members if site in layout.absent],
        },
    }


def producers_told(core: Member) -> list[dict[str, Any]]:
    """Each producer and group, with the last number as far as this site knows; for a group that
    remembers ids, how many ids there were."""
    layout, found = core.layout, []
    for (producer, group), ticket in sorted(layout.producers.items()):
        if producer in WINDOWS:
            told = _ids_told if producer == ID_WINDOW else _clients_told
            count = told(core, group) % (1 << MARK_BITS)
            found.append({"producer": producer, "group": group, "number": count})
            continue
        stream = (PRODUCERS, ticket, group)
        known = [engine.marks.marks.get(stream, 0) for engine in core.engines.values()]
        mark = max(layout.lasts.get(stream, 0), *known, 0)
        generation = generation_in(mark)
        number = mark - in_generation(generation, 0)
        told_of = {"producer": producer, "group": group, "number": number}
        found.append(told_of | ({"generation": generation} if generation else {}))
    return found


def _ids_told(core: Member, group: Group) -> int:
    """The last number of an id at the group, as far as this site knows."""
    windows = [engine.marks.windows.get(group) for engine in core.engines.values()]
    known = [window.last for window in windows if window is not None]
    return max(
        *known,
        *(n for (o, _, g), n in core.layout.lasts.items() if g == group and is_id_mark(o)),
        0,
        0,
    )


def _clients_told(core: Member, group: Group) -> int:
    """How many clients the group remembers, as far as this site knows."""
    windows = [engine.marks.client_windows.get(group) for engine in core.engines.values()]
    known = [len(window.entries) for window in windows if window is not None]
    lasts = core.layout.lasts
    return max(*known, sum(at[2] == group and is_client_mark(at[0]) for at in lasts), 0, 0)


def edit_told(edit: Edit) -> str:
    if isinstance(edit, JoinGroup):
        return f"{edit.site} joins {edit.group}"
    if isinstance(edit, LeaveGroup):
        return f"{edit.site} leaves {edit.group}"
    if isinstance(edit, AddGroup):
        return f"group {edit.group} is added, of {', '.join(edit.members)}"
    if isinstance(edit, RemoveGroup):
        return f"group {edit.group} is removed"
    if isinstance(edit, AddSite):
        return f"site {edit.site} is added" + (f" at {edit.address}" if edit.address else "")
    if isinstance(edit, RetireSite):
        return f"site {edit.site} is retired"
    if isinstance(edit, AddVoter):
        return f"site {edit.site} becomes a voter"
    if isinstance(edit, RemoveVoter):
        return f"site {edit.site} is a voter no longer"
    if isinstance(edit, Grant | Withdraw | UseGrants | RevokeCertificate):
        return _grant_told(edit)
    if isinstance(edit, AddProducer):
        if edit.producer in WINDOWS:
            return f"{edit.group} remembers {edit.producer[1:]}"
        return f"producer {edit.producer} may send to {edit.group}"
    if isinstance(edit, RemoveProducer):
        at = f" from {edit.group}" if edit.group else ""
        if edit.producer in WINDOWS:
            return f"{edit.producer[1:]} are forgotten{at}"
        return f"producer {edit.producer} is removed{at}"
    where = f" where {edit.site} is" if edit.site else ""
    if isinstance(edit, UseBuilder):
        return f"builder {edit.builder}{where}"
    return f"protocol {edit.protocol}{where}"


def _grant_told(edit: Grant | Withdraw | UseGrants | RevokeCertificate) -> str:
    if isinstance(edit, Grant):
        return f"{edit.subject} is granted {', '.join(edit.acts)}"
    if isinstance(edit, Withdraw):
        if not edit.acts:
            return f"{edit.subject} is granted nothing any more"
        return f"{edit.subject} is granted {', '.join(edit.acts)} no longer"
    if isinstance(edit, UseGrants):
        return f"the {len(edit.lines):,} grants of the cluster file"
    return f"the certificate {edit.fingerprint[:16]}… of {edit.subject} is revoked"
