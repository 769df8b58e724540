"""A site's status as Prometheus metrics (the extra `metrics`)."""

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
NEEDS_EXTRA: Final = "metrics need the extra 'metrics' (pip install 'ordercast[metrics]')"

_Labels: TypeAlias = tuple[str, ...]

# Name, meaning, and where the status has the value.
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
_TIMES = (
    ("send_to_ordered_seconds", "From sending here to its place in the order", "ordered"),
    ("send_to_stable_seconds", "From sending here to stable everywhere", "stable"),
    ("send_to_delivered_seconds", "From sending here to delivered here", "delivered"),
)
_GROUP_COUNTERS = (
    ("group_sent_messages", "Messages sent here to the group", "sent"),
    ("group_delivered_messages", "Messages of the group delivered here", "delivered"),
    ("group_delivered_bytes", "Bytes of the group delivered here", "bytes"),
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
    ("link_connections", "Connections made to or by the peer", "connections"),
    ("link_mistakes", "Times that the peer said what it may not", "mistakes"),
)
_LINK_TRAFFIC = (
    ("link_bytes", "Bytes over the link", "bytes"),
    ("link_frames", "Frames over the link", "frames"),
)
_RELAY_COUNTERS = (
    ("relayed_pipes_opened", "Pipes of other sites that were opened here", "opened"),
    ("relayed_pipes_refused", "Pipes that other sites wanted and did not get here", "refused"),
    ("relayed_bytes", "Bytes of other sites' pipes", "bytes"),
)
_READERS = (
    ("reader_lag_positions", "Positions that a named reader has not passed", "lag"),
    ("reader_held_bytes", "Bytes that the store keeps for a named reader", "held_bytes"),
    ("reader_held_seconds", "Age of the first message kept for a named reader", "held_s"),
    ("reader_limit_used", "Of a named reader's limit; beyond 1 it finds a gap", "limit_used"),
    ("reader_followers", "Followers of a named reader, in line or having the turn", "followers"),
)
_DIRECTIONS = ("in", "out")


def exposition(status: dict[str, Any]) -> bytes | None:
    """The text that a scraper reads. None: the extra is not installed."""
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
    make = _Families({"cluster": status["cluster"], "site": status["site"]})
    for name, help_text, path in _GAUGES:
        value: Any = status
        for key in path:
            value = value[key]
        yield make.gauge(name, help_text, value)
    for name, help_text, value in (
        ("manager", "1 while this site leads the voters", status["manager"] == status["site"]),
        ("open_epochs", "Domains of the cluster, each in its epoch", len(status["epochs"])),
        ("changes", "Changes of the cluster under way", len(status["changes"])),
        ("in_majority", "1 while a majority of the voters is heard of", _in_majority(status)),
        ("present", "1 while this site takes part in its groups", _is_present(status)),
        ("flushing", "1 while epochs are closed because of a failure", bool(status["flush"])),
        ("clock_seconds", "The site's clock, in seconds since 1970", status["clock_ns"] / 1e9),
    ):
        yield make.gauge(name, help_text, value)
    yield make.flags("program", "1 for the version of the program", "version", [status["version"]])
    yield from _times(make, status)
    for name, help_text, field in _GROUP_COUNTERS:
        counts = [((group,), told[field]) for group, told in status["groups"].items()]
        yield make.counters(name, help_text, ("group",), counts)
    yield make.flags(
        "suspect", "1 for each site whose silence is unusual; at the manager", "of",
        status["suspects"],
    )  # fmt: skip
    yield make.gauges(
        "apart", "1 for each two sites that do not hear each other; at the manager",
        ("one", "other"), [((one, other), 1) for one, other in status["apart"]],
    )  # fmt: skip
    yield make.flags(
        "excluded", "1 for each site that is excluded, as far as is known", "of",
        status["excluded"],
    )  # fmt: skip
    yield make.flags(
        "frozen", "1 for each group whose members are all excluded", "group", status["frozen"]
    )
    if (ends := status["certificate_ends_s"]) is not None:
        yield make.gauge("certificate_ends_seconds", "Until the certificate expires", ends)
    failed = status["store"]["failed"] is not None
    yield make.gauge("store_failed", "1 while the store cannot be written", failed)
    yield make.flags(
        "replica_diverged", "1 for each group whose replica here differs from another", "group",
        [group for group, told in status["replicas"].items() if told["diverged"]],
    )  # fmt: skip
    yield make.flags(
        "window_held_by", "1 for each site that holds this site's window", "by",
        status["window"]["held_by"],
    )  # fmt: skip
    yield from _readers(make, status["readers"])
    yield from _stability(make, status["stability"])
    yield from _dissemination(make, status["dissemination"])
    for which in ("value", "limit"):
        values = [((queue["name"],), queue[which]) for queue in status["queues"]]
        yield make.gauges(f"queue_{which}", f"The {which} of each queue", ("queue",), values)
    yield from _links(make, status["links"])
    yield from _relayed(make, status["relayed"])
    troubles = [((cause,), count) for cause, count in status["link_troubles"].items()]
    help_text = "Connections with sites and strangers that were refused or ended, by their cause"
    yield make.counters("link_troubles", help_text, ("cause",), troubles)
    yield from _clients(make, status.get("clients", {}))


def _times(make: "_Families", status: dict[str, Any]) -> "Iterator[Metric]":
    for name, help_text, stage in _TIMES:
        yield make.histogram(name, help_text, status["times"][stage])
    help_text = "How long a commit of the store takes"
    yield make.histogram("store_commit_seconds", help_text, status["store"]["commits"])
    pauses = [each["pause_ms"] for each in status["passages"] if each["pause_ms"] is not None]
    help_text = "How long the last epochs that closed took to open the next"
    yield make.gauges(
        "epoch_pause_seconds", help_text, (), [((), pause / 1e3) for pause in pauses[-1:]]
    )


