"""Which frames of a burst travel together; that each peer makes of a packet what was its own."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.dissemination.fanout import SHARED_FOR, Fanout
from ordercast.model.errors import FrameError
from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.wire.dissemination import Many, decode_many, encode_many, frames_for
from ordercast.wire.epochs import InEpoch, SiteFrame
from ordercast.wire.frames import CONTROL, DOWN, Ack, Data, DurableCounts, Item, Relay, Rider
from ordercast.wire.tom import Body

PEERS = ("b", "c", "d")


def relay(seq: int, size: int = 1) -> Relay:
    batch = Batch("a", 1, "alpha", seq, 1, pack_payloads([b"x" * size]))
    return Relay(Placed(Key((0, seq), "a"), seq, batch))


def data(number: int, *items: Relay, of: int = 1, epoch: int = 1) -> InEpoch:
    return InEpoch(epoch, Data(1, of, DOWN, number, items))


def fanout() -> Fanout:
    return Fanout(100_000)


def received(packets: list[Many], peer: str) -> list[InEpoch]:
    """As the peer sees them, over the wire."""
    return [frame for many in packets for frame in frames_for(decode_many(encode_many(many)), peer)]


def test_a_batch_for_several_peers_is_sent_once_with_each_peers_own_numbers() -> None:
    item = relay(1)
    sends = [("b", data(7, item)), ("c", data(3, item, of=2))]
    packets, rest = fanout().split(0, sends, PEERS)
    assert rest == []
    assert [many.items for many in packets] == [(item,)]
    assert received(packets, "b") == [data(7, item)]
    assert received(packets, "c") == [data(3, item, of=2)]
    assert received(packets, "d") == []


def test_what_rides_with_a_shared_frame_goes_by_itself() -> None:
    item, report = relay(1), DurableCounts((("alpha", 3, 2),))
    laden = InEpoch(1, Data(1, 2, DOWN, 3, (item,), ((DOWN, 1, 1),), Rider(9, (report,))))
    packets, rest = fanout().split(0, [("b", data(7, item)), ("c", laden)], PEERS)
    assert received(packets, "c") == [InEpoch(1, Data(1, 2, DOWN, 3, (item,), ((DOWN, 1, 1),)))]
    assert rest == [("c", InEpoch(1, Data(1, 2, CONTROL, 9, (report,))))]
    alone = fanout().split(0, [("c", laden)], PEERS)
    assert alone == ([], [("c", laden)])


def test_bodies_of_tom_go_to_many_and_other_control_does_not() -> None:
    body, report = Body(relay(1).placed.batch), DurableCounts((("alpha", 3, 2),))

    def control(number: int, *items: Item) -> InEpoch:
        return InEpoch(1, Data(1, 1, CONTROL, number, items))

    sends = [("b", control(4, report, body)), ("c", control(1, body)), ("d", control(2, report))]
    packets, rest = fanout().split(0, sends, PEERS)
    assert rest == [("d", control(2, report))]
    assert received(packets, "b") == [control(4, report, body)]
    assert received(packets, "c") == [control(1, body)]
    (many,) = packets
    assert many.items.count(body) == 1


def test_who_does_not_hear_us_gets_it_by_itself() -> None:
    item = relay(1)
    sends = [(peer, data(1, item)) for peer in PEERS]
    packets, rest = fanout().split(0, sends, ("b", "c"))
    assert rest == [("d", data(1, item))]
    assert [head.site for head in packets[0].heads] == ["b", "c"]


def test_a_batch_for_one_peer_goes_by_itself() -> None:
    sends = [("b", data(1, relay(1))), ("c", data(1, relay(2)))]
    packets, rest = fanout().split(0, sends, PEERS)
    assert (packets, list(rest)) == ([], sends)


def test_a_lane_that_was_shared_lately_stays_with_the_stream() -> None:
    out = fanout()
    item = relay(1)
    out.split(0, [("b", data(1, item)), ("c", data(1, item))], PEERS)
    packets, rest = out.split(1, [("b", data(2, relay(2)))], PEERS)
    assert (len(packets), list(rest)) == (1, [])
    packets, rest = out.split(2 * SHARED_FOR, [("b", data(3, relay(3)))], PEERS)
    assert (packets, len(rest)) == ([], 1)


def test_what_a_link_repeats_goes_by_itself() -> None:
    out = fanout()
    item = relay(1)
    sends = [("b", data(1, item)), ("c", data(1, item))]
    out.split(0, sends, PEERS)
    assert out.split(1, sends, PEERS) == ([], sends)


def test_numbers_that_begin_anew_after_a_restart_are_no_repetition() -> None:
    out = fanout()
    item = relay(1)
    sends = [("b", data(1, item)), ("c", data(1, item))]
    out.split(0, sends, PEERS)
    out.restarted("b")
    out.restarted("c")
    packets, rest = out.split(1, sends, PEERS)
    assert (len(packets), list(rest)) == (1, [])


def test_control_and_acknowledgements_stay_with_the_links() -> None:
    report = DurableCounts((("alpha", 1, 1),))
    sends: list[tuple[str, SiteFrame]] = [
        *((peer, InEpoch(1, Data(1, 1, CONTROL, 1, (report,)))) for peer in PEERS),
        ("b", InEpoch(1, Ack(1, 1, ()))),
    ]
    packets, rest = fanout().split(0, sends, PEERS)
    assert (packets, list(rest)) == ([], sends)


def test_what_is_too_large_for_a_packet_goes_by_itself() -> None:
    item = relay(1, size=60_000)
    sends = [("b", data(1, item)), ("c", data(1, item))]
    packets, rest = fanout().split(0, sends, PEERS)
    assert (packets, list(rest)) == ([], sends)


def test_frames_of_two_epochs_are_not_put_together() -> None:
    item = relay(1)
    sends = [("b", data(1, item, epoch=1)), ("c", data(1, item, epoch=2))]
    assert fanout().split(0, sends, PEERS)[0] == []


def test_a_place_that_no_item_has_is_refused() -> None:
    item = relay(1)
    sends = [("b", data(1, item, relay(2))), ("c", data(1, item, relay(3)))]
    (many,), _ = fanout().split(0, sends, PEERS)
    wrong = Many(many.epoch, many.boot, many.lane, many.heads, many.items[:2])
    with pytest.raises(FrameError, match="places"):
        received([wrong], "c")


@pytest.mark.parametrize("packet", [b"", b"\x00", b"\x95" + b"\xc0" * 5, b"\xff" * 100])
def test_bytes_that_are_no_packet_are_refused(packet: bytes) -> None:
    with pytest.raises(FrameError):
        decode_many(packet)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_peer_gets_exactly_its_frames_in_order(drawn: st.DataObject) -> None:
    """Whatever subset of the batches each one is for, and whoever hears us."""
    out = fanout()
    numbers = dict.fromkeys(PEERS, 0)
    seq = 0
    for turn in range(drawn.draw(st.integers(1, 5))):
        items = [relay(seq + n + 1) for n in range(drawn.draw(st.integers(1, 6)))]
        seq += len(items)
        sends: list[tuple[str, SiteFrame]] = []
        for peer in PEERS:
            mine = [item for item in items if drawn.draw(st.booleans())]
            cut = drawn.draw(st.integers(0, len(mine)))
            for part in (mine[:cut], mine[cut:]):
                if part:
                    sends.append((peer, data(numbers[peer] + 1, *part)))
                    numbers[peer] += len(part)
        heard = [peer for peer in PEERS if drawn.draw(st.booleans())]
        packets, rest = out.split(turn, sends, heard)
        for peer in PEERS:
            alone = [frame for to, frame in rest if to == peer]
            got = received(packets, peer)
            assert not (got and peer not in heard)
            expected = [frame for to, frame in sends if to == peer]
            assert sorted([*got, *alone], key=_number) == expected


def _number(frame: SiteFrame) -> int:
    assert isinstance(frame, InEpoch)
    assert isinstance(frame.frame, Data)
    return frame.frame.number
