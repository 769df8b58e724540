"""The benchmark: real processes, the fields of its result, and a meter that sees another order."""

import sys

import pytest

from ordercast.model.errors import ConfigError, Error
from ordercast.net.bench.meter import Meter, pool, stamp
from ordercast.net.bench.run import BenchSpec, run_bench, run_members


@pytest.mark.parametrize("api", ["message", "batch"])
def test_members_in_processes_of_their_own_deliver_all_in_one_order(api: str) -> None:
    found = run_bench(BenchSpec(members=2, payload=64, seconds=0.3, api=api))
    assert found["same_order"]
    assert found["messages"] > 2  # sent, beside those that warm up
    assert found["msgs_per_s"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["cpu_us_per_msg"] > 0


def test_an_even_rate_is_kept_with_stores_tls_and_safe_delivery() -> None:
    found = run_bench(
        BenchSpec(members=2, seconds=1.0, rate=200.0, deliver="safe", durability="sync", tls=True)
    )
    assert found["same_order"]
    assert 100 <= found["msgs_per_s"] <= 300


def test_another_order_has_another_hash() -> None:
    one, two, three = pool(16)[:3]
    seen = []
    for order in ([one, two, three], [one, three, two], [one, two]):
        meter = Meter()
        meter.mark()
        meter.pending.extend(order[:2])  # given one by one,
        meter.took_stamped(stamp(order[0]))
        meter.took(order[2:])  # or by the batch
        meter.mark()
        result = meter.result()
        seen.append((result["count"], result["hash"]))
    assert len(set(seen)) == 3
    assert [count for count, _ in seen] == [3, 3, 2]


def test_a_delay_is_counted_only_between_the_marks() -> None:
    meter = Meter()
    payload = stamp(bytes(16))
    meter.took_stamped(payload)
    meter.mark()
    meter.took_stamped(payload)
    meter.mark()
    meter.took_stamped(payload)
    (delay,) = meter.result()["delays_ns"]
    assert delay > 0


def test_a_member_that_ends_early_is_told_in_one_line() -> None:
    with pytest.raises(Error, match="ended with code 3"):
        run_members([[sys.executable, "-c", "raise SystemExit(3)"]], 0.1)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"payload": 7}, "payload: 7 bytes"),
        ({"rate": 0.0}, "rate: 0"),
        ({"seconds": 0.0}, "seconds: 0"),
        ({"protocol": "propagatoin"}, "propagatoin"),
    ],
)
def test_a_wrong_option_is_named(wrong: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        BenchSpec(**wrong)  # type: ignore[arg-type]