def _readers(make: "_Families", readers: dict[str, dict[str, Any]]) -> "Iterator[Metric]":
    for name, help_text, field in _READERS:
        values = [((reader,), told[field]) for reader, told in readers.items()]
        yield make.gauges(name, help_text, ("reader",), values)


def _stability(make: "_Families", stability: dict[str, Any]) -> "Iterator[Metric]":
    tracker = (stability["tracker"],)
    for name, help_text, key, unit in _STABILITY:
        values = [(tracker, stability.get(key, 0) * unit)]
        yield make.gauges(name, help_text, ("tracker",), values)
    for name, help_text, key, unit in _STABILITY_COUNTERS:
        values = [(tracker, stability.get(key, 0) * unit)]
        yield make.counters(name, help_text, ("tracker",), values)
    yield make.flags(
        "stability_waits_for", "1 for each site that a round waits for", "of",
        stability.get("waits_for", ()),
    )  # fmt: skip
    yield make.flags(
        "stability_held_by", "1 for each site that holds stability back", "by",
        stability.get("held_by", ()),
    )  # fmt: skip


def _dissemination(make: "_Families", status: dict[str, Any]) -> "Iterator[Metric]":
    served = [(way, 1) for way in status.get("ways", {}).items()]
    yield make.gauges(
        "served_by", "1 for each peer, by the way it is served", ("peer", "way"), served
    )
    counts = [((what,), count) for what, count in status.get("counts", {}).items()]
    yield make.counters("dissemination", "What goes to many, by what is counted", ("what",), counts)


def _links(make: "_Families", links: list[dict[str, Any]]) -> "Iterator[Metric]":
    up = [((link["peer"],), link["state"] == "connected") for link in links]
    yield make.gauges("link_up", "1 while there is a connection with the peer", ("peer",), up)
    through = [((link["peer"], link["through"]), 1) for link in links if link["through"]]
    help_text = "1 for each peer that is reached through another site"
    yield make.gauges("link_through", help_text, ("peer", "relay"), through)
    for name, help_text, field in _LINK_COUNTERS:
        counts = [((link["peer"],), link[field]) for link in links]
        yield make.counters(name, help_text, ("peer",), counts)
    for name, help_text, field in _LINK_TRAFFIC:
        traffic = [((link["peer"], d), link[f"{field}_{d}"]) for link in links for d in _DIRECTIONS]
        yield make.counters(name, help_text, ("peer", "direction"), traffic)


def _relayed(make: "_Families", relayed: dict[str, int]) -> "Iterator[Metric]":
    pipes = relayed["pipes"]
    yield make.gauge("relayed_pipes", "Pipes of other sites through this one", pipes)
    for name, help_text, field in _RELAY_COUNTERS:
        yield make.counters(name, help_text, (), [((), relayed[field])])


def _clients(make: "_Families", clients: dict[str, Any]) -> "Iterator[Metric]":
    """Only of a daemon: a site that an application embeds has no clients."""
    there = [((subject,), count) for subject, count in clients.get("connected", {}).items()]
    yield make.gauges("clients", "Connected clients, by who they are", ("subject",), there)
    refused = [((row["subject"], row["act"]), row["count"]) for row in clients.get("refused", ())]
    help_text = "Requests of clients that had no grant for them"
    yield make.counters("client_refusals", help_text, ("subject", "act"), refused)
    help_text = "Connections of clients and strangers that were ended for a mistake of theirs"
    dropped = [((), clients["dropped"])] if clients else []
    yield make.counters("clients_dropped", help_text, (), dropped)


class _Families:
    """Makes metrics. Each has the labels of this site before its own."""

    def __init__(self, own: dict[str, str]) -> None:
        self._names, self._values = list(own), list(own.values())

    def gauge(self, name: str, help_text: str, value: float) -> "Metric":
        return self.gauges(name, help_text, (), [((), value)])

    def flags(self, name: str, help_text: str, label: str, of: Iterable[str]) -> "Metric":
        """A metric with 1 for each of these values of a label."""
        return self.gauges(name, help_text, (label,), [((value,), 1) for value in of])

    def gauges(
        self, name: str, help_text: str, labels: _Labels, values: Iterable[tuple[_Labels, float]]
    ) -> "Metric":
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(f"ordercast_{name}", help_text, labels=[*self._names, *labels])
        for own, value in values:
            family.add_metric([*self._values, *own], float(value))
        return family

    def counters(
        self, name: str, help_text: str, labels: _Labels, values: Iterable[tuple[_Labels, float]]
    ) -> "Metric":
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(f"ordercast_{name}", help_text, labels=[*self._names, *labels])
        for own, value in values:
            family.add_metric([*self._values, *own], float(value))
        return family

    def histogram(self, name: str, help_text: str, told: dict[str, Any]) -> "Metric":
        from prometheus_client.core import HistogramMetricFamily

        family = HistogramMetricFamily(f"ordercast_{name}", help_text, labels=self._names)
        bounds = ["+Inf" if bound is None else f"{bound:g}" for bound, _ in told["buckets"]]
        counts = accumulate(float(count) for _, count in told["buckets"])
        family.add_metric(self._values, list(zip(bounds, counts, strict=True)), told["sum_s"])
        return family


def _in_majority(status: dict[str, Any]) -> bool:
    return bool(status["standing"] != "no majority")


def _is_present(status: dict[str, Any]) -> bool:
    return status["standing"] in ("present", "flushing")
