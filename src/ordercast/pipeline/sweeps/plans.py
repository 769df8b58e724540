"""Sweeps of `plan`: what `ordercast plan` finds out about the groups of a point.

Wall-clock time is measured only when it is asked for: without it, the same point and seed give the
same row everywhere.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ordercast.model.verb_options import Names, ReadFile, by_name
from ordercast.pipeline.sweeps.swept_verb import Config, Experiment, Measured, Measures, SweptVerb
from ordercast.pipeline.sweeps.tables import OPTIONS, table_like, table_of
from ordercast.plan.advice import AUTO, Plan, advise, check_options
from ordercast.plan.candidates import BUILDERS
from ordercast.plan.options import TABLE


@dataclass(frozen=True, slots=True)
class PlanRun:
    """What `ordercast plan` finds out about the point's groups."""

    files: Mapping[str, str]
    seconds: bool = False

    def __call__(self, config: Config, seed: int, _run: str) -> Measured:
        table = table_of(config, seed, self.files.__getitem__)
        begun = time.perf_counter()
        plan = advise(
            table,
            builder=config.get("builder", AUTO),
            objective=config.get("objective", "delay"),
            branching=config.get("branching"),
            tie=_tie(config),
            rebalance=config.get("rebalance", False),
        )
        took = time.perf_counter() - begun
        measures = {"memberships": float(table.memberships), **_of_plan(plan)}
        if config.get("builder", AUTO) == AUTO:  # on average: how often each one is chosen
            for builder in BUILDERS:
                measures[f"chosen_{builder}"] = float(plan.chosen.builder == builder)
        return Measured(measures | ({"seconds": took} if self.seconds else {}))


def _of_plan(plan: Plan) -> Measures:
    metrics, values = plan.metrics, plan.chosen.values
    measures = {
        "domains": plan.domains,
        "cyclic": len(plan.cyclic),
        "depth_mean": metrics.depth_mean,
        "depth_max": metrics.depth_max,
        "extra_mean": metrics.extra_mean,
        "messages_mean": sum(metrics.messages) / len(metrics.messages),
        "load_max": metrics.load_max,
        "load_by_rates": values.load,
        "utilisation": values.utilisation,
    }
    if not values.overloaded:  # an overloaded forest has no delay
        measures["delay_ms"] = values.delay * 1e3
    return {name: float(value) for name, value in measures.items()}


def _tie(config: Config) -> tuple[str, ...]:
    return Names().read(config.get("tie", []), "tie", str)


def _check(config: Config, read: ReadFile) -> None:
    table_like(config, read)
    builder = config.get("builder", AUTO)
    check_options(builder, "delay", config.get("branching"), _tie(config))


def _experiment(files: Mapping[str, str], seconds: bool, _history: bool) -> Experiment:
    return PlanRun(files, seconds)


SWEPT_VERB = SweptVerb(
    options={**OPTIONS, **by_name(TABLE)},
    measures=(
        "domains", "cyclic", "memberships", "depth_mean", "depth_max", "extra_mean",
        "messages_mean", "load_max", "load_by_rates", "delay_ms", "utilisation",
        *(f"chosen_{builder}" for builder in BUILDERS),
    ),
    check=_check,
    experiment=_experiment,
)  # fmt: skip
