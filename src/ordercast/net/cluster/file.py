"""Reading a cluster file (TOML), or the same from plain data. Every mistake is a ConfigError of one
line with file, field, value and remedy."""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ordercast.core.dissemination.registry import MULTICAST, WAYS
from ordercast.core.order.registry import PROTOCOLS, misfit, protocol_named
from ordercast.core.stability.registry import TRACKERS
from ordercast.model.arguments import require_list
from ordercast.model.errors import ConfigError, reason
from ordercast.model.grants import Grants, read_grants
from ordercast.model.groups import Group, GroupTable, Site
from ordercast.model.limits import BODY_BYTES
from ordercast.model.names import nearest, require_distinct, require_keys, require_name, shown
from ordercast.model.options import DURABILITIES, LEVELS, POLICIES
from ordercast.net.cluster.addresses import is_loopback, parse_address
from ordercast.net.cluster.config import (
    Cluster,
    LimitsConfig,
    Retention,
    SiteConfig,
    Timeouts,
    TlsFiles,
)
from ordercast.net.cluster.directory import AROUND
from ordercast.net.cluster.measures import age_or_size, duration, size
from ordercast.net.cluster.multicast import MulticastConfig, read_multicast
from ordercast.plan.advice import AUTO, check_tie
from ordercast.plan.candidates import NAMED

LARGEST_FILE = 16 * 1024 * 1024  # bytes
MOST_VOTERS = 7
DEFAULT_VOTERS = 5  # of a roster larger than that
LOG_FORMS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")

_CHOICES = {
    "deliver": LEVELS,
    "on_failure": POLICIES,
    "durability": DURABILITIES,
    "slow_member": ("wait", "shed", "exclude"),
    "builder": (*NAMED, AUTO),
    "dissemination": WAYS,
    "log": LOG_FORMS,
    "log_level": LOG_LEVELS,
}
_TABLES = ("cluster", "limits", "timeouts", "tls", "multicast", "sites", "groups", "grants")
_CLUSTER = (
    "name", "dir", "protocol", "builder", "tie", "deliver", "on_failure", "causal", "stability",
    "durability", "voters", "retired", "slow_member", "unnamed_reader", "open", "insecure",
    "dissemination", "secret", "log", "log_level",
)  # fmt: skip
_BODY_OVERHEAD = 16  # bytes that packing one payload may add


def read_cluster(path: str | Path) -> Cluster:
    if not isinstance(path, (str, Path)):
        raise ConfigError(f"cluster: the path of a file is needed, not {shown(path)}")
    source = str(path)
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
        if len(data) > LARGEST_FILE:
            raise ConfigError(f"{source}: is larger than {LARGEST_FILE:,} bytes, no cluster file")
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{source}: {reason(error)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 text (byte {error.start})") from None
    except ValueError as error:  # e.g. a null character in the name
        raise ConfigError(f"{source!r}: {error}") from None
    return parse_cluster(text, source=source, base=Path(path).parent)


def parse_cluster(text: str, *, source: str, base: Path | None = None) -> Cluster:
    """The same from text; `base` is where relative directories begin."""
    if not text.strip():
        raise ConfigError(f"{source}: the file is empty")
    try:
        data = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{source}: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source}: nested too deeply for a cluster file") from None
    return cluster_of_data(data, source=source, base=base or Path())


def cluster_of_groups(
    groups: Mapping[Group, Sequence[Site]],
    *,
    sites: Sequence[Site] | None = None,
    addresses: Mapping[Site, str] | None = None,
    limits: Mapping[str, Any] | None = None,
    timeouts: Mapping[str, Any] | None = None,
    tls: Mapping[str, Any] | None = None,
    multicast: Mapping[str, Any] | None = None,
    grants: Mapping[str, Any] | None = None,
    **options: Any,
) -> Cluster:
    """A cluster without a file; options are those of `[cluster]`. A site without an address gets
    port 0 of the loopback: any free one."""
    names = GroupTable.of(groups).sites if sites is None else require_list(sites, "sites")
    given = dict(addresses or {})
    for site in given:
        if site not in names:
            raise ConfigError(f"addresses: there is no site {site!r}{nearest(site, names)}")
    data: dict[str, Any] = {
        "cluster": {"name": "local", **options},
        "sites": {site: {"address": given.get(site, "127.0.0.1:0")} for site in names},
        "groups": _lists(groups),
    }
    tables = {"limits": limits, "timeouts": timeouts, "tls": tls, "multicast": multicast}
    for table, values in {**tables, "grants": grants}.items():
        if values is not None:
            data[table] = dict(values)
    return cluster_of_data(data, source="cluster", base=Path(), any_port=True)


