"""The steps of an audit on either engine: a first pass, and more passes while something is left
open.

One pass judges everything in a right history. It may leave open: pairs that depend on what a member
delivered later, FIFO over a border, messages that cross cuts, causal order over a border. Further
passes collect what is missing, and a last one judges with it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ordercast.pipeline.audits import borders, causal
from ordercast.pipeline.audits.by_part import MOST_LOOKED, show_cycle, tell_inversions
from ordercast.pipeline.audits.evidence import Evidence, Total, Witnessed
from ordercast.pipeline.audits.facts import SiteLog
from ordercast.pipeline.audits.numbers import Ints
from ordercast.pipeline.audits.places import PlaceColumns
from ordercast.pipeline.audits.requests import place_of_both
from ordercast.pipeline.audits.survey import put_together
from ordercast.pipeline.audits.tangles import shortest_cycle, sort_orders
from ordercast.pipeline.audits.tasks import JudgingTask

LOGGER = logging.getLogger("ordercast.pipeline.audit")
MOST_OVER = 200  # messages; a cut that more of them cross is given up


class Work(Protocol):
    """Runs both steps of a task over all rows: on Spark, or in a loop at the driver."""

    def run(self, task: JudgingTask) -> list[Evidence]: ...


@dataclass(frozen=True)
class Judged:
    """Counts and witnesses in numbers, and the tasks that judged last: they can be run again."""

    task: JudgingTask
    causal_task: JudgingTask | None  # when causal order was judged apart
    total: Total
    checks: Mapping[str, Witnessed]
    inversions: list[Ints]  # one row per pair of sites that disagree
    position_faults: Mapping[int, tuple[int, bool]]
    tangled_crossing: Ints
    stopped: bool


def judge(work: Work, task: JudgingTask, logs: Mapping[int, SiteLog]) -> Judged:
    LOGGER.info("judging")
    total = Total(work.run(task))
    task, total = _give_up_cuts(work, task, total)
    causal_task, apart = _judge_causal_apart(work, task, total) if task.causal else (None, None)
    task = replace(task, causal=task.causal and causal_task is None)
    crossing_tangled = np.empty(0, np.int64)
    again = task
    if len(total.table("open", 1)[0]) or len(total.table("open_lost", 1)[0]):
        LOGGER.info("looking at members that stopped early")
        wanted = np.unique(total.table("open", 1)[0])
        found = Total(work.run(replace(task, wanted=wanted)))
        again = replace(again, known=put_together(found, task.facts, task.streams))
    if carries := borders.carries(total):
        again = replace(again, carries=carries)
    crossing = borders.read_crossing(total)
    if len(crossing.part):
        LOGGER.info("looking at %d rows of messages that cross cuts", len(crossing.part))
        found = Total(work.run(replace(task, reach=True)))
        hubs, crossing, crossing_tangled = borders.hubs(found, crossing)
        again = replace(again, hubs=hubs, crossing=crossing)
    if again is not task:
        LOGGER.info("judging again")
        total = Total(work.run(again))
    checks = dict(total.checks)
    if apart is not None:
        checks["causal_order"] = apart
    if checks.get("resent", Witnessed()).key is not None:
        _find_both(work, again, checks["resent"])
    return _conclude(again, causal_task, total, checks, logs, crossing_tangled)


def _find_both(work: Work, task: JudgingTask, resent: Witnessed) -> None:
    """Where the two messages of the witness were delivered by one site."""
    LOGGER.info("looking for a request that became two messages")
    one, other = resent.shown[-2:]
    found = Total(work.run(replace(task, sought=np.array([one, other], np.int64))))
    resent.shown = [*resent.shown, *place_of_both(found.table("both", 3), one, other)]


def _give_up_cuts(work: Work, task: JudgingTask, total: Total) -> tuple[JudgingTask, Total]:
    """Parts that share many messages are judged as one: contracting them would cost more."""
    at, over = total.table("over_cuts", 2)
    while len(at):
        count = np.zeros(task.cuts.parts, np.int64)
        np.add.at(count, at, over)
        most = -1 if total.counts.get("unnamed", 0) else MOST_OVER
        bad = np.flatnonzero(count[:-1] > most).tolist()
        if not bad:
            break
        LOGGER.info("judging without %d of %d cuts", len(bad), task.cuts.parts - 1)
        task = replace(task, cuts=task.cuts.merge((cut, cut + 1) for cut in bad))
        total = Total(work.run(task))
        at, over = total.table("over_cuts", 2)
    return task, total


def _judge_causal_apart(
    work: Work, task: JudgingTask, total: Total
) -> tuple[JudgingTask | None, Witnessed | None]:
    """Causal order with parts merged where something may have happened before an earlier part."""
    found = None
    task = replace(task, request_shares=0)  # judged already
    while ranges := [*causal.ranges_to_merge(total), *_crossed(total)]:
        task = replace(task, cuts=task.cuts.merge(ranges))
        LOGGER.info("judging causal order in %d parts", task.cuts.parts)
        total = Total(work.run(task))
        found = total.checks.get("causal_order", Witnessed())
    return (None, None) if found is None else (task, found)


def _crossed(total: Total) -> list[tuple[int, int]]:
    at, over = total.table("over_cuts", 2)
    return [(cut, cut + 1) for cut in np.unique(at[over > 0]).tolist()]


def _conclude(
    task: JudgingTask,
    causal_task: JudgingTask | None,
    total: Total,
    checks: dict[str, Witnessed],
    logs: Mapping[int, SiteLog],
    crossing_tangled: Ints,
) -> Judged:
    more = Evidence()
    if task.crossing is not None:
        tell_inversions(task.crossing.orders, more)
    inversions = _by_pair(Total([more]), total)
    stopped = False
    if not len(inversions[0]):
        stopped = total.counts.get("stopped", 0) > 0
        hub, site, *place = total.table("knot", 6)
        if len(hub):
            order = np.lexsort((*place[::-1], site))
            orders = sort_orders(site, PlaceColumns(*place))
            cycle, cut_short = shortest_cycle(orders, hub[order], task.streams, MOST_LOOKED)
            stopped = stopped or cut_short
            show_cycle(orders, cycle, task.sites_run, more)
            if "acyclic_order" in more.checks:
                checks["acyclic_order"].add(more.checks["acyclic_order"])
    tangled = np.union1d(total.table("tangled_crossing", 1)[0], crossing_tangled)
    if len(tangled):
        checks["acyclic_order"].count += len(tangled)
    faults = borders.position_faults(total, logs)
    return Judged(task, causal_task, total, checks, inversions, faults, tangled, stopped)


def _by_pair(*totals: Total) -> list[Ints]:
    """For each pair of sites that disagree, the inversion that comes first at the first site."""
    columns = [
        np.concatenate(pieces)
        for pieces in zip(*(total.table("inversions", 8) for total in totals), strict=True)
    ]
    one, other, *_ = columns
    order = np.lexsort((columns[4], other, one))
    pairs = np.stack([one[order], other[order]], 1)
    new = np.ones(len(order), bool)
    new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    return [column[order[new]] for column in columns]
