"""The live audit: a verdict that is kept current while a history grows.

It takes the next rows in any portions, and then has the verdict of the whole history so far. What
is settled is condensed: a summary of it stays, its rows go. docs/follow.md has the argument.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ordercast.check.acyclic_order import check_acyclic_order
from ordercast.check.agreement import check_agreement
from ordercast.check.condensed_rows import CondensedRows
from ordercast.check.condensing import Force, Holding, Unsettled, condense, find_cut, find_unsettled
from ordercast.check.fifo import check_fifo
from ordercast.check.integrity import check_integrity
from ordercast.check.late_rows import ORDER, behind_the_window, contradicted, reopened
from ordercast.check.lost import check_lost
from ordercast.check.pairwise_order import check_pairwise_order, find_inversions
from ordercast.check.positions import PositionFault, first_fault
from ordercast.check.report import CHECKS, Report
from ordercast.check.resent import asked_twice, check_resent
from ordercast.check.verdict import Verdict, Witness
from ordercast.check.view import View
from ordercast.history.rows import (
    REPEATING,
    Delivered,
    EpochRow,
    Event,
    GroupRow,
    History,
    Sent,
)
from ordercast.model.errors import ConfigError

PATIENCE = 200_000
"""Rows in the window. With more, violations are condensed, too: what is wrong stays wrong."""
WINDOW = 2_000_000
"""Rows in the window. With more, what a site lacks no longer holds it."""

_SUMS: Mapping[str, Callable[[View], Verdict]] = {
    "integrity": check_integrity,
    "agreement": check_agreement,
    "lost": check_lost,
    "fifo": check_fifo,
    "acyclic_order": check_acyclic_order,
    "resent": check_resent,
}
_FORMAT = 1


class Forever(msgspec.Struct):
    """Violations whose rows are condensed."""

    counts: dict[str, int] = {}
    pending: int = 0
    pairs: set[tuple[str, str]] = set()
    faults: dict[str, PositionFault] = {}  # of positions, by site
    witnesses: dict[str, dict[str, Any]] = {}
    forced: bool = False  # whether more was condensed than what is right for ever
    inexact: set[str] = set()


class _State(msgspec.Struct):
    format: int
    groups: list[GroupRow]
    sent: list[Sent]
    deliveries: list[Delivered]
    events: list[Event]
    epochs: list[EpochRow]
    before: CondensedRows
    forever: Forever


@dataclass(frozen=True, slots=True)
class _Judged:
    view: View
    verdicts: Mapping[str, Verdict]
    pairs: set[tuple[str, str]]
    faults: Mapping[str, PositionFault]


class LiveAudit:
    """Judges a growing history of one run. `patience` and `window` count rows: see above."""

    def __init__(self, patience: int = PATIENCE, window: int = WINDOW) -> None:
        self._patience = patience
        self._limit = window
        self._window = History()
        self._before = CondensedRows()
        self._forever = Forever()
        self._holding: list[Holding] = []
        self.contradicted = False
        """What is condensed does not fit to an event that came late. To read all again mends it."""
        self._report = self._summed(self._judge(), 0.0)

    @property
    def report(self) -> Report:
        """The verdict of all rows so far."""
        return self._report

    @property
    def holding(self) -> list[Holding]:
        """The sites that hold the window, those that lack most first."""
        return self._holding

    @property
    def held(self) -> int:
        """Rows in the window."""
        return len(self._window.deliveries) + len(self._window.sent)

    def add(self, rows: History) -> Report:
        """Take the next rows. Raises ConfigError if they name a run."""
        start = time.perf_counter()
        window = self._window
        for name, more in rows.tables().items():
            if any(row.run is not None for row in more):
                run = next(row.run for row in more if row.run is not None)
                raise ConfigError(f"{name}: run {run!r}: a history that is followed has no runs")
            getattr(window, name).extend(more)
        if self._forever.forced:
            self._forever.inexact |= behind_the_window(self._before, rows)
        judged = self._judge()
        contrary = contradicted(judged.view, window)
        self.contradicted = bool(contrary)
        self._forever.inexact |= contrary | reopened(judged.view, window, self._forever.forced)
        self._report = self._summed(judged, time.perf_counter() - start)
        unsettled = self._unsettled(judged)
        self._holding = unsettled.holding(judged.view)
        self._condense(judged, unsettled, Force.NOTHING)
        for force, most in ((Force.VIOLATIONS, self._patience), (Force.ABSENT, self._limit)):
            if self.held > most:
                judged = self._judge()
                self._condense(judged, self._unsettled(judged), force)
        return self._report

    def snapshot(self) -> bytes:
        """All of the state. `restore` goes on from there."""
        window = self._window
        return msgspec.msgpack.encode(
            _State(_FORMAT, **window.tables(), before=self._before, forever=self._forever)  # type: ignore[arg-type]
        )

    @classmethod
    def restore(cls, data: bytes, patience: int = PATIENCE, window: int = WINDOW) -> "LiveAudit":
        """Raises ConfigError if these are not the bytes of a snapshot that this release reads."""
        try:
            state = msgspec.msgpack.decode(data, type=_State)
        except msgspec.DecodeError as error:
            raise ConfigError(f"not the state of a live audit: {error}") from None
        if state.format != _FORMAT:
            raise ConfigError(f"the state of a live audit has format {state.format}, not {_FORMAT}")
        live = cls(patience, window)
        live._window = History(
            state.groups, state.sent, state.deliveries, state.events, state.epochs
        )
        live._before, live._forever = state.before, state.forever
        judged = live._judge()
        live._report = live._summed(judged, 0.0)
        live._holding = live._unsettled(judged).holding(judged.view)
        return live

    def _judge(self) -> _Judged:
        """The window, with what lies before it."""
        view = View(self._window, self._before)
        verdicts = {name: check(view) for name, check in _SUMS.items()}
        verdicts["pairwise_order"] = check_pairwise_order(view)
        names = [site.name for site in view.sites]
        pairs = {(names[one], names[other]) for one, other in find_inversions(view)}
        found = ((site.name, first_fault(view, site)) for site in view.sites)
        faults = {name: fault for name, fault in found if fault is not None}
        first = min(faults, default=None)
        witness = None if first is None else {"site": first, **faults[first]}
        verdicts["positions"] = Verdict("positions", len(faults), witness)
        return _Judged(view, verdicts, pairs, faults)

    def _unsettled(self, judged: _Judged) -> Unsettled:
        knotted = [message for knot in judged.view.knots for message in knot.messages]
        return find_unsettled(judged.view, knotted)

    def _summed(self, judged: _Judged, seconds: float) -> Report:
        view, forever, before = judged.view, self._forever, self._before
        verdicts = {}
        for name in CHECKS:
            own = judged.verdicts[name]
            count = own.count + forever.counts.get(name, 0)
            if name == "pairwise_order":
                count = len(judged.pairs | forever.pairs)
            elif name == "positions":
                count = len({*judged.faults, *forever.faults})
            witness = _smaller(name, forever.witnesses.get(name), own.witness)
            pending = own.pending + (forever.pending if name == "agreement" else 0)
            truncated = own.truncated or name in forever.inexact
            verdicts[name] = Verdict(name, count, witness, pending, truncated)
        unagreed = {site.name: site.unagreed_epochs for site in view.sites}
        return Report(
            before.rows + view.live_rows,
            len(view.sites),
            before.messages + len(view.messages) - len(view.late),
            1,
            seconds,
            before.annulled + view.annulled,
            before.unagreed_rows(unagreed) + view.unagreed,
            verdicts,
        )

    def _condense(self, judged: _Judged, unsettled: Unsettled, force: Force) -> None:
        stays = unsettled.remaining(force)
        cut = find_cut(judged.view, stays, force)
        self._note_requests(judged, cut)
        if force == Force.ABSENT and any(cut):
            self._forever.inexact |= {"integrity", "agreement", *ORDER}
        self._window = condense(judged.view, self._window, cut)
        if force != Force.NOTHING and any(cut):
            self._forever.forced = True
            self._keep_violations(judged)

    def _keep_violations(self, judged: _Judged) -> None:
        """What the window no longer shows is counted for ever."""
        left, forever = self._judge(), self._forever
        for name in _SUMS:
            if name == "resent":  # counted as it is noted
                continue
            gone = judged.verdicts[name].count - left.verdicts[name].count
            forever.counts[name] = forever.counts.get(name, 0) + gone
        one, other = judged.verdicts["agreement"], left.verdicts["agreement"]
        forever.pending += one.pending - other.pending
        if (one.count, one.pending) != (other.count, other.pending):
            forever.inexact.add("agreement")  # what is missing may still come
        forever.pairs |= judged.pairs - left.pairs
        for site, fault in judged.faults.items():
            if int(fault["position"]) <= self._before.last_position(site):
                forever.faults.setdefault(site, fault)
                forever.inexact.add("positions")  # a base or a gap may still fill the hole
        for name, verdict in judged.verdicts.items():
            if verdict.witness is not None and verdict.witness != left.verdicts[name].witness:
                kept = _smaller(name, forever.witnesses.get(name), verdict.witness)
                forever.witnesses[name] = dict(kept or {})

    def _note_requests(self, judged: _Judged, cut: list[int]) -> None:
        """Remember the requests of rows that go, and count the parts that became several messages:
        none is counted twice."""
        before, view, forever = self._before, judged.view, self._forever
        again = asked_twice(view)
        counted = len(before.resent)
        for number, row in _rows_that_go(view, cut):
            if row.client is None or row.request is None or row.part is None:
                continue
            if isinstance(row, Sent) and row.client.startswith(REPEATING):
                continue
            part = (row.client, row.request, row.part)
            if part in again:
                before.resent.add(part)
            if not before.note_request(part, view.messages[number]):
                forever.inexact.add("resent")
        if len(before.resent) > counted:
            more = len(before.resent) - counted
            forever.counts["resent"] = forever.counts.get("resent", 0) + more
            own = judged.verdicts["resent"].witness
            forever.witnesses["resent"] = dict(
                _smaller("resent", forever.witnesses.get("resent"), own) or {}
            )


def _rows_that_go(view: View, cut: list[int]) -> Iterator[tuple[int, Sent | Delivered]]:
    """The deliveries up to the cut, and all sends of their messages and of condensed messages."""
    condensed = set(view.late)
    for site, end in zip(view.sites, cut, strict=True):
        condensed.update(site.numbers[:end])
        yield from zip(site.numbers[:end], site.rows[:end], strict=True)
    for number, sent in enumerate(view.sent):
        if sent is not None and number in condensed:
            yield number, sent
    yield from ((number, sent) for number, sent in view.sent_again if number in condensed)


def _smaller(name: str, one: Witness | None, other: Witness | None) -> Witness | None:
    """The one that comes first by the order of the check (docs/checks.md)."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other, key=lambda witness: _place(name, witness))


def _place(name: str, witness: Witness) -> tuple[Any, ...]:
    if name in ("integrity", "fifo"):
        if "position" in witness:
            return (0, witness["site"], witness["position"], witness["attempt"])
        return (1, *witness["message"])
    if name in ("agreement", "lost"):
        return (witness["message"], witness["member"])
    if name == "acyclic_order":
        sites = witness["sites"] if len(witness["messages"]) == 2 else []
        return (len(witness["messages"]), sites, min(witness["messages"]))
    if name == "resent":
        return (witness["client"], witness["request"], witness["part"])
    return (witness.get("sites") or witness["site"],)
