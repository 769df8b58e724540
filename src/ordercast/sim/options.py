"""The options of a simulation: one table for the command line, scenarios, replays and sweeps."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ordercast.core.order.hybrid import sizes_in
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.registry import TRACKERS
from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.model.names import shown
from ordercast.model.notation import UNITS, count, duration, pairs, require_known
from ordercast.model.options import DURABILITIES, LEVELS, POLICIES, Limits, Timing
from ordercast.model.verb_options import (
    Flag,
    Names,
    Notation,
    Number,
    ReadFile,
    Time,
    VerbOption,
    WholeNumber,
    Word,
    by_name,
    require_text,
)
from ordercast.plan.options import BUILDER_NAMES
from ordercast.sim.config import CODECS, SLOW_MEMBERS, SimConfig
from ordercast.sim.faults import Faults, parse_faults, show_faults
from ordercast.sim.networks import NetworkSpec, parse_network


class ProtocolNotation(Word):
    """One of the known protocols, `hybrid:N` or `hybrid:N:M`."""

    def check(self, value: Any, where: str, read: ReadFile) -> None:
        if sizes_in(value if isinstance(value, str) else "") is None:
            super().check(value, where, read)


class OriginsNotation(Names):
    """How many sites send, or which. A text of digits is a number."""

    def read(self, value: Any, where: str, read: ReadFile) -> Any:
        if isinstance(value, list) or (
            isinstance(value, str) and not (value.isascii() and value.isdigit())
        ):
            return super().read(value, where, read)
        return count(value, where, least=1)

    def check(self, value: Any, where: str, read: ReadFile) -> None:
        (WholeNumber(1).check if isinstance(value, int) else super().check)(value, where, read)

    def show(self, value: Any) -> str:
        return super().show(value) if isinstance(value, tuple) else str(value)


class NetworkNotation(Notation):
    def read(self, value: Any, where: str, read: ReadFile) -> NetworkSpec:
        return parse_network(super().read(value, where, read), read, where)

    def check(self, value: Any, where: str, read: ReadFile) -> None:
        parse_network(require_text(value, where), read, where)

    def show(self, value: NetworkSpec) -> str:
        return value.text()


class _Table(Notation):
    """A text as on the command line, or a table of a spec file."""

    def check(self, value: Any, where: str, read: ReadFile) -> None:
        if not isinstance(value, str | dict):
            raise ConfigError(f"{where}: must be a text or a table, not {shown(value)}")
        self.read(value, where, read)


class FaultList(_Table):
    def read(self, value: Any, where: str, read: ReadFile) -> Faults:
        text = json.dumps(value) if isinstance(value, dict) else value
        return parse_faults(super().read(text, where, read), read, where)

    def show(self, value: Faults) -> str:
        return show_faults(value)


@dataclass(frozen=True)
class Parts(_Table):
    """`name=number,…`; a time may have a unit, otherwise it is in nanoseconds. The least
    is 1, or 0 if that is the default."""

    kind: type[Limits] | type[Timing]

    def read(self, value: Any, where: str, read: ReadFile) -> Limits | Timing:
        if isinstance(value, dict):
            value = ",".join(f"{name}={number}" for name, number in value.items())
        known, usual = [field.name for field in fields(self.kind)], self.kind()
        found: dict[str, Any] = {}
        for name, text in pairs(super().read(value, where, read), where):
            require_known(name, known, where)
            number = duration if text.endswith(tuple(UNITS)) else count
            found[name] = number(text, f"{where}: {name}")
            if found[name] < min(1, getattr(usual, name)):
                raise ConfigError(f"{where}: {name}: {text} is too small (1 or more)")
        return replace(usual, **found)

    def show(self, value: Limits | Timing) -> str:
        usual = self.kind()
        return ",".join(
            f"{field.name}={getattr(value, field.name)}"
            for field in fields(value)
            if getattr(value, field.name) != getattr(usual, field.name)
        )


_SHARE = Number(0, 1)
SCHEDULED = ("schedule", "changing", "excluding", "cutting")
TABLE = (
    VerbOption("protocol", ProtocolNotation(tuple(PROTOCOLS)),
               f"{', '.join(PROTOCOLS)}, hybrid:N or hybrid:N:M (default: propagation)", "NAME"),
    VerbOption("builder", Word(BUILDER_NAMES),
               "greedy, star, balanced, metagroups, given or auto (default: what fits, or greedy)",
               "NAME"),
    VerbOption("branching", WholeNumber(2), "balanced: children per site", "N"),
    VerbOption("tie", Names(), "greedy: sites preferred in ties", "A,B,..."),
    VerbOption("messages", WholeNumber(0), "how many are sent (default: 1000)", "N"),
    VerbOption("origins", OriginsNotation(), "how many sites send, or which: a,b (default: all)",
               "K"),
    VerbOption("rate", Number(1e-9, 1e9), "messages per second over all origins (default: 1000)",
               "R"),
    VerbOption("seed", WholeNumber(0), "(default: 1)", "S", default=1, configures=False,
               unswept="[sweep] seed gives every run its own"),
    VerbOption("network", NetworkNotation(), "how long frames take (default: lan)", "SPEC"),
    VerbOption("wake", Time(),
               "a site takes frames in bursts, so long after the first (default: 0ms)", "TIME"),
    VerbOption("faults", FaultList(), "what goes wrong (default: nothing)", "SPEC"),
    VerbOption("notice", Time(),
               "frames go round a link so long after it is cut (default: the timing's suspect)",
               "TIME"),
    VerbOption("deliver", Word(LEVELS), "safe or agreed (default: safe)", "LEVEL"),
    VerbOption("on_failure", Word(POLICIES), "exclude or wait (default: exclude)", "POLICY"),
    VerbOption("slow_member", Word(SLOW_MEMBERS), "wait, or exclude it (default: wait)", "POLICY"),
    VerbOption("causal", Flag(), "give causal order"),
    VerbOption("stability", Notation(), f"the tracker: {', '.join(TRACKERS)} (default: s_coordp)",
               "NAME"),
    VerbOption("durability", Word(DURABILITIES), "sync, os or memory (default: sync)", "KIND"),
    VerbOption("dissemination", Notation(),
               "to many: unicast, tree or multicast (default: unicast)", "NAME"),
    VerbOption("longest_sync", Time(), "a sync takes a tenth of this to all of it (default: 1ms)",
               "TIME"),
    VerbOption("batch", WholeNumber(1), "most messages per submission (default: 1)", "N"),
    VerbOption("payload", WholeNumber(0), "most bytes per message (default: 64)", "BYTES"),
    VerbOption("implicit", _SHARE, "share of sends to listed sites (default: 0)", "SHARE"),
    VerbOption("headers", _SHARE, "share of sends with headers (default: 0)", "SHARE"),
    VerbOption("replies", _SHARE, "share of sends that answer a delivery, at once (default: 0)",
               "SHARE"),
    VerbOption("codec", Word(CODECS), "objects or bytes: how frames travel (default: objects)",
               "KIND"),
    VerbOption("limits", Parts(Limits), "e.g. window_messages=100,link_items=16", "LIST"),
    VerbOption("timing", Parts(Timing), "e.g. ack_delay=1ms,resend_after=50ms", "LIST"),
    VerbOption("settle", Time(), "all must be delivered within this after faults (default: 60s)",
               "TIME"),
    VerbOption("most_events", WholeNumber(1), "stop a run that takes more", "N"),
    VerbOption("schedule", Flag(),
               "draw everything but the protocol from the seed, as the tests' fault schedules do",
               default=False, configures=False),
    VerbOption("changing", Flag(), "with --schedule: groups, protocol and builder change meanwhile",
               default=False, configures=False),
    VerbOption("excluding", Flag(),
               "with --schedule: sites crash, and are excluded until they return", default=False,
               configures=False),
    VerbOption("cutting", Flag(), "with --schedule: links are cut for good", default=False,
               configures=False),
    VerbOption("history", Notation(), "write the history as Parquet (extra: history)", "DIR",
               configures=False, unswept="write [sweep] history = true"),
    VerbOption("trace", Notation(),
               "write the run as .json (Perfetto), .log (ShiViz) and .svg, or one by its ending",
               "FILE", configures=False, unswept="a trace shows one run"),
)  # fmt: skip
OPTIONS: Mapping[str, VerbOption] = by_name(option for option in TABLE if option.configures)

# A replay begins with the short values; options that are not named here come last.
_REPLAYED = (
    "protocol", "builder", "branching", "messages", "rate", "batch", "payload", "implicit",
    "headers", "replies", "deliver", "on_failure", "slow_member", "stability", "durability",
    "dissemination", "codec", "tie", "origins", "network", "wake", "longest_sync", "settle",
    "faults", "most_events", "limits", "timing",
)  # fmt: skip


def configure(
    table: GroupTable, given: Mapping[str, Any], *, read: Callable[[str], str], source: str = ""
) -> SimConfig:
    """The configuration with these options, named as on the command line (`on-failure` or
    `on_failure`); `check_config` says whether it can be run."""
    found: dict[str, Any] = {}
    for option, value in given.items():
        name = option.replace("-", "_")
        require_known(name, OPTIONS, "options")
        found[name] = OPTIONS[name].notation.read(value, name.replace("_", "-"), read)
    return replace(SimConfig(table, source=source), **found)


def replay_line(config: SimConfig, seed: int) -> str:
    """The complete `ordercast sim …` command that repeats a run.

    Only options that differ from the defaults are named. A table that is in no file is inline.
    """
    words = ["ordercast", "sim"]
    if config.source.startswith("--"):  # a config drawn from the seed as a whole
        words += config.source.split()
    else:
        words.append(config.source or inline_table(config.table))
        words += _changed(config)
    return shlex.join([*words, "--seed", str(seed)])


def _changed(config: SimConfig) -> list[str]:
    usual = SimConfig(config.table)
    words = []
    for name in dict.fromkeys((*_REPLAYED, *OPTIONS)):
        option, value = OPTIONS[name], getattr(config, name)
        if value != getattr(usual, name):
            words.append(option.flag)
            if not isinstance(option.notation, Flag):
                words.append(option.notation.show(value))
    return words


def inline_table(table: GroupTable) -> str:
    data: dict[str, Any] = {"sites": list(table.sites)}
    data["groups"] = {group: list(members) for group, members in table.groups.items()}
    if table.rates:
        data["rates"] = dict(table.rates)
    return json.dumps(data, separators=(",", ":"))
