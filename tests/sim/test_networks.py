"""The network models: what a frame costs whom, and when it arrives ([GS] §4)."""

from collections.abc import Callable

import pytest

from ordercast.model.errors import ConfigError
from ordercast.model.messages import Batch, Key, Placed
from ordercast.sim.chance import Chance
from ordercast.sim.networks import Network, build_network, check_network, parse_network
from ordercast.wire.frames import DOWN, Ack, Data, Frame, Relay

SITES = tuple("abcdefghijklm")
ACK = Ack(1, 1, ())


def no_file(name: str) -> str:
    raise AssertionError(f"{name} is not to be read")


def network(text: str, read: Callable[[str], str] = no_file) -> Network:
    spec = parse_network(text, read)
    check_network(spec, SITES)
    return build_network(spec, SITES, Chance(1, "network"))


def relay(number: int, content: int) -> Frame:
    """The `number`-th item of some link; its content is what is multicast."""
    batch = Batch("o", 1, "g", content, 1, b"\x91\xc4\x01x")
    return Data(1, 1, DOWN, number, (Relay(Placed(Key((0, content), "a"), content, batch)),))


def test_lan_delays_are_drawn_between_50_and_500_microseconds() -> None:
    lan = network("lan")
    delays = [
        at - now for now in range(0, 10**9, 10**6) for at in lan.arrivals(now, "a", [("b", ACK)])
    ]
    assert 50_000 <= min(delays) < 60_000
    assert 490_000 < max(delays) <= 500_000


@pytest.mark.parametrize(
    "text", ["lan", "wan", "p2p:P=1ms,L=5ms", "broadcast:T=2ms", "tree:b=2,p=3"]
)
def test_frames_on_one_link_never_overtake_each_other(text: str) -> None:
    model = network(text)
    times = [at for now in range(0, 10**6, 1000) for at in model.arrivals(now, "a", [("b", ACK)])]
    assert times == sorted(times)


def test_a_sender_of_p2p_is_busy_for_each_frame_and_latency_runs_in_parallel() -> None:
    model = network("p2p:P=1ms,L=5ms")
    assert model.arrivals(0, "a", [("b", ACK), ("c", ACK), ("d", ACK)]) == [
        6_000_000, 7_000_000, 8_000_000,
    ]  # fmt: skip
    assert model.arrivals(1_000_000, "a", [("b", ACK)]) == [9_000_000]
    assert model.arrivals(1_000_000, "b", [("a", ACK)]) == [7_000_000]


def test_broadcast_carries_one_frame_at_a_time_whoever_sends() -> None:
    model = network("broadcast:T=2ms")
    assert model.arrivals(0, "a", [("b", ACK), ("c", ACK)]) == [2_000_000, 4_000_000]
    assert model.arrivals(1_000_000, "b", [("c", ACK)]) == [6_000_000]


def test_the_same_items_to_several_receivers_are_one_transmission() -> None:
    model = network("broadcast:T=2ms")
    burst = [("b", relay(7, 1)), ("c", relay(9, 1)), ("d", relay(1, 2))]
    assert model.arrivals(0, "a", burst) == [2_000_000, 2_000_000, 4_000_000]
    assert model.arrivals(0, "a", [("b", relay(8, 1))]) == [6_000_000]  # another burst


def test_delay_in_a_tree_is_the_hops_between_the_nodes() -> None:
    model = network(
        "tree:b=3,p=3,hop=1ms"
    )  # a: root; b c d: its children; e f g below b; h … below c
    hops = {
        pair: model.arrivals(0, pair[0], [(pair[1], ACK)])[0] // 1_000_000
        for pair in ("ab", "ae", "bc", "ef", "eh", "em")
    }
    assert hops == {"ab": 1, "ae": 2, "bc": 2, "ef": 2, "eh": 4, "em": 4}


def test_sites_at_the_same_node_are_one_hop_apart() -> None:
    model = network("tree:b=2,p=1,hop=3ms")
    assert model.arrivals(0, "a", [("b", ACK)]) == [3_000_000]


