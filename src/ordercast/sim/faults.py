"""What may go wrong in a run: small named pieces, stacked.

A piece is plain data. On the command line pieces are a comma list (`loss=0.1,crash=2,restart=2`); a
TOML file (or JSON of the same shape, also inline) can say more about each one:

    loss = 0.05                        # as in the comma list
    [[fault]]
    kind = "partition"
    count = 2
    from = "100ms"                     # when it may happen; default: the whole safety phase
    to = "400ms"
    length = "50ms"                    # how long each one lasts; default: drawn
    sites = ["a", "b"]                 # the sites that it may hit; one side of a partition

When and where faults happen is drawn before a run begins.
"""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ordercast.model.errors import ConfigError
from ordercast.model.groups import Site
from ordercast.model.names import nearest
from ordercast.model.notation import (
    count,
    duration,
    pairs,
    probability,
    require_known,
    show_duration,
)
from ordercast.sim.chance import Chance

# The chance of each frame: it is lost; doubled; comes again much later; others overtake it.
PROBABILITIES = ("loss", "duplicate", "replay", "reorder")
# How often a fault happens in a run. `restart`: how many of the crashed sites come back. `lose`: a
# site crashes and comes back without its store. `oneway`: a partition in one direction. `clog`:
# half the links are held back, one after another, and released in another order. `lag`: an
# application takes no deliveries for a while. `cut`, `cut_one_way`: a link that never heals.
COUNTS = (
    "crash",
    "restart",
    "lose",
    "partition",
    "oneway",
    "clog",
    "cut",
    "cut_one_way",
    "pause",
    "slow",
    "lag",
    "join",
    "leave",
    "switch",
)
CUTS = ("cut", "cut_one_way")  # no heal follows
ABSENCES = ("crash", "lose", *CUTS)  # under `exclude`, a site may be excluded for these
CHANGES = ("join", "leave", "switch")  # of groups, protocol or builder: new epochs open
KINDS = (*PROBABILITIES, *COUNTS)

_FIELDS = ("kind", "probability", "count", "from", "to", "length", "sites")


