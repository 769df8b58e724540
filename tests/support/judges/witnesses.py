"""Whether the witnesses of a report show what they say, by the oracle's definitions."""

from collections.abc import Callable
from typing import Any

from ordercast.history.rows import Delivered, History
from support.judges.oracle import Id, Run, as_id, runs_of


def complaints(history: History, verdicts: dict[str, Any]) -> list[str]:
    """What is wrong with the witnesses of a report's JSON; nothing when each shows what it says."""
    found = [
        f"{name}: {count} but {'a' if name in verdicts['witnesses'] else 'no'} witness"
        for name, count in verdicts["checks"].items()
        if (count > 0) != (name in verdicts["witnesses"])
    ]
    for name, witness in verdicts["witnesses"].items():
        run = Run(runs_of(history)[witness.get("run")])
        if not _SHOWS[name](run, witness):
            found.append(f"{name}: {witness}")
    return found


def _rows_at(run: Run, witness: dict[str, Any]) -> list[Delivered]:
    return [
        row
        for row in run.rows
        if (row.site, row.position, row.attempt) == tuple(witness[k] for k in _PLACE)
        and row.id == as_id(witness["message"])
    ]


_PLACE = ("site", "position", "attempt")


def _shows_integrity(run: Run, witness: dict[str, Any]) -> bool:
    if "epochs" in witness:
        return bool(witness["epochs"] == sorted(run.epochs_of(as_id(witness["message"]))))
    faults = [run.row_faults(row) for row in _rows_at(run, witness)]
    return bool(witness["reasons"]) and witness["reasons"] in faults


def _shows_agreement(run: Run, witness: dict[str, Any]) -> bool:
    shown = (as_id(witness["message"]), str(witness["member"]))
    pairs = {
        (message, member)
        for message, epoch, member in run.missing_pairs()
        if not run.excused(message, epoch, member) and run.has_passed(message, epoch, member)
    }
    return shown == min(pairs)


def _shows_lost(run: Run, witness: dict[str, Any]) -> bool:
    message = as_id(witness["message"])
    return (
        message == min(m for m in run.sent if run.is_lost(m))
        and witness["member"] in run.ended_members(message[2])
        and run.owes(witness["member"], message)
    )


def _shows_fifo(run: Run, witness: dict[str, Any]) -> bool:
    return any(run.overtaken(row) for row in _rows_at(run, witness))


def _shows_pairwise(run: Run, witness: dict[str, Any]) -> bool:
    one, other = witness["sites"]
    x, y = map(as_id, witness["messages"])
    pairs = [(a, b) for a in run.sites for b in run.sites if a < b and run.disagree(a, b)]
    return (
        (one, other) == min(pairs)
        and run.is_before(x, y, one)
        and run.is_before(y, x, other)
        and witness["positions"]
        == {s: [_position(run, s, m) for m in (x, y)] for s in (one, other)}
    )


def _shows_cycle(run: Run, witness: dict[str, Any]) -> bool:
    cycle = [as_id(message) for message in witness["messages"]]
    following = cycle[1:] + cycle[:1]
    steps = list(zip(cycle, following, witness["sites"], witness["positions"], strict=True))
    shortest = min(filter(None, (run.cycle_length(message) for message in run.messages)))
    return len(cycle) == shortest and all(
        run.is_before(one, other, site)
        and at == [_position(run, site, one), _position(run, site, other)]
        for one, other, site, at in steps
    )


def _shows_positions(run: Run, witness: dict[str, Any]) -> bool:
    return run.misnumbered(witness["site"])


def _shows_causal(run: Run, witness: dict[str, Any]) -> bool:
    first, later = map(as_id, witness["messages"])
    site = witness["site"]
    return (
        run.is_before(later, first, site)
        and first in run.past[later]
        and witness["positions"] == [_position(run, site, first), _position(run, site, later)]
    )


def _shows_resent(run: Run, witness: dict[str, Any]) -> bool:
    asked = run.asked_twice()
    smallest = min(asked)
    one, other = sorted(asked[smallest])[:2]
    first = {
        site: [
            min((row.position for row in run.rows if row.site == site and row.id == m), default=0)
            for m in (one, other)
        ]
        for site in sorted({row.site for row in run.rows})
        if {one, other} <= {row.id for row in run.rows if row.site == site}
    }
    place = {"site": min(first), "positions": first[min(first)]} if first else {}
    shown: dict[str, Any] = {"messages": [list(one), list(other)], **place}
    shown |= zip(("client", "request", "part"), smallest, strict=True)
    return {name: value for name, value in witness.items() if name != "run"} == shown


def _position(run: Run, site: str, message: Id) -> int:
    place = run.place(site, message)
    assert place is not None
    return run.orders[site][place].position


_SHOWS: dict[str, Callable[[Run, dict[str, Any]], bool]] = {
    "integrity": _shows_integrity,
    "agreement": _shows_agreement,
    "lost": _shows_lost,
    "fifo": _shows_fifo,
    "pairwise_order": _shows_pairwise,
    "acyclic_order": _shows_cycle,
    "positions": _shows_positions,
    "resent": _shows_resent,
    "causal_order": _shows_causal,
}