def test_the_built_in_wan_is_near_within_a_region_and_far_between() -> None:
    model = network("wan")  # a and g are in the same region, a and b are not
    (near,) = model.arrivals(0, "a", [("g", ACK)])
    (far,) = model.arrivals(0, "a", [("b", ACK)])
    assert 1_000_000 <= near <= 1_100_000
    assert 31_000_000 <= far <= 34_100_000


TOML = """
jitter = "1ms"
[regions]
eu = ["a", "b", "c", "d", "e", "f", "g"]
us = ["h", "i", "j", "k", "l", "m"]
[delays.eu]
eu = "1ms"
us = "40ms"
[delays.us]
us = "2ms"
"""


def test_a_file_places_sites_in_regions_and_the_way_back_is_the_same() -> None:
    model = network("wan:w.toml", {"w.toml": TOML}.__getitem__)
    for source, peer, least in (("a", "b", 1), ("a", "h", 40), ("h", "a", 40), ("h", "i", 2)):
        (at,) = model.arrivals(0, source, [(peer, ACK)])
        assert least * 1_000_000 <= at <= (least + 1) * 1_000_000


def test_a_csv_gives_delays_between_sites() -> None:
    text = "from,to,delay\n" + "".join(
        f"{a},{b},{ord(a) + ord(b) - 193}ms\n" for a in SITES for b in SITES if a < b
    )
    model = network("wan:w.csv", {"w.csv": text}.__getitem__)
    assert model.arrivals(0, "a", [("c", ACK)]) == [3_000_000]
    assert model.arrivals(0, "c", [("a", ACK)]) == [3_000_000]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lann", "network: there is no 'lann' (did you mean 'lan'?)"),
        ("lan:x", "network: 'lan' takes no parameters, got 'x'"),
        ("p2p:Q=1ms", "network: 'p2p' has no parameter 'Q' (known: P, L)"),
        ("p2p:P=1", "network: P: '1' is not a duration (write 250us, 5ms or 1.5s)"),
        ("p2p:P", "network: 'P' is not of the form name=value"),
        ("tree:b=0", "network: tree: b: 0 is not a count (1 or more)"),
    ],
)
def test_a_wrong_spec_is_one_line_with_the_nearest_right_one(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_network(text, no_file)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delays = 1", "w.toml: the table [regions] of name = [sites] is missing"),
        (TOML.replace('"m"', '"mm"'), "w.toml: site 'm' is in no region (did you mean 'mm'?)"),
        (TOML.replace('us = "2ms"', ""), "w.toml: delays: there is none between 'us' and 'us'"),
        (
            TOML.replace("delays.us", "delays.uk"),
            "w.toml: delays: there is no 'uk' (did you mean 'us'?)",
        ),
        (TOML.replace('"h"', '"a"'), "w.toml: regions: site 'a' is in 'eu' and 'us'"),
        (TOML.replace("jitter", "jiter"), "w.toml: there is no 'jiter' (did you mean 'jitter'?)"),
        (TOML.replace('"40ms"', "40"), "w.toml: delays.eu.us: 40 is not a duration"),
    ],
)
def test_a_wrong_file_is_one_line_naming_file_and_field(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        network("wan:w.toml", {"w.toml": text}.__getitem__)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b,1ms", "w.csv: the first line must be from,to,delay"),
        ("from,to,delay\na,b", "w.csv: line 2: has 2 fields, not 3"),
        ("from,to,delay\na,b,1", "w.csv: line 2: '1' is not a duration"),
        ("from,to,delay\na,b,1ms", "w.csv: site 'c' is in no region"),
    ],
)
def test_a_wrong_csv_is_one_line_naming_the_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        network("wan:w.csv", {"w.csv": text}.__getitem__)
    assert str(caught.value).startswith(message)


def test_every_spec_is_shown_as_the_text_that_gives_it_back() -> None:
    for text in ("lan", "wan", "p2p:P=1ms,L=5ms", "broadcast:T=2500us", "tree:b=3,p=4,hop=2ms"):
        spec = parse_network(text, no_file)
        assert spec.text() == text
        assert parse_network(spec.text(), no_file) == spec
