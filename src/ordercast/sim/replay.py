"""The one line that repeats a run: the complete `ordercast sim …` command of a config and seed."""

import json
import shlex
from dataclasses import fields
from typing import Any

from ordercast.model.groups import GroupTable
from ordercast.model.options import Limits, Timing
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import show_faults
from ordercast.sim.notation import show_duration


def replay_line(config: SimConfig, seed: int) -> str:
    """Only what differs from the defaults is named; a table that is in no file stands inline."""
    words = ["ordercast", "sim"]
    if config.source.startswith("--"):  # a config drawn from the seed as a whole
        words += config.source.split()
    else:
        words.append(config.source or inline_table(config.table))
        words += _options(config)
    return shlex.join([*words, "--seed", str(seed)])


def inline_table(table: GroupTable) -> str:
    data: dict[str, Any] = {"sites": list(table.sites)}
    data["groups"] = {group: list(members) for group, members in table.groups.items()}
    if table.rates:
        data["rates"] = dict(table.rates)
    return json.dumps(data, separators=(",", ":"))


def _options(config: SimConfig) -> list[str]:
    default = SimConfig(config.table)
    words: list[str] = []

    def add(option: str, value: object, usual: object, shown: str) -> None:
        if value != usual:
            words.extend([option, shown])

    for name in (
        "protocol", "builder", "branching", "messages", "rate", "batch", "payload", "implicit",
        "replies", "deliver", "on_failure", "slow_member", "stability", "durability",
        "dissemination", "codec",
    ):  # fmt: skip
        value = getattr(config, name)
        add(f"--{name.replace('_', '-')}", value, getattr(default, name), str(value))
    add("--tie", config.tie, (), ",".join(config.tie))
    origins = config.origins
    listed = ",".join(origins) if isinstance(origins, tuple) else str(origins)
    add("--origins", origins, None, listed)
    add("--network", config.network, default.network, config.network.text())
    for name in ("wake", "longest_sync", "settle"):
        value = getattr(config, name)
        option = f"--{name.replace('_', '-')}"
        add(option, value, getattr(default, name), show_duration(value))
    add("--faults", config.faults, (), show_faults(config.faults))
    add("--most-events", config.most_events, None, str(config.most_events))
    add("--limits", config.limits, default.limits, _changed(config.limits, default.limits))
    add("--timing", config.timing, default.timing, _changed(config.timing, default.timing))
    if config.causal:
        words.append("--causal")
    return words


def _changed(value: Limits | Timing, default: Limits | Timing) -> str:
    return ",".join(
        f"{field.name}={getattr(value, field.name)}"
        for field in fields(value)
        if getattr(value, field.name) != getattr(default, field.name)
    )
