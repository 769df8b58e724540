"""Random schedules under every stability protocol, watched by a judge that knows the truth: nothing
is called stable, let through or forgotten before every member of the epoch has it; in the end
everything is stable, and nothing is kept."""

import pytest

from support.judges.stability_truth import BY_ROUNDS, judged, tracked

CHUNK = 10
SCHEDULES = 300


@pytest.mark.parametrize("first", range(0, SCHEDULES, CHUNK))
def test_nothing_is_stable_before_every_member_of_the_epoch_has_it(first: int) -> None:
    claims = 0
    for seed in range(first, first + CHUNK):
        wrong, result, truth = judged(tracked(seed), seed)
        assert wrong == [], result.replay
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


@pytest.mark.usefixtures("apart")
def test_a_close_that_was_placed_and_not_stored_is_no_second_one() -> None:
    wrong, result, _ = judged(tracked(1_003_967, epochs_every=2), 1_003_967)
    assert wrong == [], result.replay
    assert result.faults["crash"] == 3


@pytest.mark.usefixtures("apart")
def test_who_lost_its_store_and_is_in_no_group_need_not_show_what_it_had() -> None:
    wrong, result, _ = judged(tracked(1_002_961, epochs_every=2), 1_002_961)
    assert wrong == [], result.replay
    assert result.faults["lose"] == 1


@pytest.mark.usefixtures("apart")
def test_rows_that_come_late_from_one_member_do_not_keep_another_asking() -> None:
    config = tracked(2_010_891, epochs_every=2)
    assert config.stability == "full_dist"
    wrong, result, _ = judged(config, 2_010_891)
    assert wrong == [], result.replay


@pytest.mark.usefixtures("apart")
def test_bids_by_a_hop_that_has_restarted_are_not_lost_in_every_new_epoch() -> None:
    """`tom`: its origin was excluded as too slow before it bid again, time after time."""
    wrong, result, _ = judged(tracked(2_007_129, epochs_every=2), 2_007_129)
    assert wrong == [], result.replay
    assert result.faults["switch"] == 1


@pytest.mark.usefixtures("apart")
def test_a_lag_that_ends_with_a_pause_ends() -> None:
    wrong, result, _ = judged(tracked(2_001_049, epochs_every=2), 2_001_049)
    assert wrong == [], result.replay
    assert (result.faults["pause"], result.faults["lag"]) == (2, 1)
