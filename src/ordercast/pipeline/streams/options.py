"""The options of the format `ordercast`, spelt as Kafka's where that has them.

A mistake is one line that names the option and its value.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Group, Site
from ordercast.model.names import nearest, require_name, shown
from ordercast.pipeline.streams.offsets import Offsets, offsets_in

EARLIEST, LATEST = "earliest", "latest"
DEFAULT_READER = "spark"  # of queries that earlier releases have begun without a name
TIMEOUT_S = 60.0

_PLACES = ("nodes", "dir", "cert", "key", "ca", "secret", "timeout")
_SOURCE = (
    "history", "store", "run", "sites", "subscribe", "startingOffsets", "endingOffsets",
    "maxOffsetsPerTrigger", "maxRecordsPerPartition", "failOnDataLoss", "includeHeaders",
    "includeRollbacks", "readerName", *_PLACES,
)  # fmt: skip
_SINK = ("group", "producer", "stagingLocation", "site", *_PLACES)
_SPARKS = ("path", "checkpointLocation", "queryName")  # Spark's own, which come along
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")  # as `dbfs:/chk`, which is no folder here


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """The addresses of daemons, and the credentials of this program. `nodes`: addresses, or the
    cluster file of sites on this machine. `timeout_s`: how long a daemon may be away."""

    nodes: str
    dir: str | None
    cert: str | None
    key: str | None
    ca: str | None
    secret: str | None
    timeout_s: float


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Of `nodes`, `history` and `store` one is given. `groups`: None for all. `rollbacks`: read
    also what may be taken back, and tell when it is. `has_own_reader`: its name was given."""

    nodes: NodeOptions | None
    history: Path | None
    store: Path | None
    run: str | None
    sites: tuple[Site, ...]
    groups: tuple[Group, ...] | None
    starting: str | Offsets
    ending: str | Offsets
    most_positions: int | None
    most_in_partition: int | None
    fail_on_data_loss: bool
    headers: bool
    rollbacks: bool
    reader: str
    has_own_reader: bool

    def require_own_reader(self) -> None:
        """Where a query begins. Spark tells a source nothing that two queries do not share, so no
        name can be made up: with one name the query that is ahead would free messages that the
        other has yet to read."""
        if self.nodes is not None and not self.has_own_reader:
            raise ConfigError(
                "readerName: is missing; a query of nodes keeps its place at the sites under a name"
                f" that no other query has ({DEFAULT_READER!r} is the one of queries that began"
                " without a name under an earlier release)"
            )


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """`producer`: "" for one that is named after the query."""

    nodes: NodeOptions
    site: Site | None
    group: Group | None
    producer: str
    staging: Path


def source_options(given: Mapping[str, str]) -> SourceOptions:
    options = _Given(given, _SOURCE)
    history = options.path("history") or options.path("path")
    places = {"nodes": options.get("nodes"), "history": history, "store": options.path("store")}
    named = [name for name, value in places.items() if value is not None]
    if len(named) != 1:
        told = " and ".join(named) or "none of them is given"
        raise ConfigError(f"one of nodes, history and store says what is read: {told}")
    subscribe, reader = options.get("subscribe"), options.get("readerName")
    return SourceOptions(
        nodes=options.node_options() if named == ["nodes"] else None,
        history=history,
        store=options.path("store"),
        run=options.get("run"),
        sites=options.names("sites"),
        groups=None if subscribe in (None, "*") else options.names("subscribe"),
        starting=options.offsets("startingOffsets", EARLIEST),
        ending=options.offsets("endingOffsets", LATEST),
        most_positions=options.number("maxOffsetsPerTrigger"),
        most_in_partition=options.number("maxRecordsPerPartition"),
        fail_on_data_loss=options.truth("failOnDataLoss", True),
        headers=options.truth("includeHeaders", False),
        rollbacks=options.truth("includeRollbacks", False),
        reader=DEFAULT_READER if reader is None else require_name(reader, "readerName"),
        has_own_reader=reader is not None,
    )


