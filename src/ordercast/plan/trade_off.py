"""The trade-off between delay and load: the best forest by each, and the one between them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ordercast.model.groups import GroupTable, Site
from ordercast.plan.advice import AUTO, advise
from ordercast.plan.candidates import Candidate
from ordercast.plan.objectives import LAN, MIXED, NetworkModel

ALONG = ("delay", MIXED, "load")  # from the quickest to the least loaded


@dataclass(frozen=True, slots=True)
class Step:
    """The forest that is best by one objective."""

    objective: str
    candidate: Candidate


def trade_off(
    table: GroupTable,
    builder: str = AUTO,
    branching: int | None = None,
    tie: Sequence[Site] = (),
    model: NetworkModel = LAN,
) -> tuple[Step, ...]:
    """The best forests along the way from short delays to low load."""
    return tuple(
        Step(objective, advise(table, builder, objective, branching, tie, model=model).chosen)
        for objective in ALONG
    )
