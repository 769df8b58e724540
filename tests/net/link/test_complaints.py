"""What is logged of peers and strangers: once, and never without bound."""

import logging

import pytest

from ordercast.net.link.complaints import STRANGERS, Complaints, LinkTrouble

log = logging.getLogger("ordercast.test.complaints")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_cause_is_said_once_for_each_peer_and_always_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints(log, ["a", "b"])
    for _ in range(5):
        for who in ("a", "b", "192.0.2.1"):
            complaints.say(who, LinkTrouble("wrong frame", "of 3 bytes"))
            complaints.say(who, LinkTrouble("silent"))
    assert sorted(lines(caplog)) == sorted(
        f"{who}: {what}"
        for who in ("a", "b", "192.0.2.1")
        for what in ("wrong frame: of 3 bytes", "silent")
    )
    assert complaints.counts == {"wrong frame": 15, "silent": 15}


def test_what_happens_after_a_good_connection_is_news(caplog: pytest.LogCaptureFixture) -> None:
    complaints = Complaints(log, ["a", "b"])
    for who in ("a", "b", "192.0.2.1"):
        complaints.say(who, LinkTrouble("silent"))
    complaints.forget("a")
    caplog.clear()
    for who in ("a", "b", "192.0.2.1"):
        complaints.say(who, LinkTrouble("silent"))
    assert lines(caplog) == ["a: silent"]


def test_strangers_of_many_hosts_fill_neither_memory_nor_log_and_hide_no_site(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints(log, ["a"])
    for number in range(3 * STRANGERS):
        complaints.say(f"host{number}", LinkTrouble("no hello"))
    assert len(caplog.records) == STRANGERS + 1
    assert lines(caplog)[-1] == "refusals of many hosts: further hosts are only counted"
    assert complaints.counts["no hello"] == 3 * STRANGERS
    complaints.say("a", LinkTrouble("silent"))
    assert lines(caplog)[-1] == "a: silent"


def test_a_flapping_connection_is_noted_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    complaints = Complaints(log, ["a"])
    for _ in range(10):
        complaints.note("a", "connected", "dialled, boot 1")
        complaints.note("a", "lost", "reset")
    complaints.forget("a")
    complaints.forget("a")
    assert lines(caplog) == [
        "a: connected (dialled, boot 1)",
        "a: lost (reset)",
        "a: connected, and well again",
    ]


def test_nothing_is_said_of_a_connection_that_was_never_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    complaints = Complaints(log, ["a"])
    complaints.note("a", "connected", "dialled, boot 1")
    complaints.forget("a")
    assert lines(caplog) == ["a: connected (dialled, boot 1)"]