def query_options(given: Mapping[str, str]) -> SourceOptions:
    """The options of a stream, which has no end."""
    if any(name.lower() == "endingoffsets" for name in given):
        raise ConfigError(
            "endingOffsets: is for spark.read; a stream goes on, or ends with what is there when it"
            " begins: trigger(availableNow=True)"
        )
    return source_options(given)


def sink_options(given: Mapping[str, str]) -> SinkOptions:
    options = _Given(given, _SINK)
    if options.get("nodes") is None:
        raise ConfigError("nodes: is missing; it says which daemons are sent to")
    group, producer, site = options.get("group"), options.get("producer"), options.get("site")
    return SinkOptions(
        nodes=options.node_options(),
        site=None if site is None else require_name(site, "site"),
        group=None if group is None else require_name(group, "group"),
        producer="" if producer is None else require_name(producer, "producer"),
        staging=_staging(options),
    )


def _staging(options: "_Given") -> Path:
    """Tasks and the driver write there. They may have other working directories."""
    found = options.path("stagingLocation")
    if found is not None:
        return _whole("stagingLocation", found)
    text = options.get("checkpointLocation")
    if text is None:
        raise ConfigError(
            "stagingLocation: is missing; name a folder that the driver and all executors share, or"
            " give checkpointLocation as an option of the query"
        )
    try:
        checkpoint = options.path("checkpointLocation")
    except ConfigError:
        raise ConfigError(
            f"checkpointLocation: {shown(text)} cannot hold staged rows, which need a true link and"
            " fsync: name a folder that the driver and all executors share as stagingLocation"
        ) from None
    assert checkpoint is not None
    return _whole("checkpointLocation", checkpoint) / "ordercast"


def _whole(name: str, folder: Path) -> Path:
    if not folder.is_absolute():
        raise ConfigError(
            f"{name}: {shown(str(folder))} is a relative path, and tasks may run elsewhere: give"
            " the whole path of a folder that the driver and all executors share"
        )
    return folder


class _Given:
    """The options as Spark gives them: names in any case, values as text."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in given.items()}
        names = {name.lower(): name for name in (*known, *_SPARKS)}
        for name in given:
            if name.lower() not in names:
                hint = nearest(name, names.values())
                raise ConfigError(f"{name}: {shown(given[name])}: there is no such option{hint}")

    def get(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def path(self, name: str) -> Path | None:
        text = self.get(name)
        if text is None:
            return None
        plain = re.sub(r"^file:(//(localhost)?(?=/))?", "", text)
        if _SCHEME.match(plain) or plain.startswith("//") or not plain:
            raise ConfigError(f"{name}: {shown(text)} is not a folder of this machine")
        return Path(plain)

    def names(self, name: str) -> tuple[str, ...]:
        text = self.get(name)
        if text is None:
            return ()
        return tuple(sorted({require_name(each.strip(), name) for each in text.split(",")}))

    def number(self, name: str) -> int | None:
        text = self.get(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) < 2**62):
            raise ConfigError(f"{name}: {shown(text)} is not a whole number above 0")
        return int(text)

    def truth(self, name: str, default: bool) -> bool:
        text = self.get(name)
        if text is None:
            return default
        if text.lower() not in ("true", "false"):
            raise ConfigError(f"{name}: {shown(text)} is neither true nor false")
        return text.lower() == "true"

    def offsets(self, name: str, default: str) -> str | Offsets:
        text = self.get(name) or default
        return text if text in (EARLIEST, LATEST) else offsets_in(text, name)

    def node_options(self) -> NodeOptions:
        return NodeOptions(
            nodes=str(self.get("nodes")),
            dir=self.get("dir"),
            cert=self.get("cert"),
            key=self.get("key"),
            ca=self.get("ca"),
            secret=self.get("secret"),
            timeout_s=self._seconds("timeout"),
        )

    def _seconds(self, name: str) -> float:
        text = self.get(name)
        if text is None:
            return TIMEOUT_S
        try:
            found = float(text)
        except ValueError:
            found = 0.0
        if not 0 < found < 1e6:
            raise ConfigError(f"{name}: {shown(text)} is not a number of seconds above 0")
        return found