def _lists(groups: Mapping[Group, Sequence[Site]]) -> dict[Group, list[Site]]:
    return {g: list(require_list(members, f"groups.{g}")) for g, members in groups.items()}


def cluster_of_data(
    data: Mapping[str, Any], *, source: str, base: Path, any_port: bool = False
) -> Cluster:
    """The checked cluster of a file's data; `any_port` allows port 0, which no peer could dial."""
    require_keys(data, _TABLES, source, "table")
    given = _table(data, "cluster", source)
    require_keys(given, _CLUSTER, f"{source}: cluster")
    if "name" not in given:
        raise ConfigError(f"{source}: cluster.name is missing")
    name = require_name(given["name"], f"{source}: cluster.name")
    sites = _sites(_table(data, "sites", source), source, least_port=0 if any_port else 1)
    groups = _groups(data, sites, source)
    options = _options(given, source)
    certificates, insecure = _tls(_table(data, "tls", source), given, source, base)
    if certificates is None and not insecure:
        _require_loopback(sites, source)
    beside = base / AROUND / name
    place = base / _path(given["dir"], f"{source}: cluster.dir") if "dir" in given else beside
    secret = _secret(given, source, base, place, tls=certificates is not None, insecure=insecure)
    if certificates is None:
        _require_safe_doors(sites, source, secret=secret is not None)
    cluster = Cluster(
        name=name,
        sites=sites,
        groups=groups,
        dir=None if any_port and "dir" not in given else place,
        beside=None if any_port else beside,
        voters=_voters(given.get("voters"), sites, source),
        retired=_listed(given.get("retired", []), sites, f"{source}: cluster.retired"),
        tie=_listed(given.get("tie", []), sites, f"{source}: cluster.tie"),
        limits=_limits(_table(data, "limits", source), source),
        timeouts=_timeouts(_table(data, "timeouts", source), source),
        tls=None if certificates is None else TlsFiles(certificates),
        insecure=insecure,
        secret=secret,
        multicast=_multicast(data, options, name, sites, source),
        grants=(
            read_grants(_table(data, "grants", source), source) if "grants" in data else Grants()
        ),
        source=source,
        **options,
    )
    _require_fit(cluster)
    return cluster


# --- [cluster] ------------------------------------------------------------------------------------


