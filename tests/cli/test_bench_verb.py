"""`ordercast bench`: the fields that scripts rely on, and mistakes in one line."""

import json

import pytest

from ordercast.cli import main

FIELDS = {
    "members", "payload", "seconds", "protocol", "deliver", "durability", "tls", "api", "rate",
    "system", "msgs_per_s", "p50_ms", "p99_ms", "cpu_us_per_msg", "same_order",
}  # fmt: skip


def test_the_result_has_the_options_and_what_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "--members", "2", "--seconds", "0.2", "--rate", "100", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) >= FIELDS
    assert (found["members"], found["payload"], found["rate"]) == (2, 100, 100.0)
    assert found["same_order"] is True


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--members", "1"], "1 is too small"),
        (["--payload", "4"], "4 is too small"),
        (["--deliver", "save"], "'save' is none of safe, agreed"),
        (["--seconds", "0"], "0 is not above 0"),
    ],
)
def test_a_mistake_is_one_line(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
