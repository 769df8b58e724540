"""A running site as an operator sees it: the object that `ordercast status` prints."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ordercast.core.dissemination.registry import UNICAST
from ordercast.core.epochs.member import Member
from ordercast.core.observation import holders, untold
from ordercast.net.link.combined_transport import CombinedTransport
from ordercast.net.site.layout_view import absences_told, changes_told, epochs_told

if TYPE_CHECKING:
    from ordercast.net.site.node import Node

_NOT_THERE = ("no majority", "excluded", "returning")
_UNFED = "no manager has been heard lately"


def status_of(node: "Node") -> dict[str, Any]:
    """Plain data; see docs/operations.md for every field."""
    core, stream, cluster = node.core, node.stream, node.cluster
    own, limits, layout = core.window, core.options.limits, core.layout
    home = layout.home(node.site)
    return {
        "site": node.site,
        "cluster": cluster.name,
        "boot": node.boot,
        "incarnation": node.incarnation,
        "admitted": node.admitted,
        "epoch": 0 if home is None else home.epoch,
        "protocol": cluster.protocol if home is None else home.protocol,
        "deliver": cluster.deliver,
        "on_failure": cluster.on_failure,
        "durability": cluster.durability,
        "standing": node.standing.state(),
        "why_not": node.standing.why_not(),
        "attempt": stream.attempt,
        "rolled_back": stream.rolled_back(),
        "position": stream.delivered,
        "logged": core.logged,
        "settled": node.settled(),
        "confirmed": stream.confirmed,
        "lag": stream.lag,
        "window": {
            "messages": own.unstable + node.outgoing.waiting_messages,
            "bytes": own.unstable_bytes + node.outgoing.waiting_bytes,
            "limit_messages": limits.window_messages,
            "limit_bytes": limits.window_bytes,
            "held_by": held_by(core),
        },
        "stability": stability_told(core),
        "epochs": epochs_told(layout),
        "records": layout.count,
        "voters": list(layout.voters),
        "manager": manager_of(core) if node.standing.in_majority else None,
        "changes": changes_told(core),
        **absences_told(layout),
        "suspects": core.manager.suspects(time.monotonic_ns()),
        "queues": _queues(core),
        "links": [asdict(link) for link in node.transport.links()],
        "dissemination": _dissemination(node),
        "store": {
            "path": str(getattr(node.store, "path", "")),
            "bytes": node.store.bytes(),
            "failed": _failure(node),
        },
        "quiet": core.quiet() and not node.outgoing.waiting_messages,
        "holds_others": stream.holding or _failure(node) is not None,
        "uptime_s": round((time.time_ns() - node.started_ns) / 1e9, 3),
    }


def manager_of(core: Member) -> str | None:
    """The site that led the voters when one was last heard of."""
    return core.name if core.manager.leads else core.manager_at


def held_by(core: Member) -> list[str]:
    """Whose silence keeps this site's own messages from being stable."""
    return sorted({site for engine in core.engines.values() for site in holders(engine)})


def stability_told(core: Member) -> dict[str, Any]:
    """How tracking gets on in the site's own domain."""
    home = core.layout.home(core.name)
    found: dict[str, Any] = {"tracker": core.options.stability}
    if home is None:
        return found
    engine = core.engines[home.epoch]
    progress = engine.stability.progress()
    return found | {
        "unstable": progress.unstable,
        "rounds": progress.rounds,
        "round_ms": round(progress.round_ns / 1e6, 3),
        "limit": progress.limit,
        "to_stable_ms": round(progress.to_final_ns / 1e6, 3),
        "slowest_to_stable_ms": round(progress.slowest_to_final_ns / 1e6, 3),
        "measured": progress.measured,
        "all_to_stable_ms": round(progress.all_to_final_ns / 1e6, 3),
        "waits_for": list(progress.waits_for),
        "held_by": untold(engine),
    }


def _queues(core: Member) -> list[dict[str, Any]]:
    """Of the site's own domain as they are; of another, to which it sends, with its epoch."""
    home = core.layout.home(core.name)
    found: list[dict[str, Any]] = []
    for epoch, engine in core.engines.items():
        where = "" if home is not None and epoch == home.epoch else f"epoch {epoch}: "
        found.extend(
            {"name": where + name, "value": value, "limit": limit}
            for name, value, limit in engine.observations()
        )
    return found


def _dissemination(node: "Node") -> dict[str, Any]:
    transport = node.transport
    return transport.status() if isinstance(transport, CombinedTransport) else {"chosen": UNICAST}


def _failure(node: "Node") -> str | None:
    failed = node.store.failed
    return None if failed is None else " ".join(str(failed).split())


def troubles(status: dict[str, Any]) -> list[str]:
    """Why the site is not healthy; empty when it is. It goes on without those that are excluded."""
    found = []
    if status["store"]["failed"]:
        found.append(f"store: {status['store']['failed']}")
    if status["on_failure"] == "exclude" and status["standing"] in _NOT_THERE:
        found.append(f"{status['standing']}: {status['why_not'] or _UNFED}")
    found.extend(
        f"link to {link['peer']}: {link['state']} for {link['since_s']:.0f} s"
        + (f" ({link['last_error']})" if link["last_error"] else "")
        for link in status["links"]
        if link["state"] not in ("connected", "idle") and link["peer"] not in status["excluded"]
    )
    return found
