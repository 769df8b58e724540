"""The verdict in names: counts and witnesses as `ordercast audit` prints them."""

from collections.abc import Callable, Mapping
from typing import Any

from ordercast.check.report import CHECKS, ON_REQUEST
from ordercast.pipeline.audits.evidence import Witnessed
from ordercast.pipeline.audits.listing import BECAUSE, REASONS
from ordercast.pipeline.audits.numbers import Numbers, Run
from ordercast.pipeline.audits.steps import Judged

Witness = dict[str, Any]
_SPLIT = 1  # a message in two epochs, not a row


def check_names(causal: bool) -> list[str]:
    return [*CHECKS, *(ON_REQUEST if causal else ())]


def counts(judged: Judged, causal: bool) -> dict[str, int]:
    """How much is wrong, by check."""
    found = {name: one.count for name, one in judged.checks.items()}
    found["pairwise_order"] = len(judged.inversions[0])
    found["positions"] = len(judged.position_faults)
    return {name: found.get(name, 0) for name in check_names(causal)}


def witnesses(judged: Judged, numbers: Numbers, causal: bool) -> dict[str, Witness]:
    """The smallest witness of each check that found something."""
    found: dict[str, tuple[Run, Witness]] = {}
    for name, show in _SHOWN.items():
        one = judged.checks.get(name, Witnessed())
        if one.key is not None:
            found[name] = show(numbers, one.shown)
    if len(judged.inversions[0]):
        found["pairwise_order"] = _pair(numbers, [int(c[0]) for c in judged.inversions])
        found["acyclic_order"] = _two_cycle(numbers, [int(c[0]) for c in judged.inversions])
    if judged.position_faults:
        found["positions"] = _position(numbers, judged.position_faults)
    return {
        name: {"run": found[name][0], **found[name][1]}
        if found[name][0] is not None
        else found[name][1]
        for name in check_names(causal)
        if name in found
    }


def _message(numbers: Numbers, message: int) -> list[str | int]:
    return list(numbers.message_id(message))


def _site(numbers: Numbers, site: int) -> str:
    return numbers.sites[site][1]


def _row(numbers: Numbers, shown: list[int]) -> Witness:
    site, position, attempt, epoch, message = shown
    return {
        "site": _site(numbers, site),
        "position": position,
        "attempt": attempt,
        "epoch": epoch,
        "message": _message(numbers, message),
    }


def _integrity(numbers: Numbers, shown: list[int]) -> tuple[Run, Witness]:
    kind, *rest = shown
    if kind == _SPLIT:
        message, *epochs = rest
        witness: Witness = {"message": _message(numbers, message), "epochs": epochs}
        return numbers.run_of_message(message), witness
    row, reasons = rest[:5], [REASONS[reason] for reason in rest[5:]]
    return numbers.run_of_site(row[0]), {**_row(numbers, row), "reasons": reasons}


def _agreement(numbers: Numbers, shown: list[int]) -> tuple[Run, Witness]:
    message, member, site, position, reason = shown
    return numbers.run_of_site(member), {
        "message": _message(numbers, message),
        "member": _site(numbers, member),
        "delivered": {"site": _site(numbers, site), "position": position},
        "because": BECAUSE[reason],
    }


def _lost(numbers: Numbers, shown: list[int]) -> tuple[Run, Witness]:
    message, member = shown
    witness: Witness = {"message": _message(numbers, message), "member": _site(numbers, member)}
    return numbers.run_of_site(member), witness


def _fifo(numbers: Numbers, shown: list[int]) -> tuple[Run, Witness]:
    *row, position, message = shown
    after = {"position": position, "message": _message(numbers, message)}
    return numbers.run_of_site(row[0]), {**_row(numbers, row), "after": after}


def _cycle(numbers: Numbers, shown: list[list[int]]) -> tuple[Run, Witness]:
    """`messages[i]` comes before the next one (the last before the first) at `sites[i]`."""
    return numbers.run_of_site(shown[0][1]), {
        "messages": [_message(numbers, step[0]) for step in shown],
        "sites": [_site(numbers, step[1]) for step in shown],
        "positions": [step[2:] for step in shown],
    }


def _causal(numbers: Numbers, shown: list[int]) -> tuple[Run, Witness]:
    site, position, message, later, first = shown
    return numbers.run_of_site(site), {
        "site": _site(numbers, site),
        "messages": [_message(numbers, first), _message(numbers, message)],
        "positions": [later, position],
    }


def _resent(numbers: Numbers, shown: list[Any]) -> tuple[Run, Witness]:
    client, request, part, one, other, *where = shown
    witness: Witness = {
        "client": client,
        "request": request,
        "part": part,
        "messages": [_message(numbers, one), _message(numbers, other)],
    }
    if where:
        site, *positions = where
        witness |= {"site": _site(numbers, site), "positions": positions}
    return numbers.run_of_message(one), witness


def _pair(numbers: Numbers, shown: list[int]) -> tuple[Run, Witness]:
    one, other, x, y, *at = shown
    return numbers.run_of_site(one), {
        "sites": [_site(numbers, one), _site(numbers, other)],
        "messages": [_message(numbers, x), _message(numbers, y)],
        "positions": {_site(numbers, one): at[:2], _site(numbers, other): at[2:]},
    }


def _two_cycle(numbers: Numbers, shown: list[int]) -> tuple[Run, Witness]:
    """Two sites that disagree are a cycle of two."""
    one, other, x, y, *at = shown
    return _cycle(numbers, [[x, one, at[0], at[1]], [y, other, at[3], at[2]]])


def _position(numbers: Numbers, faults: Mapping[int, tuple[int, bool]]) -> tuple[Run, Witness]:
    site = min(faults)
    position, double = faults[site]
    fault = "delivered at twice" if double else f"nothing at {position - 1}"
    witness: Witness = {"site": _site(numbers, site), "position": position, "fault": fault}
    return numbers.run_of_site(site), witness


_SHOWN: Mapping[str, Callable[[Numbers, list[Any]], tuple[Run, Witness]]] = {
    "integrity": _integrity,
    "agreement": _agreement,
    "lost": _lost,
    "fifo": _fifo,
    "acyclic_order": _cycle,
    "resent": _resent,
    "causal_order": _causal,
}
