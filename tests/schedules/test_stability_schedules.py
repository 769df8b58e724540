"""Random schedules under every stability protocol, watched by a judge that knows the truth: nothing
is called stable, let through or forgotten before every member of the epoch has it; in the end
everything is stable, and nothing is kept."""

import pytest

from support.cases.schedules import leave_picture
from support.judges.stability_truth import BY_ROUNDS, judged, tracked

CHUNK = 10
SCHEDULES = 200


@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_nothing_is_stable_before_every_member_of_the_epoch_has_it(first: int) -> None:
    claims = 0
    for seed in range(first, first + CHUNK):
        config = tracked(seed)
        wrong, result, truth = judged(config, seed)
        assert wrong == [], f"{result.replay} -- picture: {leave_picture(config, seed)}"
        claims += truth.claims
    assert claims > 100  # which were held against the truth


def test_the_schedules_have_all_of_what_could_go_wrong() -> None:
    drawn = [tracked(seed) for seed in range(SCHEDULES)]
    assert {config.stability for config in drawn} == set(BY_ROUNDS)
    faults = [fault for config in drawn for fault in config.faults]
    assert max(fault.probability for fault in faults if fault.kind == "loss") == 0.3
    assert {"crash", "restart", "lose", "join", "leave", "switch"} <= {f.kind for f in faults}
    assert {(config.deliver, config.on_failure) for config in drawn} == {
        (level, policy) for level in ("safe", "agreed") for policy in ("wait", "exclude")
    }
