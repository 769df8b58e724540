"""[SWAP] Figures 1–5 (arrow) and 6–9 (combining), step by step.

The drawings are not in the text. Assumed for Figures 1–5: u, v and w are neighbours of x, and u is
the first sink; v's message goes to x first, w's is turned there by the arrow that v's has flipped.
For Figures 6–9: m1 and m2 meet at y, m3 meets them at z (where it came earlier), z is the root's
child.
"""

from random import Random

from ordercast.core.order.chain import Chain
from ordercast.wire.swap import NOBODY, Follows
from ordercast.wire.tom import MessageName
from support.worlds.swap_trees import Network, Parents, message, name

STAR: Parents = {"u": None, "x": "u", "v": "x", "w": "x"}
M1, M2 = name("v"), name("w")


def links(network: Network) -> dict[str, str]:
    return {site: at.link for site, at in network.objects.items()}


def figure_1() -> Network:
    return Network.of("arrow", STAR)


def figure_2() -> Network:
    network = figure_1()
    network.issue("v")
    return network


def figure_3() -> Network:
    network = figure_2()
    network.issue("w")
    return network


def figure_4() -> Network:
    network = figure_3()
    network.deliver("v", "x")
    network.deliver("w", "x")
    return network


def test_figure_1_all_arrows_lead_to_the_one_sink() -> None:
    network = figure_1()
    assert links(network) == {"u": "u", "x": "u", "v": "x", "w": "x"}
    assert network.objects["u"].value == NOBODY


def test_figure_2_v_has_sent_m1_and_is_a_sink() -> None:
    network = figure_2()
    assert links(network) == {"u": "u", "x": "u", "v": "v", "w": "x"}
    assert network.objects["v"].value == M1
    assert network.under_way() == [("v", "x")]


def test_figure_3_w_has_sent_m2_towards_x_too() -> None:
    network = figure_3()
    assert links(network) == {"u": "u", "x": "u", "v": "v", "w": "w"}
    assert network.under_way() == [("v", "x"), ("w", "x")]


def test_figure_4_arrows_are_flipped_and_m2_is_deflected_towards_v() -> None:
    network = figure_4()
    assert links(network) == {"u": "u", "x": "w", "v": "v", "w": "w"}
    assert network.under_way() == [("x", "u"), ("x", "v")]
    assert not network.found


def test_figure_5_both_find_their_predecessors_at_the_same_time() -> None:
    network = figure_4()
    network.deliver("x", "v")  # in either order
    assert network.found == {M2: M1}
    network.deliver("x", "u")
    assert network.found == {M2: M1, M1: NOBODY}
    assert network.where == {M2: "v", M1: "u"}
    sinks = [site for site, link in links(network).items() if site == link]
    assert sinks == ["w"]  # value(u) and value(v) are no longer valid
    assert network.objects["w"].value == M2


def test_receivers_deliver_m1_before_m2_in_whatever_order_they_come() -> None:
    """§3: (m1, m2) is delivered after m1; what has no predecessor at once."""
    for headers in ((M1, M2), (M2, M1)):
        chain, order = Chain(), []
        network = figure_4()
        network.settle(Random(1))
        for of in headers:
            before = network.found[of]
            assert not isinstance(before, int)
            chain.add(Follows(message(of[0]), before))
            while (batch := chain.next()) is not None:
                chain.link(batch)
                order.append(batch.origin)
        assert order == ["v", "w"]


# --- the combining multicast ----------------------------------------------------------------------

TREE: Parents = {"r": None, "z": "r", "y": "z", "a": "y", "b": "y", "c": "z"}
A1, B2, C3 = name("a"), name("b"), name("c")


def request(network: Network, source: str, target: str) -> tuple[MessageName, MessageName]:
    """From which message to which the request on this link is."""
    ask = network.links[source, target][0].ask
    return name(ask.batch.origin), ask.last


def figure_6() -> Network:
    network = Network.of("combining", TREE)
    for site in ("a", "b", "c"):
        network.issue(site)
        network.turn(site)
    return network


def figure_7() -> Network:
    network = figure_6()
    network.deliver("a", "y")
    network.deliver("b", "y")
    network.turn("y")
    return network


def figure_8() -> Network:
    network = figure_7()
    network.deliver("c", "z")
    network.deliver("y", "z")
    network.turn("z")
    return network


def test_figure_6_three_messages_start_towards_the_root() -> None:
    network = figure_6()
    assert network.under_way() == [("a", "y"), ("b", "y"), ("c", "z")]
    assert request(network, "a", "y") == (A1, A1)


def test_figure_7_m1_and_m2_combine_and_m2_is_multicast() -> None:
    network = figure_7()
    assert network.found == {B2: A1}
    assert network.where[B2] == "y"
    assert request(network, "y", "z") == (A1, B2)


def test_figure_8_m1m2_and_m3_combine_and_m1_is_multicast_as_m3s_successor() -> None:
    network = figure_8()
    assert network.found == {B2: A1, A1: C3}
    assert request(network, "z", "r") == (C3, B2)


def test_figure_9_m3_is_the_first_and_the_root_has_m2() -> None:
    network = figure_8()
    network.deliver("z", "r")
    assert network.found == {B2: A1, A1: C3, C3: NOBODY}
    assert network.chain() == [C3, A1, B2]
    assert network.objects["r"].value == B2


def test_a_combined_request_carries_the_body_of_its_first_message_only() -> None:
    """Errata SWAP-7: the others' are multicast already, where they combined."""
    network = figure_8()
    (step,) = network.links["z", "r"]
    assert step.ask.batch == message("c")
