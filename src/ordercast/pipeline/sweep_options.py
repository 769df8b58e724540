"""The options of `plan`, `sim` and `stability` as values of a spec file, and what each may be.

An option is named as on the command line, without its dashes. Values are checked one by one before
anything runs; whether they go together is a matter of each point of the grid.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.protocols import PROTOCOLS as STABILITY_PROTOCOLS
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, parse_groups
from ordercast.model.names import nearest, shown
from ordercast.pipeline.sweep_draw import (
    OPTIONS,
    SIZES,
    UNIFORM,
    draw_table,
    drawing_of,
    site_names,
)
from ordercast.plan.advice import AUTO, check_options
from ordercast.plan.candidates import NAMED
from ordercast.plan.objectives import OBJECTIVES
from ordercast.sim.config import (
    DURABILITIES,
    LEVELS,
    POLICIES,
    SLOW_MEMBERS,
    SimConfig,
    check_config,
)
from ordercast.sim.networks import parse_network
from ordercast.sim.notation import duration
from ordercast.sim.options import OPTIONS as SIM_OPTIONS
from ordercast.sim.options import configure
from ordercast.sim.schedules import changing, excluding, schedule
from ordercast.sim.tracking import LINKS, PLACEMENTS, Setting
from ordercast.sim.tree import Shape, parse_random_tree, parse_tree

Config: TypeAlias = Mapping[str, Any]
Read: TypeAlias = Callable[[str], str]
"""Gives the text of a file that an option names."""

Check: TypeAlias = Callable[[Any, str, Read], None]

VERBS = ("plan", "sim", "stability")


# --- one value ------------------------------------------------------------------------------------


def _whole(least: int) -> Check:
    def check(value: Any, where: str, _: Read) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{where}: {shown(value)} is not a whole number from {least} on")

    return check


def _number(least: float, most: float) -> Check:
    def check(value: Any, where: str, _: Read) -> None:
        good = not isinstance(value, bool) and isinstance(value, int | float)
        if not good or not least <= value <= most:
            raise ConfigError(f"{where}: {shown(value)} is not a number from {least:g} to {most:g}")

    return check


def _one_of(*known: str) -> Check:
    def check(value: Any, where: str, _: Read) -> None:
        if value not in known:
            hint = nearest(value, known) if isinstance(value, str) else ""
            raise ConfigError(f"{where}: {shown(value)} is none of {', '.join(known)}{hint}")

    return check


def _flag(value: Any, where: str, _: Read) -> None:
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: {shown(value)} is neither true nor false")


def _text(value: Any, where: str, _: Read) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{where}: must be a text, not {shown(value)}")
    return value


def _word(value: Any, where: str, read: Read) -> None:
    _text(value, where, read)


def _groups(value: Any, where: str, read: Read) -> None:
    """How many to draw, or the file they are in."""
    if isinstance(value, str):
        parse_groups(read(value), source=value)
    else:
        _whole(1)(value, where, read)


def _spread(value: Any, where: str, read: Read) -> None:
    if value != UNIFORM:
        _number(0.01, 1e6)(value, where, read)


def _names(value: Any, where: str, read: Read) -> None:
    names = value if isinstance(value, list) else _text(value, where, read).split(",")
    if not all(isinstance(name, str) and name.strip() for name in names):
        raise ConfigError(f"{where}: {shown(value)} is not a list of names")


def _origins(value: Any, where: str, read: Read) -> None:
    (_whole(1) if isinstance(value, int) else _names)(value, where, read)


def _network(value: Any, where: str, read: Read) -> None:
    parse_network(_text(value, where, read), read, where)


def _duration(value: Any, where: str, _: Read) -> None:
    duration(value, where)


def _settings(name: str) -> Check:
    """A text as on the command line, or a table of the spec file."""

    def check(value: Any, where: str, read: Read) -> None:
        if not isinstance(value, str | dict):
            raise ConfigError(f"{where}: must be a text or a table, not {shown(value)}")
        SIM_OPTIONS[name](where, _as_on_the_command_line(name, value), read)

    return check


def _known_tree(parse: Callable[[str, str], Shape], value: Any, where: str, read: Read) -> None:
    parse(_text(value, where, read), where)


_BUILDER = _one_of(*NAMED, AUTO)
_DRAWN: Mapping[str, Check] = {
    "sites": _whole(1),
    "groups": _groups,
    "size": _whole(1),
    "spread": _spread,
    "sizes": _one_of(*SIZES),
}
_PLAN: Mapping[str, Check] = {
    **_DRAWN,
    "builder": _BUILDER,
    "objective": _one_of(*OBJECTIVES),
    "branching": _whole(2),
    "tie": _names,
    "rebalance": _flag,
}
_SIM: Mapping[str, Check] = {
    **_DRAWN,
    "protocol": _one_of(*PROTOCOLS),
    "builder": _BUILDER,
    "branching": _whole(2),
    "tie": _names,
    "messages": _whole(0),
    "origins": _origins,
    "rate": _number(1e-9, 1e9),
    "network": _network,
    "faults": _settings("faults"),
    "deliver": _one_of(*LEVELS),
    "on_failure": _one_of(*POLICIES),
    "slow_member": _one_of(*SLOW_MEMBERS),
    "causal": _flag,
    "stability": _word,
    "dissemination": _word,
    "durability": _one_of(*DURABILITIES),
    "batch": _whole(1),
    "payload": _whole(0),
    "implicit": _number(0, 1),
    "replies": _number(0, 1),
    "codec": _one_of("objects", "bytes"),
    "limits": _settings("limits"),
    "timing": _settings("timing"),
    "settle": _duration,
    "wake": _duration,
    "longest_sync": _duration,
    "most_events": _whole(1),
    "schedule": _flag,
    "changing": _flag,
    "excluding": _flag,
}
_STABILITY: Mapping[str, Check] = {
    "protocol": _one_of(*STABILITY_PROTOCOLS),
    "tree": lambda value, where, read: _known_tree(parse_tree, value, where, read),
    "random_tree": lambda value, where, read: _known_tree(parse_random_tree, value, where, read),
    "placement": _one_of(*PLACEMENTS),
    "links": _one_of(*LINKS),
}
OPTIONS_OF: Mapping[str, Mapping[str, Check]] = {
    "plan": _PLAN,
    "sim": _SIM,
    "stability": _STABILITY,
}

# Options of the verbs that are no parameters of a point, and what says it instead.
ELSEWHERE = {
    "seed": "[sweep] seed gives every run its own",
    "history": "write [sweep] history = true",
    "draw": "it draws a picture",
    "full": "it shapes the output",
    "json": "it shapes the output",
}
_ELSEWHERE_OF = {
    "plan": {"network": "it is for the advice on protocols, which a sweep of 'sim' runs"}
}


def elsewhere(verb: str) -> dict[str, str]:
    return ELSEWHERE | _ELSEWHERE_OF.get(verb, {})


def option_named(name: str, verb: str, where: str) -> str:
    """The option's name as it is used here: `on-failure` is `on_failure`."""
    plain = name.replace("-", "_")
    if plain in elsewhere(verb):
        raise ConfigError(f"{where}.{name}: is not swept: {elsewhere(verb)[plain]}")
    known = OPTIONS_OF[verb]
    if plain not in known:
        raise ConfigError(f"{where}: '{verb}' has no option {shown(name)}{nearest(plain, known)}")
    return plain


