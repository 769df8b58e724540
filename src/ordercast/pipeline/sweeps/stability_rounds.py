"""Sweeps of `stability`: the options of a round, what is measured of it, and one run."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.model.errors import ConfigError
from ordercast.model.verb_options import (
    Notation,
    ReadFile,
    VerbOption,
    WholeNumber,
    Word,
    by_name,
    require_text,
)
from ordercast.pipeline.sweeps.swept_verb import Config, Experiment, Measured, Measures, SweptVerb
from ordercast.sim.rounds.tracking import (
    ARRAYS,
    KINDS,
    LINKS,
    PLACEMENTS,
    ROLES,
    Setting,
    Tracked,
    track,
)
from ordercast.sim.rounds.tree import parse_random_tree, parse_tree


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


class TreeNotation(Notation):
    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        parse_tree(require_text(value, where), where)


class RandomTreeNotation(Notation):
    def check(self, value: Any, where: str, _read: ReadFile) -> None:
        parse_random_tree(require_text(value, where), where)


DEFAULT_TREE = "b=4,p=5,z=4"
TABLE = (
    VerbOption("protocol", Word(tuple(PROTOCOLS)), f"{', '.join(PROTOCOLS)} (default: s_coordp)",
               "NAME", default="s_coordp"),
    VerbOption("tree", TreeNotation(), f"(default: {DEFAULT_TREE})", "SPEC"),
    VerbOption("random_tree", RandomTreeNotation(), "n=...,b=...,p=...,seed=...", "SPEC"),
    VerbOption("placement", Word(PLACEMENTS), "same: the protocol's tree is the network's;"
               " shuffled: members sit anywhere in it (default: same)", "KIND",
               default=PLACEMENTS[0]),
    VerbOption("links", Word(LINKS),
               "lan; wan: the root's children are in other regions; wide: every member is in any"
               " region (default: lan)", "KIND", default=LINKS[0]),
    VerbOption("array", Word(ARRAYS), "senders: an entry for each; total: one number of four bytes"
               " (default: senders)", "KIND", default=ARRAYS[0]),
    VerbOption("router", WholeNumber(1), "milliseconds in a router (default: 1)", "MS", default=1),
    VerbOption("seed", WholeNumber(0), "of who is behind, and of what is drawn (default: 1)", "S",
               default=1, configures=False, unswept="[sweep] seed gives every run its own"),
)  # fmt: skip


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
        config.get("array", ARRAYS[0]),
        config.get("router", 1),
    )


def _check(config: Config, _read: ReadFile) -> None:
    tracked(config).check()


def _experiment(_files: Mapping[str, str], seconds: bool, _history: bool) -> Experiment:
    return StabilityRun(seconds)


SWEPT_VERB = SweptVerb(
    options=by_name(TABLE),
    measures=(
        "members", "height", "rtt_ms", "slowest_rtt_ms", "rounds", "messages_on_hops",
        "messages_per_member", "queue_link", "queue_cpu",
        *(f"{what}_{kind}" for what in ("on_hops", "sent") for kind in KINDS),
        *(f"processed_{role}{which}" for role in ROLES for which in ("", "_least")),
    ),
    check=_check,
    experiment=_experiment,
)  # fmt: skip
