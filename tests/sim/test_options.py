"""A configuration from options by name, as the command line, scenarios and sweeps give them."""

import dataclasses
import re
from typing import Any

import pytest

from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable
from ordercast.model.options import Limits, Timing
from ordercast.model.verb_options import VerbOption
from ordercast.sim.config import SimConfig
from ordercast.sim.faults import Fault
from ordercast.sim.networks import PointToPointSpec
from ordercast.sim.options import OPTIONS, configure

TABLE = GroupTable.of({"g": ["a", "b"]})


def no_file(name: str) -> str:
    raise AssertionError(f"{name} is not to be read")


def made(**given: Any) -> SimConfig:
    return configure(TABLE, given, read=no_file)


def test_no_options_are_the_defaults() -> None:
    assert made() == SimConfig(TABLE)


def test_numbers_may_be_numbers_or_text() -> None:
    assert made(messages=5, rate=2, origins=2) == made(messages="5", rate="2.0", origins="2")


def test_each_kind_of_option_is_read() -> None:
    config = configure(
        TABLE,
        {
            "on-failure": "wait", "causal": True, "origins": "a,b", "tie": "b, a",
            "network": "p2p:P=1ms,L=2ms", "faults": "loss=0.5", "settle": "2s",
            "limits": "link_items=7", "timing": "ack_delay=3ms,resend_after=5",
        },
        read=no_file,
    )  # fmt: skip
    assert config == SimConfig(
        TABLE,
        on_failure="wait",
        causal=True,
        origins=("a", "b"),
        tie=("b", "a"),
        network=PointToPointSpec(1_000_000, 2_000_000),
        faults=(Fault("loss", probability=0.5),),
        settle=2_000_000_000,
        limits=Limits(link_items=7),
        timing=Timing(ack_delay=3_000_000, resend_after=5),
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mesages": 5}, "options: there is no 'mesages' (did you mean 'messages'?)"),
        ({"messages": "five"}, "messages: five is not a count (0 or more)"),
        ({"rate": "fast"}, "rate: 'fast' is not a number"),
        ({"rate": True}, "rate: True is not a number"),
        ({"causal": "yes"}, "causal: 'yes' is neither true nor false"),
        ({"protocol": 7}, "protocol: 7 is not a text"),
        ({"origins": 0}, "origins: 0 is not a count (1 or more)"),
        ({"settle": 5}, "settle: 5 is not a duration (write 250us, 5ms or 1.5s)"),
        ({"timing": "ack_delay=0"}, "timing: ack_delay: 0 is too small (1 or more)"),
        ({"limits": "links=3"}, "limits: there is no 'links' (did you mean 'link_items'?)"),
    ],
)
def test_a_wrong_option_is_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure(TABLE, given, read=no_file)
    assert str(caught.value) == message


def test_what_is_0_unless_told_may_be_told_to_be_0() -> None:
    assert made(timing="hold=0").timing == Timing()
    assert made(timing="hold=5ms").timing.hold == 5_000_000


def test_every_field_of_a_configuration_has_an_option() -> None:
    fields = {field.name for field in dataclasses.fields(SimConfig)}
    assert set(OPTIONS) == fields - {"table", "source"}


@pytest.mark.parametrize("option", OPTIONS.values(), ids=lambda option: option.name)
def test_the_default_that_the_help_tells_is_that_of_the_configuration(option: VerbOption) -> None:
    told = re.search(r"\(default: ([^ ]+)\)$", option.help)
    words = {"all": None, "nothing": ()}  # told in words
    usual = getattr(SimConfig(TABLE), option.name)
    if told is not None and told[1] in words:
        assert usual == words[told[1]]
    elif told is not None:
        assert option.notation.read(told[1], option.name, no_file) == usual


def test_a_value_shown_reads_back_as_itself() -> None:
    config = made(
        tie="b,a", origins="a", network="p2p:P=1ms,L=2ms", wake="3us", notice="4ms",
        faults="loss=0.5,crash=1,cut=1,cut_one_way=2",
        rate=2.5, limits="link_items=7", timing="hold=5ms", payload=9, deliver="agreed",
    )  # fmt: skip
    for name, option in OPTIONS.items():
        value = getattr(config, name)
        if value is not None and name not in ("causal", "limits", "timing"):
            assert option.notation.read(option.notation.show(value), name, no_file) == value
    again = {
        name: OPTIONS[name].notation.show(getattr(config, name)) for name in ("limits", "timing")
    }
    assert made(**again) == made(limits="link_items=7", timing="hold=5ms")