def _options(given: Mapping[str, Any], source: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, known in _CHOICES.items():
        if key in given:
            found[key] = _one_of(given[key], known, f"{source}: cluster.{key}")
    if "protocol" in given:
        found["protocol"] = _protocol(given["protocol"], f"{source}: cluster.protocol")
    if "stability" in given:
        found["stability"] = _one_of(given["stability"], TRACKERS, f"{source}: cluster.stability")
    for key in ("causal", "open", "unnamed_reader"):
        if key in given:
            found[key] = _flag(given[key], f"{source}: cluster.{key}")
    return found


def _require_fit(cluster: Cluster) -> None:
    """Refuse settings that do not go together."""
    where = f"{cluster.source}: cluster"
    unfit = misfit(
        cluster.protocol,
        builder="" if cluster.builder == AUTO else cluster.builder,
        on_failure=cluster.on_failure,
        slow_member=cluster.slow_member,
        durability=cluster.durability,
        causal=cluster.causal,
    )
    if unfit:
        raise ConfigError(f"{where}.{unfit[0]}: {unfit[1]}")
    try:
        check_tie(cluster.builder, cluster.tie)
    except ConfigError as error:
        raise ConfigError(f"{where}.{error}") from None


def _voters(given: Any, sites: Mapping[Site, SiteConfig], source: str) -> tuple[Site, ...]:
    if given is None:
        names = sorted(sites)
        return tuple(names if len(names) <= MOST_VOTERS else names[:DEFAULT_VOTERS])
    where = f"{source}: cluster.voters"
    if given == []:
        raise ConfigError(f"{where}: [] names no site; leave it out, or name one at least")
    voters = _listed(given, sites, where)
    if len(voters) > MOST_VOTERS:
        raise ConfigError(f"{where}: {len(voters)} voters; the most is {MOST_VOTERS:,}")
    return voters


def _listed(given: Any, sites: Mapping[Site, SiteConfig], where: str) -> tuple[Site, ...]:
    if not isinstance(given, list):
        raise ConfigError(f"{where}: must be a list of sites, not {shown(given)}")
    for index, site in enumerate(given):
        if not isinstance(site, str) or site not in sites:
            hint = nearest(site, sites) if isinstance(site, str) else ""
            raise ConfigError(f"{where}: there is no site {shown(site)}{hint}")
        if site in given[:index]:
            raise ConfigError(f"{where}: {site!r} is listed twice")
    return tuple(given)


# --- [sites] and [groups] -------------------------------------------------------------------------


def _sites(given: Mapping[str, Any], source: str, *, least_port: int) -> dict[Site, SiteConfig]:
    if not given:
        raise ConfigError(f"{source}: no site is given: write [sites.NAME] with its address")
    found: dict[Site, SiteConfig] = {}
    taken: dict[tuple[str, int], str] = {}
    for name, table in given.items():
        require_name(name, f"{source}: sites")
        where = f"{source}: sites.{name}"
        if not isinstance(table, dict):
            raise ConfigError(f"{where}: must be a table with 'address', not {shown(table)}")
        require_keys(table, ("address", "metrics", "clients"), where)
        if "address" not in table:
            raise ConfigError(f'{where}.address is missing (write address = "HOST:PORT")')
        address = parse_address(table["address"], f"{where}.address", least_port)
        others = {
            field: parse_address(table[field], f"{where}.{field}", least_port)
            for field in ("metrics", "clients")
            if field in table
        }
        for field, (host, port) in {"address": address, **others}.items():
            if not port:
                continue
            key = ("127.0.0.1" if host.lower() == "localhost" else host.lower(), port)
            if key in taken:
                raise ConfigError(f"{where}.{field}: {table[field]!r} is taken by {taken[key]}")
            taken[key] = f"sites.{name}.{field}"
        found[name] = SiteConfig(name, address, **others)
    require_distinct(found, f"{source}: sites")
    return found


def _groups(
    data: Mapping[str, Any], sites: Mapping[Site, SiteConfig], source: str
) -> dict[Group, tuple[Site, ...]]:
    given = _table(data, "groups", source)
    if not given:
        raise ConfigError(f'{source}: no group is given: write [groups] with NAME = ["SITE", …]')
    for name, members in given.items():
        where = f"{source}: groups.{shown(name)[1:-1]}"
        if not isinstance(members, list):
            raise ConfigError(f"{where}: must be a list of sites, not {shown(members)}")
        for member in members:
            if isinstance(member, str) and member not in sites:
                hint = nearest(member, sites)
                raise ConfigError(f"{where}: there is no site {shown(member)}{hint}")
    try:
        return dict(GroupTable.of(given, sites=list(sites)).groups)
    except ConfigError as error:
        raise ConfigError(f"{source}: {str(error).removeprefix('groups: ')}") from None


# --- [limits], [timeouts], [tls] ------------------------------------------------------------------


def _limits(given: Mapping[str, Any], source: str) -> LimitsConfig:
    readers: dict[str, Callable[[Any, str], Any]] = {
        "window_messages": _count,
        "window_bytes": size,
        "message_bytes": size,
        "unread_messages": _count,
        "unread_bytes": size,
        "missed_bytes": size,
        "retention": _retention,
        "reader_bytes": size,
        "reader_age": duration,
        "subject_connections": _count,
        "subject_rate": _rate,
        "subject_window": _percent,
    }
    require_keys(given, readers, f"{source}: limits")
    found = {key: readers[key](value, f"{source}: limits.{key}") for key, value in given.items()}
    limits = LimitsConfig(**found)
    most = BODY_BYTES - _BODY_OVERHEAD
    if limits.message_bytes > most:
        raise ConfigError(
            f"{source}: limits.message_bytes: {limits.message_bytes:,} is above {most:,}"
        )
    for key in ("window_bytes", "unread_bytes"):
        if getattr(limits, key) < limits.message_bytes:
            raise ConfigError(
                f"{source}: limits.{key}: {getattr(limits, key):,} is below message_bytes"
                f" ({limits.message_bytes:,}): the largest message would never fit"
            )
    return limits


def _rate(value: Any, where: str) -> int:
    """Bytes per second; 0: no limit."""
    return size(value, where, least=0)


def _percent(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 100:
        raise ConfigError(f"{where}: {shown(value)} is not a whole number within 1 and 100")
    return value


def _retention(value: Any, where: str) -> Retention:
    if value == "stable":
        return Retention()
    return Retention(*age_or_size(value, where))


def _timeouts(given: Mapping[str, Any], source: str) -> Timeouts:
    least = {"suspect": 10_000_000, "hold": 0}
    require_keys(given, least, f"{source}: timeouts")
    timeouts = Timeouts(
        **{
            key: duration(value, f"{source}: timeouts.{key}", least=least[key])
            for key, value in given.items()
        }
    )
    if timeouts.hold > timeouts.suspect:
        raise ConfigError(
            f"{source}: timeouts.hold: {shown(given['hold'])} is longer than suspect: every"
            " message would wait for longer than a failed site is waited for"
        )
    return timeouts


def _tls(
    given: Mapping[str, Any], cluster: Mapping[str, Any], source: str, base: Path
) -> tuple[Path | None, bool]:
    require_keys(given, ("dir", "insecure"), f"{source}: tls")
    insecure = False
    for table, where in ((cluster, "cluster"), (given, "tls")):
        if "insecure" in table:
            insecure |= _flag(table["insecure"], f"{source}: {where}.insecure")
    if "dir" not in given:
        if given and not insecure:
            raise ConfigError(f"{source}: tls.dir is missing (the directory of certificates)")
        return None, insecure
    directory = _path(given["dir"], f"{source}: tls.dir")
    if insecure:
        raise ConfigError(f"{source}: tls: 'dir' and insecure = true contradict each other")
    return base / directory, False


def _secret(
    given: Mapping[str, Any], source: str, base: Path, place: Path, *, tls: bool, insecure: bool
) -> Path | None:
    """In the directory that the file says unless it is given. Where sites are on other machines,
    which have no such file, there is none unless it is given."""
    if "secret" not in given:
        return None if tls or insecure else place / "secret"
    file = _path(given["secret"], f"{source}: cluster.secret", "a file's")
    if tls:
        raise ConfigError(f"{source}: cluster.secret: is for clusters without [tls] dir")
    return base / file


def _multicast(
    data: Mapping[str, Any],
    options: Mapping[str, Any],
    name: str,
    sites: Mapping[Site, SiteConfig],
    source: str,
) -> MulticastConfig | None:
    """The table [multicast]. It is checked also if it is not used; then None."""
    local = all(is_loopback(site.address[0]) for site in sites.values())
    given = _table(data, "multicast", source)
    found = read_multicast(given, name, source, local=local)
    return found if options.get("dissemination") == MULTICAST else None


def _require_loopback(sites: Mapping[Site, SiteConfig], source: str) -> None:
    for name, site in sites.items():
        if not is_loopback(site.address[0]):
            raise ConfigError(
                f"{source}: sites.{name}.address: {site.address[0]!r} is not a loopback address:"
                " give [tls] dir (see 'ordercast certs'), or insecure = true under [tls]"
            )


def _require_safe_doors(sites: Mapping[Site, SiteConfig], source: str, *, secret: bool) -> None:
    """Without certificates clients must be on this machine, and prove the secret."""
    for name, site in sites.items():
        if site.clients is None or (secret and is_loopback(site.clients[0])):
            continue
        lacks = "is not a loopback address" if secret else "has no secret to ask for"
        raise ConfigError(
            f"{source}: sites.{name}.clients: {site.clients[0]!r} {lacks}:"
            " give [tls] dir (see 'ordercast certs')"
        )


# --- values ---------------------------------------------------------------------------------------


def _path(value: Any, where: str, whose: str = "a directory's") -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ConfigError(f"{where}: {shown(value)} is not {whose} name")
    return value


def _table(data: Mapping[str, Any], name: str, source: str) -> Mapping[str, Any]:
    value = data.get(name, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{source}: [{name}] must be a table, not {shown(value)}")
    return value


def _one_of(value: Any, known: Iterable[str], where: str) -> str:
    names = tuple(known)
    if not isinstance(value, str):
        raise ConfigError(f"{where}: must be one of {', '.join(names)}, not {shown(value)}")
    if value not in names:
        raise ConfigError(f"{where}: there is no {shown(value)}{nearest(value, names)}")
    return value


def _protocol(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.startswith("hybrid:"):
        return _one_of(value, PROTOCOLS, where)
    try:
        return protocol_named(value).name
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: must be true or false, not {shown(value)}")
    return value


def _count(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigError(f"{where}: must be a whole number, not {shown(value)}")
    if not 1 <= value <= 2**40:
        raise ConfigError(f"{where}: {shown(value)} is not within 1 and {2**40}")
    return value
