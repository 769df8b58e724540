"""Rounds of the stability protocols, for sweeps of `stability`: options, measures, one run."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.model.errors import ConfigError
from ordercast.pipeline.sweeps.subject import Config, Experiment, Measured, Measures, Read, Subject
from ordercast.pipeline.sweeps.values import one_of, text
from ordercast.studies.stab.tracking import (
    KINDS,
    LINKS,
    PLACEMENTS,
    ROLES,
    Setting,
    Tracked,
    track,
)
from ordercast.studies.stab.tree import parse_random_tree, parse_tree


@dataclass(frozen=True, slots=True)
class StabilityRun:
    """What `ordercast stability` reports about a round on the point's tree."""

    seconds: bool = False

    def __call__(self, config: Config, seed: int, _run: str) -> Measured:
        begun = time.perf_counter()
        measures = of_round(track(tracked(config), seed))
        if self.seconds:
            measures["seconds"] = time.perf_counter() - begun
        return Measured(measures)


def of_round(found: Tracked) -> Measures:
    """Everything that a round is measured by; of a role that nobody has, nothing."""
    measures: dict[str, float] = {
        "members": found.members,
        "height": found.height,
        "rtt_ms": found.rtt_ns / 1e6,
        "slowest_rtt_ms": found.slowest_rtt_ns / 1e6,
        "rounds": found.rounds,
        "messages_on_hops": found.messages_on_hops,
        "messages_per_member": found.messages_on_hops / found.members,
        "queue_link": found.longest_link,
        "queue_cpu": found.longest_cpu,
    }
    for kind in KINDS:
        measures[f"on_hops_{kind}"] = found.on_hops[kind]
        measures[f"sent_{kind}"] = found.sent[kind]
    for role, (least, most) in found.processed.items():
        measures[f"processed_{role}"] = most
        measures[f"processed_{role}_least"] = least
    return {name: float(value) for name, value in measures.items()}


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


def _tree(value: Any, where: str, read: Read) -> None:
    parse_tree(text(value, where, read), where)


def _random_tree(value: Any, where: str, read: Read) -> None:
    parse_random_tree(text(value, where, read), where)


def _check(config: Config, _read: Read) -> None:
    tracked(config).check()


def _experiment(_files: Mapping[str, str], seconds: bool, _history: bool) -> Experiment:
    return StabilityRun(seconds)


SUBJECT = Subject(
    options={
        "protocol": one_of(*PROTOCOLS),
        "tree": _tree,
        "random_tree": _random_tree,
        "placement": one_of(*PLACEMENTS),
        "links": one_of(*LINKS),
    },
    elsewhere={},
    measures=(
        "members", "height", "rtt_ms", "slowest_rtt_ms", "rounds", "messages_on_hops",
        "messages_per_member", "queue_link", "queue_cpu",
        *(f"{what}_{kind}" for what in ("on_hops", "sent") for kind in KINDS),
        *(f"processed_{role}{which}" for role in ROLES for which in ("", "_least")),
    ),
    check=_check,
    experiment=_experiment,
)  # fmt: skip
