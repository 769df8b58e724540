"""The detector: whom it suspects, and whom not."""

import random

import pytest

from ordercast.core.detector import Detector, DetectorTimes
from ordercast.model.options import MILLISECOND, SECOND

TIMES = DetectorTimes()


def run(detector: Detector, start: int, end: int, heard: dict[int, str]) -> int:
    """Ticks when due, signs of life at their times; the time reached."""
    moments = sorted({*heard, *range(detector.alarm_at, end, TIMES.interval)})
    for at in (moment for moment in moments if start <= moment < end):
        if at >= detector.alarm_at:
            detector.tick(at)
        if at in heard:
            detector.heard(at, heard[at])
    return end


def watching(*peers: str) -> Detector:
    detector = Detector(0)
    detector.watch(0, peers)
    return detector


def test_one_that_is_heard_regularly_is_not_suspected() -> None:
    detector = watching("b")
    for at in range(0, 10 * SECOND, TIMES.interval):
        detector.heard(at, "b")
        detector.tick(at)
        assert detector.suspects(at) == []


def test_one_that_falls_silent_is_suspected_and_returns() -> None:
    detector = watching("b", "c")
    for at in range(0, 5 * SECOND, TIMES.interval):
        detector.tick(at)
        detector.heard(at, "c")
        if at < SECOND:
            detector.heard(at, "b")
    assert detector.suspects(5 * SECOND) == ["b"]
    detector.heard(5 * SECOND, "b")
    assert detector.suspects(5 * SECOND) == []


def test_a_steady_peer_is_missed_within_a_few_intervals() -> None:
    detector = watching("b")
    for at in range(0, 5 * SECOND, TIMES.interval):
        detector.tick(at)
        detector.heard(at, "b")
    assert detector.patience("b") == TIMES.least * TIMES.interval


@pytest.mark.parametrize("seed", range(20))
def test_patience_follows_what_was_measured(seed: int) -> None:
    """Signs of life that come in long and uneven gaps are usual for this peer."""
    draw = random.Random(seed)
    detector = watching("b")
    now, wrong, count = 0, 0, 0
    while now < 300 * SECOND:
        end = now + draw.randint(50, 500) * MILLISECOND
        while detector.alarm_at < end:
            detector.tick(detector.alarm_at)
        count += now > 20 * SECOND
        wrong += now > 20 * SECOND and detector.suspects(end) != []
        detector.heard(end, "b")
        now = end
    assert wrong <= count // 100
    assert detector.patience("b") < 3 * SECOND


def test_a_pause_of_the_own_process_is_nobodys_silence() -> None:
    detector = watching("b")
    for at in range(0, 2 * SECOND, TIMES.interval):
        detector.tick(at)
        detector.heard(at, "b")
    awake = 32 * SECOND
    assert detector.suspects(awake) == []  # also when asked before the first tick
    detector.tick(awake)
    assert detector.suspects(awake) == []
    run(detector, awake, awake + SECOND, {})
    assert detector.suspects(awake + SECOND) == ["b"]


def test_who_is_no_longer_watched_is_not_suspected() -> None:
    detector = watching("b", "c")
    run(detector, 0, SECOND, {})
    assert detector.suspects(SECOND) == ["b", "c"]
    detector.watch(SECOND, ["c", "d"])
    assert detector.suspects(SECOND) == ["c"]


@pytest.mark.parametrize("seed", range(5))
def test_whoever_is_silent_is_found_whatever_was_asked_before(seed: int) -> None:
    """Peers are looked at only where one may be silent: what that says is what all silences say."""
    chance = random.Random(seed)
    detector, now, found = watching("b", "c", "d"), 0, 0
    for _ in range(2_000):
        now += chance.randrange(2 * TIMES.interval)
        act = chance.randrange(8)
        if act < 4:
            detector.heard(now, chance.choice("bcd"))
        elif act == 4:
            detector.watch(now, chance.sample("bcde", 3))
        elif act == 5:
            detector.silent(now, chance.choice("bcde"), chance.randrange(SECOND))
        else:
            detector.tick(now)
        at_least = chance.choice([0, SECOND])
        silent = detector.silences(now).items()
        expected = [p for p, time in silent if time > max(at_least, detector.patience(p))]
        assert detector.suspects(now, at_least) == expected
        found += len(expected)
    assert found
