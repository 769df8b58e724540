"""Faults as the user writes them: comma lists, TOML, JSON; and what is refused."""

import pytest

from ordercast.model.errors import ConfigError
from ordercast.sim.faults import (
    Fault,
    check_faults,
    parse_faults,
    random_faults,
    show_faults,
)

TOML = """
loss = 0.05
[[fault]]
kind = "partition"
count = 2
from = "100ms"
to = "400ms"
length = "50ms"
sites = ["a", "b"]
[[fault]]
kind = "reorder"
probability = 0.2
sites = ["c"]
"""

FROM_TOML = (
    Fault("loss", probability=0.05),
    Fault("partition", 0.0, 2, 100_000_000, 400_000_000, 50_000_000, ("a", "b")),
    Fault("reorder", probability=0.2, sites=("c",)),
)


def no_file(name: str) -> str:
    raise AssertionError(f"{name} is not to be read")


def test_a_comma_list_gives_one_piece_each() -> None:
    assert parse_faults("loss=0.1, crash=2,restart=1", no_file) == (
        Fault("loss", probability=0.1),
        Fault("crash", count=2),
        Fault("restart", count=1),
    )


def test_an_empty_string_is_no_faults() -> None:
    assert parse_faults("", no_file) == ()


def test_a_file_can_say_when_how_long_and_whom() -> None:
    assert parse_faults("f.toml", {"f.toml": TOML}.__getitem__) == FROM_TOML


def test_faults_are_shown_as_text_that_gives_them_back() -> None:
    simple = parse_faults("loss=0.1,crash=2", no_file)
    assert show_faults(simple) == "loss=0.1,crash=2"
    assert parse_faults(show_faults(FROM_TOML), no_file) == FROM_TOML
    twice = (Fault("pause", count=1), Fault("pause", count=2))
    assert parse_faults(show_faults(twice), no_file) == twice


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("los=0.1", "faults: there is no 'los' (did you mean 'loss'?)"),
        ("loss=2", "faults: loss: 2 is not a probability (0 to 1)"),
        ("crash=0.5", "faults: crash: 0.5 is not a count (0 or more)"),
        ("{]", "faults: Expecting property name enclosed in double quotes"),
        ('{"fault": 1}', "faults: 'fault' must be a list of tables ([[fault]])"),
        ('{"fault": [{}]}', "faults: fault 1: 'kind' is missing"),
        ('{"fault": [{"kind": "pauze"}]}', "faults: fault 1: there is no 'pauze' (did you mean"),
        (
            '{"fault": [{"kind": "loss", "count": 1}]}',
            "faults: fault 1: 'loss' takes 'probability', not 'count'",
        ),
        (
            '{"fault": [{"kind": "pause", "form": "1ms"}]}',
            "faults: fault 1: there is no 'form' (did you mean 'from'?)",
        ),
        (
            '{"fault": [{"kind": "pause", "from": "2ms", "to": "1ms"}]}',
            "faults: fault 1: 'to' is not after 'from'",
        ),
        ('{"fault": [{"kind": "pause", "sites": "a"}]}', "faults: fault 1: 'sites' must be a list"),
    ],
)
def test_a_mistake_is_one_line_with_the_nearest_right_one(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_faults(text, no_file)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_toml_mistake_names_the_file() -> None:
    with pytest.raises(ConfigError, match=r"^f\.toml: "):
        parse_faults("f.toml", {"f.toml": "loss ="}.__getitem__)


@pytest.mark.parametrize(
    ("text", "policy", "durability", "message"),
    [
        ("lose=1", "wait", "sync", "faults: lose: on_failure = 'wait' waits for a store for ever"),
        ("crash=1", "wait", "memory", "faults: crash: with durability = 'memory'"),
        ("crash=1,restart=2", "wait", "sync", "faults: restart=2: only 1 sites crash"),
        (
            '{"fault": [{"kind": "pause", "sites": ["x"]}]}',
            "wait",
            "sync",
            "faults: pause: there is no site 'x'",
        ),
        (
            '{"fault": [{"kind": "partition", "sites": ["a", "b", "c"]}]}',
            "wait",
            "sync",
            "faults: partition: one side has all the sites",
        ),
        ("cut=4", "exclude", "sync", "faults: cut=4: there are only 3 links"),
        ("cut_one_way=7", "wait", "memory", "faults: cut_one_way=7: there are only 6 links"),
    ],
)
def test_what_cannot_be_injected_is_refused(
    text: str, policy: str, durability: str, message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_faults(parse_faults(text, no_file), ("a", "b", "c"), policy, durability)
    assert str(caught.value).startswith(message)


def test_random_stacks_leave_whole_classes_out_in_some_seeds_and_all_in_a_few() -> None:
    stacks = [random_faults(seed, crashes=True) for seed in range(400)]
    for kind in ("loss", "duplicate", "replay", "reorder", "partition", "oneway", "clog", "crash"):
        having = sum(any(fault.kind == kind for fault in stack) for stack in stacks)
        assert 60 < having < 340, kind
    assert 5 < sum(not stack for stack in stacks) < 60
    assert max(fault.probability for stack in stacks for fault in stack) == 0.3


def test_random_stacks_without_crashes_differ_in_nothing_else() -> None:
    for seed in range(50):
        kept = [f for f in random_faults(seed, crashes=True) if f.kind not in ("crash", "restart")]
        assert random_faults(seed, crashes=False) == tuple(kept)
