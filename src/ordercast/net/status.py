"""A running site as an operator sees it: the object that `ordercast status` prints."""

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ordercast.core.holders import holders
from ordercast.core.observe import observe

if TYPE_CHECKING:
    from ordercast.net.node import Node


def status_of(node: "Node") -> dict[str, Any]:
    """Plain data; see docs/operations.md for every field."""
    core, stream, cluster = node.core, node.stream, node.cluster
    own, limits = core.own, core.options.limits
    return {
        "site": node.site,
        "cluster": cluster.name,
        "boot": node.boot,
        "incarnation": node.incarnation,
        "epoch": core.structure.epoch,
        "protocol": cluster.protocol,
        "deliver": cluster.deliver,
        "on_failure": cluster.on_failure,
        "durability": cluster.durability,
        "position": stream.delivered,
        "logged": core.gate.logged,
        "confirmed": stream.confirmed,
        "lag": stream.lag,
        "window": {
            "messages": own.unstable + node.outgoing.waiting_messages,
            "bytes": own.unstable_bytes + node.outgoing.waiting_bytes,
            "limit_messages": limits.window_messages,
            "limit_bytes": limits.window_bytes,
            "held_by": holders(core),
        },
        "queues": [
            {"name": name, "value": value, "limit": limit} for name, value, limit in observe(core)
        ],
        "links": [asdict(link) for link in node.transport.links()],
        "store": {
            "path": str(getattr(node.store, "path", "")),
            "bytes": node.store.bytes(),
            "failed": _failure(node),
        },
        "quiet": core.quiet() and not node.outgoing.waiting_messages,
        "holds_others": stream.holding or _failure(node) is not None,
        "uptime_s": round((time.time_ns() - node.started_ns) / 1e9, 3),
    }


def _failure(node: "Node") -> str | None:
    failed = node.store.failed
    return None if failed is None else " ".join(str(failed).split())


def troubles(status: dict[str, Any]) -> list[str]:
    """Why the site is not healthy; empty when it is."""
    found = []
    if status["store"]["failed"]:
        found.append(f"store: {status['store']['failed']}")
    found.extend(
        f"link to {link['peer']}: {link['state']} for {link['since_s']:.0f} s"
        + (f" ({link['last_error']})" if link["last_error"] else "")
        for link in status["links"]
        if link["state"] not in ("connected", "idle")
    )
    return found