@dataclass(frozen=True, slots=True)
class Fault:
    """One piece; `probability` or `count` is given, as its kind demands."""

    kind: str
    probability: float = 0.0
    count: int = 0
    start: int = 0
    stop: int | None = None
    length: int | None = None
    sites: tuple[Site, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether the comma list can express it."""
        return self == Fault(self.kind, self.probability, self.count)


Faults: TypeAlias = tuple[Fault, ...]


def parse_faults(text: str, read: Callable[[str], str], where: str = "faults") -> Faults:
    """`text`: a comma list, the name of a TOML or JSON file, or JSON. Empty: no faults."""
    text = text.strip()
    if not text:
        return ()
    if text.startswith("{"):
        return _from_table(_json(text, where), where)
    if text.lower().endswith(".json"):
        return _from_table(_json(read(text), text), text)
    if "=" not in text or text.lower().endswith(".toml"):
        try:
            return _from_table(tomllib.loads(read(text)), text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{text}: {error}") from None
    return tuple(_simple(kind, value, where) for kind, value in pairs(text, where))


def show_faults(faults: Faults) -> str:
    """The option's text that gives these faults back."""
    if all(fault.is_plain for fault in faults) and len({f.kind for f in faults}) == len(faults):
        return ",".join(
            f"{fault.kind}={fault.probability if fault.kind in PROBABILITIES else fault.count}"
            for fault in faults
        )
    return json.dumps({"fault": [_as_table(fault) for fault in faults]}, separators=(",", ":"))


def check_faults(faults: Faults, sites: Sequence[Site], on_failure: str, durability: str) -> None:
    """Refuse what cannot be injected into these sites under these options."""
    for fault in faults:
        for site in fault.sites:
            if site not in sites:
                hint = nearest(site, sites)
                raise ConfigError(f"faults: {fault.kind}: there is no site {site!r}{hint}")
        if fault.kind in ("partition", "oneway") and len(set(fault.sites)) == len(sites):
            raise ConfigError(f"faults: {fault.kind}: one side has all the sites")
        if fault.kind in CUTS and fault.count > (links := _links(fault, sites)):
            raise ConfigError(f"faults: {fault.kind}={fault.count}: there are only {links} links")
    crashed, returned = total(faults, "crash"), total(faults, "restart")
    if total(faults, "lose") and on_failure == "wait":
        raise ConfigError("faults: lose: on_failure = 'wait' waits for a store for ever")
    if crashed and durability == "memory":
        raise ConfigError("faults: crash: with durability = 'memory' a site cannot come back")
    if returned > crashed:
        raise ConfigError(f"faults: restart={returned}: only {crashed:,} sites crash")


def _links(fault: Fault, sites: Sequence[Site]) -> int:
    """How many links, each one-way, this fault may cut."""
    return len(links_of(fault, sites)) // (2 if fault.kind == "cut" else 1)


def links_of(fault: Fault, sites: Sequence[Site]) -> list[tuple[Site, Site]]:
    """The links, one-way, that a cut may hit. Of one named site: all of its links. Of two: the link
    from the first to the second. Of more: those between them."""
    named = tuple(dict.fromkeys(fault.sites))
    if len(named) == 2 and fault.kind == "cut_one_way":
        return [(named[0], named[1])]
    among = named if len(named) > 1 else tuple(sorted(sites))
    links = [(a, b) for a in among for b in among if a != b]
    return [link for link in links if len(named) != 1 or named[0] in link]


def total(faults: Faults, kind: str) -> int:
    return sum(fault.count for fault in faults if fault.kind == kind)


def changes_groups(faults: Faults) -> bool:
    return any(fault.kind in CHANGES and fault.count for fault in faults)


def cuts_links(faults: Faults) -> bool:
    return any(fault.kind in CUTS and fault.count for fault in faults)


def excludes_sites(faults: Faults) -> bool:
    """Whether a site may have to be excluded. All other faults pass by themselves."""
    return any(fault.kind in ABSENCES and fault.count for fault in faults)


def random_faults(seed: int, *, crashes: bool) -> Faults:
    """Draw faults from the seed. Each kind is missing in some seeds; a few have no fault."""
    stream = Chance(seed, "random faults")
    if stream.chance(0.05):
        return ()
    found = []
    for kind in PROBABILITIES:
        rate = stream.choice((0.01, 0.05, 0.1, 0.3 if kind == "loss" else 0.2))
        if stream.chance(0.5):
            found.append(Fault(kind, probability=rate))
    for kind in ("partition", "oneway", "clog", "pause", "slow"):
        times = stream.between(1, 3)
        if stream.chance(0.35):
            found.append(Fault(kind, count=times))
    times = stream.between(1, 4)
    if crashes and stream.chance(0.75):
        found += [Fault("crash", count=times), Fault("restart", count=times)]
    return tuple(found)


def _simple(kind: str, value: object, where: str) -> Fault:
    _require_kind(kind, where)
    if kind in PROBABILITIES:
        return Fault(kind, probability=probability(value, f"{where}: {kind}"))
    return Fault(kind, count=count(value, f"{where}: {kind}"))


def _require_kind(kind: str, where: str) -> None:
    require_known(kind, KINDS, where)


def _json(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{where}: {error}") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: must be an object of faults")
    return data


def _from_table(data: Mapping[str, Any], where: str) -> Faults:
    found = [_simple(kind, value, where) for kind, value in data.items() if kind != "fault"]
    pieces = data.get("fault", [])
    if not isinstance(pieces, list):
        raise ConfigError(f"{where}: 'fault' must be a list of tables ([[fault]])")
    found += [_piece(piece, f"{where}: fault {n}") for n, piece in enumerate(pieces, start=1)]
    return tuple(found)


def _piece(data: Any, where: str) -> Fault:
    if not isinstance(data, dict):
        raise ConfigError(f"{where}: must be a table, not {data!r}")
    for name in data:
        require_known(name, _FIELDS, where)
    kind = data.get("kind")
    if not isinstance(kind, str):
        raise ConfigError(f"{where}: 'kind' is missing")
    _require_kind(kind, where)
    wanted, other = ("probability", "count") if kind in PROBABILITIES else ("count", "probability")
    if other in data:
        raise ConfigError(f"{where}: {kind!r} takes {wanted!r}, not {other!r}")
    sites = data.get("sites", [])
    if not isinstance(sites, list) or not all(isinstance(site, str) for site in sites):
        raise ConfigError(f"{where}: 'sites' must be a list of names, not {sites!r}")
    simple = _simple(kind, data.get(wanted, 1), where)
    start = duration(data["from"], f"{where}: from") if "from" in data else 0
    stop = duration(data["to"], f"{where}: to") if "to" in data else None
    if stop is not None and stop <= start:
        raise ConfigError(f"{where}: 'to' is not after 'from'")
    length = duration(data["length"], f"{where}: length") if "length" in data else None
    return Fault(kind, simple.probability, simple.count, start, stop, length, tuple(sites))


def _as_table(fault: Fault) -> dict[str, Any]:
    table: dict[str, Any] = {"kind": fault.kind}
    if fault.kind in PROBABILITIES:
        table["probability"] = fault.probability
    else:
        table["count"] = fault.count
    if fault.start:
        table["from"] = show_duration(fault.start)
    if fault.stop is not None:
        table["to"] = show_duration(fault.stop)
    if fault.length is not None:
        table["length"] = show_duration(fault.length)
    if fault.sites:
        table["sites"] = list(fault.sites)
    return table
