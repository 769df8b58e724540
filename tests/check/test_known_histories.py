"""Histories with known verdicts: what each check counts, and the witness it shows."""

import pytest

from ordercast.check.report import check_history
from support.cases.known import DATA, INFORMATIVE, Case, known_cases
from support.judges.oracle import judge
from support.judges.witnesses import complaints

FILES = sorted(path.stem for path in DATA.glob("*.txt"))
CASES = [
    pytest.param(case, id=f"{name}: {case.title}") for name in FILES for case in known_cases(name)
]


@pytest.mark.parametrize("case", CASES)
def test_each_known_history_gets_its_verdict(case: Case) -> None:
    found = check_history(case.history, causal=True).as_json()
    counts = {**found["checks"], **found["informative"]}
    assert set(case.expected) <= set(counts)
    assert counts == {**dict.fromkeys(counts, 0), **case.expected}
    assert found["ok"] == (set(case.expected) <= set(INFORMATIVE))


@pytest.mark.parametrize("case", CASES)
def test_each_known_history_shows_its_witness(case: Case) -> None:
    found = check_history(case.history, causal=True).as_json()
    shown = {
        name: {key: case.named(found["witnesses"][name])[key] for key in witness}
        for name, witness in case.witnesses.items()
    }
    assert shown == case.witnesses
    assert complaints(case.history, found) == []


@pytest.mark.parametrize("case", CASES)
def test_the_oracle_judges_known_histories_alike(case: Case) -> None:
    found = judge(case.history)
    counts = {**found["checks"], **found["informative"]}
    assert counts == {**dict.fromkeys(counts, 0), **case.expected}
