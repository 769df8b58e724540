"""Random schedules in which messages have headers: all else holds, and what loses one is caught."""

from dataclasses import replace

import pytest

from ordercast.model.envelope import Envelope
from ordercast.sim import workload
from ordercast.sim.result import SimResult
from ordercast.sim.schedules import changing, excluding, schedule
from ordercast.sim.simulate import simulate

PROTOCOLS = ("propagation", "tom", "two_phase", "symmetric", "ring", "combining")


def run_one(kind: str, protocol: str, seed: int) -> SimResult:
    drawn = {"plain": schedule, "changing": changing, "excluding": excluding}[kind](protocol, seed)
    return simulate(replace(drawn, headers=0.5), seed)


@pytest.mark.parametrize("kind", ["plain", "changing", "excluding"])
def test_headers_change_nothing_but_what_is_delivered(kind: str) -> None:
    for number, protocol in enumerate(PROTOCOLS):
        result = run_one(kind, protocol, 11 + number)
        assert result.ok, f"{kind} {protocol}: {result.violations[0]}"
        with_headers = [row for row in result.history.deliveries if row.headers is not None]
        assert 0 < len(with_headers) < len(result.history.deliveries)
        assert all(row.sent_ns is not None for row in with_headers)


def test_the_same_seed_sends_the_same_with_and_without_headers() -> None:
    config = schedule("propagation", 3)
    plain = list(workload.submissions(config, 3))
    with_headers = list(workload.submissions(replace(config, headers=0.3), 3))
    assert [one._replace(headers=()) for one in with_headers] == plain
    share = sum(bool(one.headers) for one in with_headers) / len(with_headers)
    assert 0.1 < share < 0.6


def test_a_header_that_is_lost_or_goes_with_another_message_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = Envelope.items
    for wrong in (
        lambda self: [()] * len(self.payloads),
        lambda self: [items[:1] for items in real(self)],
    ):
        monkeypatch.setattr(Envelope, "items", wrong)
        result = run_one("plain", "propagation", 11)
        assert "integrity" in {violation.check for violation in result.violations}
