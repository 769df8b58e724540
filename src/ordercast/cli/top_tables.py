"""An overview of a cluster as tables for a terminal. It needs rich, of an extra."""

import time
from collections.abc import Iterable

from rich.console import Group as Stack
from rich.table import Table
from rich.text import Text

from ordercast.cli.runtime import absences, as_bytes, broken_links
from ordercast.net.client.overview import LinkOverview, Overview, QueueFill, SiteOverview

MOST_GROUPS = 20  # rows; the busiest
MOST_EPOCHS = 8  # rows; the last
STATES = {"up": "green", "unwell": "yellow", "down": "red"}
_FULL, _HALF = 0.9, 0.5  # of a limit: red, yellow


def headline(view: Overview) -> Text:
    up = sum(site.state == "up" for site in view.sites.values())
    told: list[str | tuple[str, str]] = [
        (view.cluster, "bold"),
        f"  {time.strftime('%H:%M:%S')}  {up} of {len(view.sites):,} sites up",
        f"  {_rate(view.rate)} deliveries/s",
        f"  manager {view.manager or 'none'}",
    ]
    found = Text.assemble(*told)
    if view.flushing:
        found.append("  flushing", "yellow")
    for change in view.changes:
        waits = f", waits for {', '.join(change.waits_for)}" if change.waits_for else ""
        found.append(f"  change: {'; '.join(change.edits)}{waits}", "yellow")
    return found


def troubles(view: Overview) -> Text | None:
    """What is wrong, a line each; None if nothing is."""
    frozen = {group.group: group.frozen for group in view.groups.values() if group.frozen}
    lines = [
        *(f"{site.site}: {why}" for site in view.sites.values() for why in site.reasons),
        *(f"{site.site}: {why}" for site in view.sites.values() for why in site.warnings),
        *broken_links(view.apart),
        *absences(view.excluded, frozen, decided=view.manager is not None),
    ]
    return Text("\n".join(lines), style="yellow") if lines else None


def site_table(view: Overview) -> Table:
    table = _table(
        "site", "state", ("per s", True), ("position", True), ("lag", True), ("queue", True),
        ("unstable", True), ("window", True), "held by", ("links", True),
    )  # fmt: skip
    for site in view.sites.values():
        table.add_row(*_site(site))
    return table


def _site(site: SiteOverview) -> Iterable[Text | str]:
    yield site.site
    yield Text(site.state, STATES.get(site.state, ""))
    if not site.known:
        yield from [""] * 8
        return
    yield _rate(site.rate)
    yield f"{site.position:,}"
    yield Text(f"{site.lag:,}", "yellow" if site.holds_others else "")
    yield Text(f"{site.queued:,}", _fill(site.fullest))
    by = f" ({', '.join(site.unstable_by)})" if site.unstable_by else ""
    yield f"{site.unstable:,}{by}"
    yield Text(f"{site.window.used:.0%}", _fill(site.window))
    yield ", ".join(site.held_by) or "-"
    yield Text(f"{site.links_up}/{site.links}", "" if site.links_up == site.links else "yellow")


def group_table(view: Overview) -> Table:
    """The groups with most messages."""
    table = _table(
        "group", ("per s", True), ("bytes/s", True), ("sent/s", True), ("delivered", True),
        "orders", "members",
    )  # fmt: skip
    groups = sorted(view.groups.values(), key=lambda each: (-(each.rate or 0), each.group))
    for group in groups[:MOST_GROUPS]:
        members = " ".join(group.members)
        if group.frozen:
            members = f"frozen until {' or '.join(group.frozen)} returns"
        name = {"@": "(lists)", "*": "(others)"}.get(group.group, group.group)
        size = "-" if group.bytes_rate is None else as_bytes(group.bytes_rate)
        counts = (_rate(group.rate), size, _rate(group.sent_rate), f"{group.delivered:,}")
        table.add_row(name, *counts, group.primary, members)
    if len(groups) > MOST_GROUPS:
        table.add_row(f"and {len(groups) - MOST_GROUPS:,} more", *[""] * 6)
    return table


def epoch_table(view: Overview) -> Table:
    """The open epochs, and the last that passed."""
    table = _table("epoch", "opened", ("pause", True), "protocol", "sites", "why")
    known = {passage.epoch for passage in view.passages}
    for epoch in view.epochs:
        if epoch.epoch not in known:
            sites = " ".join(epoch.sites)
            table.add_row(f"{epoch.epoch:,}", "before", "", epoch.protocol, sites, epoch.closing)
    for passage in view.passages[-MOST_EPOCHS:]:
        at = time.strftime("%H:%M:%S", time.localtime(passage.at_ns / 1e9))
        pause = "-" if passage.pause_ms is None else f"{passage.pause_ms:,.0f} ms"
        sites = " ".join(passage.sites)
        table.add_row(
            f"{passage.epoch:,}", at, pause, passage.protocol, sites, passage.reason or "-"
        )
    return table


def link_table(view: Overview) -> Table:
    """Each two sites once, as both of them see it."""
    table = _table("link", "state", ("there", True), ("back", True), ("waiting", True), "remark")
    ends = {(link.site, link.peer): link for link in view.links}
    for (site, peer), link in ends.items():
        other = ends.get((peer, site))
        if other is not None and peer < site:
            continue
        state = link.state
        if other is not None and other.state != state:
            state = f"{state} / {other.state}"
        waiting = link.waiting_bytes + (0 if other is None else other.waiting_bytes)
        colour = "" if state in ("connected", "idle") else "yellow"
        table.add_row(
            f"{site} - {peer}", Text(state, colour), _bytes(link.out_rate), _bytes(link.in_rate),
            as_bytes(waiting), _remark(link, other),
        )  # fmt: skip
    return table


def _remark(link: LinkOverview, other: LinkOverview | None) -> str:
    if link.through:
        return f"through {link.through}"
    if link.state == "connected":
        return ""
    return link.last_error or (other.last_error if other is not None else "")


def whole(view: Overview) -> Stack:
    """All of it, one below the other."""
    wrong = troubles(view)
    parts: list[Text | Table] = [headline(view), Text("")]
    if wrong is not None:
        parts += [wrong, Text("")]
    tables = (site_table(view), group_table(view), epoch_table(view), link_table(view))
    for table in tables:
        if table.row_count:
            parts += [table, Text("")]
    return Stack(*parts)


def _table(*columns: str | tuple[str, bool]) -> Table:
    """A column is its name, and whether numbers are in it."""
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for column in columns:
        name, numbers = (column, False) if isinstance(column, str) else column
        table.add_column(
            name,
            justify="right" if numbers else "left",
            no_wrap=numbers or name in ("site", "state", "group", "link"),
        )
    return table


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _bytes(value: float | None) -> str:
    return "-" if value is None else f"{as_bytes(value)}/s"


def _fill(queue: QueueFill) -> str:
    if queue.used >= _FULL:
        return "red"
    return "yellow" if queue.used >= _HALF else ""