def check_value(verb: str, option: str, value: Any, where: str, read: Read) -> None:
    OPTIONS_OF[verb][option](value, f"{where}.{option}", read)


# --- one point ------------------------------------------------------------------------------------


def check_point(verb: str, config: Config, read: Read) -> None:
    """Raise ConfigError when the values, each of them right, do not go together."""
    if verb == "stability":
        tracked(config).check()
        return
    if verb == "sim" and config.get("schedule"):
        for option in config:
            if option not in ("schedule", "changing", "excluding", "protocol"):
                raise ConfigError(f"schedule: draws it all from the seed: leave out {option!r}")
        return
    for drawn in ("changing", "excluding"):
        if config.get(drawn):
            raise ConfigError(f"{drawn}: goes with schedule")
    table = _table_like(config, read)
    if verb == "plan":
        builder = config.get("builder", AUTO)
        check_options(builder, "delay", config.get("branching"), name_list(config.get("tie", [])))
    else:
        check_config(sim_config(config, table, read))


def tracked(config: Config) -> Setting:
    """What `ordercast stability` would run with these options."""
    if ("tree" in config) == ("random_tree" in config):
        raise ConfigError("tree: give 'tree' or 'random_tree', one of them")
    if "tree" in config:
        shape = parse_tree(config["tree"])
    else:
        shape = parse_random_tree(config["random_tree"])
    return Setting(
        config.get("protocol", "s_coordp"),
        shape,
        config.get("placement", PLACEMENTS[0]),
        config.get("links", LINKS[0]),
    )


def _table_like(config: Config, read: Read) -> GroupTable:
    """The table itself, or one with the same sites that takes no time to draw."""
    if isinstance(config.get("groups"), int):
        sites = site_names(drawing_of(config).sites)
        return GroupTable(sites, {"g": sites[:1]})
    return table_of(config, 0, read)


def table_of(config: Config, seed: int, read: Read) -> GroupTable:
    """The groups of a run: drawn from its seed, or those of the file."""
    groups = config.get("groups")
    if groups is None:
        raise ConfigError("groups: is missing: a file, or how many to draw")
    if isinstance(groups, int):
        return draw_table(drawing_of(config), seed)
    for option in OPTIONS:
        if option != "groups" and option in config:
            raise ConfigError(f"{option}: says how groups are drawn, but {groups!r} is a file")
    return parse_groups(read(groups), source=groups)


def sim_config(config: Config, table: GroupTable, read: Read) -> SimConfig:
    """What `ordercast sim` would run with these options."""
    given = {
        name: _as_on_the_command_line(name, value)
        for name, value in config.items()
        if name not in _DRAWN and name not in ("schedule", "changing", "excluding")
    }
    return configure(table, given, read=read)


def scheduled(config: Config, seed: int) -> SimConfig:
    """A whole configuration drawn from the seed."""
    draw = schedule
    if config.get("changing"):
        draw = changing
    elif config.get("excluding"):
        draw = excluding
    return draw(config.get("protocol", SimConfig(GroupTable((), {})).protocol), seed)


def name_list(names: str | list[str]) -> tuple[str, ...]:
    """`"a,b"` or a list."""
    return tuple(name.strip() for name in (names.split(",") if isinstance(names, str) else names))


def _as_on_the_command_line(name: str, value: Any) -> Any:
    """Lists and tables of the spec file as the texts that they stand for."""
    if isinstance(value, list):
        return ",".join(value)
    if not isinstance(value, dict):
        return value
    if name == "faults":
        return json.dumps(value)
    return ",".join(f"{part}={number}" for part, number in value.items())
