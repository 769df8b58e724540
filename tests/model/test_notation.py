"""Durations, counts, probabilities and lists of name=value, with one line for what is wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import ConfigError
from ordercast.model.notation import count, duration, pairs, probability, show_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("250us", 250_000),
        ("5ms", 5_000_000),
        ("1.5s", 1_500_000_000),
        ("0ns", 0),
        ("2min", 120 * 10**9),
    ],
)
def test_a_duration_is_read_exactly(text: str, nanoseconds: int) -> None:
    assert duration(text, "L") == nanoseconds


@given(st.integers(0, 10**15))
def test_a_duration_shown_reads_back_as_itself(nanoseconds: int) -> None:
    assert duration(show_duration(nanoseconds), "x") == nanoseconds


@pytest.mark.parametrize("text", ["5", "ms", "5 m", "-5ms", "1e3ms", "5fortnights", "", "٣ms", 5])
def test_what_is_no_duration_is_refused_with_an_example(text: object) -> None:
    with pytest.raises(ConfigError, match=r"^network: L: .* is not a duration \(write 250us, 5ms"):
        duration(text, "network: L")


@pytest.mark.parametrize("value", ["1.1", "-0.1", "x", True, None, "0x1", "nan"])
def test_what_is_no_probability_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match=r"^faults: loss: .* is not a probability \(0 to 1\)$"):
        probability(value, "faults: loss")


def test_probabilities_are_read_from_text_and_numbers() -> None:
    assert [probability(value, "x") for value in ("0.25", "1", 0, 0.5)] == [0.25, 1.0, 0.0, 0.5]


@pytest.mark.parametrize("value", ["-1", "1.5", "x", 1.5, True])
def test_what_is_no_count_is_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="is not a count"):
        count(value, "faults: crash")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("a", "'a'"),
        ("a=", "'a='"),
        ("=1", "'=1'"),
        ("a=1,,b=2", "''"),
        ("a=1,a=2", "'a' is given twice"),
    ],
)
def test_a_list_that_is_malformed_is_refused(text: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        list(pairs(text, "faults"))
