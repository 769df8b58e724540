"""A running site as an operator sees it: the object that `ordercast status` prints."""

import time
from dataclasses import asdict
from typing import Any

from ordercast.companion import CODE
from ordercast.core.dissemination.registry import UNICAST
from ordercast.core.epochs.member import Member
from ordercast.core.observation import holders, observations, untold
from ordercast.model.version import __version__
from ordercast.net.link.combined_transport import CombinedTransport
from ordercast.net.link.tls import EXPIRES_SOON_DAYS
from ordercast.net.site.layout_view import (
    absences_told,
    changes_told,
    epochs_told,
    producers_told,
)
from ordercast.net.site.named_readers import reader_warnings
from ordercast.net.site.presence import NOT_FOUNDED
from ordercast.net.site.running_site import RunningSite
from ordercast.wire.codec import CODECS

_NOT_THERE = ("no majority", "excluded", "returning")
_UNFED = "no manager has been heard lately"
_FIRST_DIAL_S = 1.0


def status_of(site: RunningSite) -> dict[str, Any]:
    """Plain data; see docs/operations.md for every field."""
    core, stream, cluster = site.core, site.stream, site.cluster
    own, limits, layout = core.window, core.options.limits, core.layout
    home = layout.home(site.site)
    return {
        "site": site.site,
        "cluster": cluster.name,
        "version": __version__,
        "code": CODE,
        "wire": [min(CODECS), max(CODECS)],
        "features": {"program": list(core.features), "used": list(layout.features)},
        "boot": site.boot,
        "incarnation": site.incarnation,
        "admitted": site.admitted,
        "epoch": 0 if home is None else home.epoch,
        "protocol": cluster.protocol if home is None else home.protocol,
        "deliver": cluster.deliver,
        "on_failure": cluster.on_failure,
        "durability": cluster.durability,
        "standing": site.presence.state(),
        "why_not": site.presence.why_not(),
        "attempt": stream.attempt,
        "rolled_back": stream.rolled_back(),
        "position": stream.delivered,
        "logged": core.logged,
        "settled": site.settled(),
        "confirmed": stream.confirmed,
        "lag": stream.lag,
        "readers": site.named.status(),
        "producers": producers_told(core),
        "window": {
            "messages": own.unstable + core.admission.messages,
            "bytes": own.unstable_bytes + core.admission.bytes,
            "limit_messages": limits.window_messages,
            "limit_bytes": limits.window_bytes,
            "held_by": held_by(core),
        },
        "stability": stability_told(core),
        "groups": site.traffic.told(),
        "times": site.traffic.times.told(),
        "epochs": epochs_told(layout),
        "passages": site.passages.told(),
        "records": layout.count,
        "voters": list(layout.voters),
        "manager": manager_of(core) if site.presence.in_majority else None,
        "changes": changes_told(core),
        **absences_told(layout),
        "suspects": core.manager.suspects(time.monotonic_ns()),
        "apart": [list(pair) for pair in core.manager.apart()],
        "queues": _queues(core),
        "links": [asdict(link) for link in site.transport.links()],
        "relayed": asdict(site.transport.relayed()),
        "dissemination": _dissemination(site),
        "certificate_ends_s": _certificate_ends(site),
        "store": {
            "path": str(getattr(site.store, "path", "")),
            "bytes": site.store.bytes(),
            "commits": site.store.commit_times.told(),
            "failed": _failure(site),
        },
        "quiet": site.quiet(),
        "replicas": site.digests.told(),
        "holds_others": stream.holding or _failure(site) is not None,
        "clock_ns": time.time_ns(),
        "uptime_s": round((time.time_ns() - site.started_ns) / 1e9, 3),
    }


def manager_of(core: Member) -> str | None:
    """The manager that was heard last."""
    return core.name if core.manager.leads else core.manager_at


def held_by(core: Member) -> list[str]:
    """The sites that this site's own messages wait for, to be stable."""
    return sorted({site for engine in core.engines.values() for site in holders(engine)})


def stability_told(core: Member) -> dict[str, Any]:
    """What the stability tracker of the site's own domain measures."""
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
    """The queues of the site's domain, and of domains that it only sends to: names of the latter
    have the epoch."""
    home = core.layout.home(core.name)
    found: list[dict[str, Any]] = []
    for epoch, engine in core.engines.items():
        where = "" if home is not None and epoch == home.epoch else f"epoch {epoch}: "
        found.extend(
            {"name": where + name, "value": value, "limit": limit}
            for name, value, limit in observations(engine)
        )
    return found


def _dissemination(site: RunningSite) -> dict[str, Any]:
    transport = site.transport
    return transport.status() if isinstance(transport, CombinedTransport) else {"chosen": UNICAST}


def _certificate_ends(site: RunningSite) -> int | None:
    """In how many seconds the certificate expires. None: the cluster has none."""
    at = site.transport.certificate_ends_at
    return None if at is None else at - int(time.time())


def _failure(site: RunningSite) -> str | None:
    failed = site.store.failed
    return None if failed is None else " ".join(str(failed).split())


def warnings(status: dict[str, Any]) -> list[str]:
    """Warnings: they need an operator soon, but the site itself is healthy. An earlier release
    tells of neither readers nor certificates."""
    return [*reader_warnings(status.get("readers", {})), *_ends_soon(status)]


def _ends_soon(status: dict[str, Any]) -> list[str]:
    ends = status.get("certificate_ends_s")
    if ends is None or ends >= EXPIRES_SOON_DAYS * 86_400:
        return []
    if ends <= 0:
        return ["its certificate has expired: no new link is made; 'ordercast certs' makes another"]
    left = f"{ends // 86_400:,} days" if ends >= 2 * 86_400 else f"{ends // 60} minutes"
    return [f"its certificate expires in {left}; 'ordercast certs' makes another"]


def troubles(status: dict[str, Any]) -> list[str]:
    """Why the site is not healthy; empty when it is. Links to excluded sites do not count."""
    found = []
    if status["store"]["failed"]:
        found.append(f"store: {status['store']['failed']}")
    if status["on_failure"] == "exclude" and status["standing"] in _NOT_THERE:
        why = status["why_not"] or _UNFED
        found.append(why if why.startswith(NOT_FOUNDED) else f"{status['standing']}: {why}")
    found.extend(
        f"replica of {group}: diverged: {told['diverged']}"
        for group, told in status["replicas"].items()
        if told["diverged"]
    )
    found.extend(
        f"link to {link['peer']}: {link['state']} for {link['since_s']:.0f} s"
        + (f" ({link['last_error']})" if link["last_error"] else "")
        for link in status["links"]
        if link["state"] not in ("connected", "idle")
        and link["peer"] not in status["excluded"]
        and not _is_first_dial(link)
    )
    return found


def _is_first_dial(link: dict[str, Any]) -> bool:
    """A link is made when something is to be sent. Until a dial has failed, or takes long, nothing
    is wrong with it."""
    return (
        link["state"] == "dialling" and not link["last_error"] and link["since_s"] < _FIRST_DIAL_S
    )
