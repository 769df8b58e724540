"""A site's status as Prometheus metrics (the extra `metrics`)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
NEEDS_EXTRA: Final = "metrics need the extra 'metrics' (pip install 'ordercast[metrics]')"

# Name, what it tells, where the status has it.
_GAUGES = (
    ("position", "Last position delivered", ("position",)),
    ("logged", "Last position in the ordered log", ("logged",)),
    ("confirmed", "Last position the application has confirmed", ("confirmed",)),
    ("lag_messages", "Delivered and not yet read by the application", ("lag",)),
    ("window_messages", "Sent here and not yet stable", ("window", "messages")),
    ("window_bytes", "Bytes sent here and not yet stable", ("window", "bytes")),
    ("window_limit_messages", "Limit of window_messages", ("window", "limit_messages")),
    ("window_limit_bytes", "Limit of window_bytes", ("window", "limit_bytes")),
    ("store_bytes", "Size of the store's files", ("store", "bytes")),
    ("holds_others", "1 while this site holds other sites up", ("holds_others",)),
    ("uptime_seconds", "Since this process opened the site", ("uptime_s",)),
    ("attempt", "One more than the rollbacks so far", ("attempt",)),
    ("epoch", "Epoch of the site's domain, 0 in none", ("epoch",)),
    ("records", "Records of the voters' log that the site has heard", ("records",)),
)
_STABILITY = (
    ("unstable_messages", "Logged here and not known to be stable", "unstable", 1.0),
    ("stability_rounds", "Rounds that have ended in this epoch", "rounds", 1.0),
    ("stability_round_seconds", "How long a round takes, as seen from here", "round_ms", 1e-3),
    ("stability_limit_messages", "Unstable messages that call for a round", "limit", 1.0),
    ("time_to_stable_seconds", "From the log to stable, the last seen", "to_stable_ms", 1e-3),
    (
        "slowest_to_stable_seconds",
        "From the log to stable, the slowest seen in this epoch",
        "slowest_to_stable_ms",
        1e-3,
    ),
)
_STABILITY_COUNTERS = (
    ("stability_measured", "Messages whose time to stable was measured", "measured", 1.0),
    ("stability_seconds", "Their times to stable, added up", "all_to_stable_ms", 1e-3),
)
_LINK_COUNTERS = (
    ("link_connections", "Connections made to or by the peer", "connections", ()),
    ("link_mistakes", "Times that the peer said what it may not", "mistakes", ()),
    ("link_bytes", "Bytes over the link", "bytes", ("in", "out")),
    ("link_frames", "Frames over the link", "frames", ("in", "out")),
)


def exposition(status: dict[str, Any]) -> bytes | None:
    """What a scraper reads; None where the extra is not installed."""
    try:
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import generate_latest
        from prometheus_client.registry import Collector
    except ImportError:
        return None

    class Snapshot(Collector):
        def collect(self) -> "Iterator[Metric]":
            return _families(status)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Snapshot())
    return generate_latest(registry)


def _families(status: dict[str, Any]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    own = {"cluster": status["cluster"], "site": status["site"]}
    names, values = list(own), list(own.values())

    def gauge(name: str, help_text: str, labels: tuple[str, ...] = ()) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"ordercast_{name}", help_text, labels=[*names, *labels])

    for name, help_text, path in _GAUGES:
        value: Any = status
        for key in path:
            value = value[key]
        family = gauge(name, help_text)
        family.add_metric(values, float(value))
        yield family
    for name, help_text, value in (
        ("manager", "1 while this site leads the voters", status["manager"] == status["site"]),
        ("open_epochs", "Domains of the cluster, each in its epoch", len(status["epochs"])),
        ("changes", "Changes of the cluster under way", len(status["changes"])),
        ("in_majority", "1 while a majority of the voters is heard of", _in_majority(status)),
        ("present", "1 while this site takes part in its groups", _is_present(status)),
        ("flushing", "1 while epochs are closed because of a failure", bool(status["flush"])),
    ):
        family = gauge(name, help_text)
        family.add_metric(values, float(value))
        yield family
    suspect = gauge("suspect", "1 for each site whose silence is unusual; at the manager", ("of",))
    for site in status["suspects"]:
        suspect.add_metric([*values, site], 1.0)
    yield suspect
    away = gauge("excluded", "1 for each site that is excluded, as far as is known", ("of",))
    for site in status["excluded"]:
        away.add_metric([*values, site], 1.0)
    yield away
    frozen = gauge("frozen", "1 for each group whose members are all excluded", ("group",))
    for group in status["frozen"]:
        frozen.add_metric([*values, group], 1.0)
    yield frozen
    failed = gauge("store_failed", "1 while the store cannot be written")
    failed.add_metric(values, float(status["store"]["failed"] is not None))
    yield failed
    held = gauge("window_held_by", "1 for each site that holds this site's window", ("by",))
    for site in status["window"]["held_by"]:
        held.add_metric([*values, site], 1.0)
    yield held
    stability = status["stability"]
    for name, help_text, key, unit in _STABILITY:
        family = gauge(name, help_text, ("tracker",))
        family.add_metric([*values, stability["tracker"]], stability.get(key, 0) * unit)
        yield family
    for name, help_text, key, unit in _STABILITY_COUNTERS:
        total = CounterMetricFamily(f"ordercast_{name}", help_text, labels=[*names, "tracker"])
        total.add_metric([*values, stability["tracker"]], stability.get(key, 0) * unit)
        yield total
    awaited = gauge("stability_waits_for", "1 for each site that a round waits for", ("of",))
    for site in stability.get("waits_for", ()):
        awaited.add_metric([*values, site], 1.0)
    yield awaited
    behind = gauge("stability_held_by", "1 for each site that holds stability back", ("by",))
    for site in stability.get("held_by", ()):
        behind.add_metric([*values, site], 1.0)
    yield behind
    yield from _disseminated(status["dissemination"], names, values)
    for which in ("value", "limit"):
        queue = gauge(f"queue_{which}", f"The {which} of each queue", ("queue",))
        for each in status["queues"]:
            queue.add_metric([*values, each["name"]], float(each[which]))
        yield queue
    up = gauge("link_up", "1 while there is a connection with the peer", ("peer",))
    for link in status["links"]:
        up.add_metric([*values, link["peer"]], float(link["state"] == "connected"))
    yield up
    for name, help_text, field, directions in _LINK_COUNTERS:
        labels = ["peer", "direction"] if directions else ["peer"]
        counter = CounterMetricFamily(f"ordercast_{name}", help_text, labels=[*names, *labels])
        for link in status["links"]:
            if not directions:
                counter.add_metric([*values, link["peer"]], float(link[field]))
            for direction in directions:
                counter.add_metric(
                    [*values, link["peer"], direction], float(link[f"{field}_{direction}"])
                )
        yield counter


def _disseminated(told: dict[str, Any], names: list[str], values: list[str]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    served = GaugeMetricFamily(
        "ordercast_served_by",
        "1 for each peer, by the way it is served",
        labels=[*names, "peer", "way"],
    )
    for peer, way in told.get("ways", {}).items():
        served.add_metric([*values, peer, way], 1.0)
    yield served
    counts = CounterMetricFamily(
        "ordercast_dissemination", "What goes to many, by what is counted", labels=[*names, "what"]
    )
    for what, count in told.get("counts", {}).items():
        counts.add_metric([*values, what], float(count))
    yield counts


def _in_majority(status: dict[str, Any]) -> bool:
    return bool(status["standing"] != "no majority")


def _is_present(status: dict[str, Any]) -> bool:
    return status["standing"] in ("present", "flushing")
