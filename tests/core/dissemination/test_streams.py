"""Streams of datagrams: what is handed up is what was sent, in order, once; and nothing grows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.core.dissemination.by_streams import ByStreams
from ordercast.core.dissemination.multicast import Multicast
from ordercast.core.dissemination.settings import StreamLimits, StreamTimes
from ordercast.model.options import MILLISECOND, SECOND
from ordercast.wire.datagrams import Beat, Datagram, Piece, PieceRequest
from ordercast.wire.dissemination import KEY_BYTES, Keyed
from support.worlds.streams import DELAY, Streams, Weather, campaign

SMALL = StreamLimits(piece_bytes=8)


def numbered(streams: Streams, origin: str, count: int) -> None:
    for n in range(count):
        streams.multicast(origin, b"%d" % n)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_all_is_handed_up_in_order_once_whatever_the_network_does(seed: int) -> None:
    streams = campaign(seed)
    assert streams.wrong() == []
    assert streams.complete()
    assert streams.count("skipped") == 0


def test_a_packet_of_many_pieces_is_put_together() -> None:
    streams = Streams(3, weather=Weather(loss=0.2, reorder=0.5), limits=SMALL)
    large = bytes(range(256)) * 20
    streams.multicast("s0", large)
    streams.multicast("s0", b"")
    streams.run(5 * SECOND, streams.complete)
    assert streams.got["s1"]["s0"] == streams.got["s2"]["s0"] == [large, b""]


def test_the_loss_of_the_last_piece_is_noticed() -> None:
    streams = Streams(2)
    lost = iter([True])
    streams.lose = lambda _f, _t, datagram: type(datagram) is Piece and next(lost, False)
    streams.multicast("s0", b"alone")
    streams.run(SECOND, streams.complete)
    assert streams.complete()


def test_any_member_that_has_a_piece_may_answer() -> None:
    streams = Streams(3)
    lacking = {1}
    streams.lose = lambda f, t, datagram: (
        f == "s0" and t == "s2" and type(datagram) is Piece and datagram.number in lacking
    )
    numbered(streams, "s0", 2)
    streams.run(MILLISECOND)
    assert streams.got["s2"]["s0"] == []
    streams.dead.append("s0")
    streams.run(SECOND, streams.complete)
    assert streams.got["s2"]["s0"] == [b"0", b"1"]
    assert streams.sites["s1"].counts["repairs_sent"] == 1


def test_one_asks_and_one_answers_for_all() -> None:
    streams = Streams(30)
    streams.lose = lambda f, _t, datagram: (
        f == "s0" and type(datagram) is Piece and datagram.number == 1 and streams.now < DELAY
    )
    numbered(streams, "s0", 3)
    streams.run(SECOND)
    assert streams.complete()
    assert streams.count("asks_sent") <= 4  # of 29 that lack it
    assert streams.count("repairs_sent") <= 2


def test_many_that_wait_for_the_same_ask_little() -> None:
    streams = Streams(30)
    streams.lose = lambda f, _t, datagram: (
        f == "s0" and type(datagram) is Piece and datagram.number == 1
    )
    numbered(streams, "s0", 3)
    streams.run(100 * MILLISECOND)
    assert 3 <= streams.count("asks_sent") <= 15  # of 29, in four rounds
    assert streams.count("asks_spared") >= 60


def test_late_replays_of_everything_change_nothing() -> None:
    streams = Streams(3)
    numbered(streams, "s0", 20)
    streams.run(SECOND)
    assert streams.complete()
    before = [datagram for name, datagram in streams.traffic if name == "s0"]
    site = streams.sites["s1"]
    for datagram in before:
        site.receive(streams.now, datagram)
    assert site.drain(streams.now).packets == []
    assert site.counts["repeated"] == sum(type(each) is Piece for each in before)
    assert site.counts["replayed"] == sum(type(each) is Beat for each in before)


def test_a_replayed_ask_is_not_answered_again() -> None:
    streams = Streams(2)
    numbered(streams, "s0", 5)
    streams.run(10 * MILLISECOND)
    ask = PieceRequest(101, 7, 100, ((1, 5),))
    origin = streams.sites["s0"]
    for turn in range(5):
        origin.receive(streams.now + turn * 100 * MILLISECOND, ask)
        origin.drain(streams.now + turn * 100 * MILLISECOND)
    assert origin.counts["repairs_sent"] == 5
    assert origin.counts["replayed"] == 4


def test_a_hole_that_nobody_fills_is_skipped_to_the_next_packet() -> None:
    """The links repair it then: a stream never stands still for good."""
    streams = Streams(2, limits=SMALL)
    streams.lose = lambda _f, _t, datagram: type(datagram) is Piece and datagram.number in (2, 6)
    streams.multicast("s0", b"twelve bytes")  # pieces 1 and 2: its end is lost
    numbered(streams, "s0", 3)
    streams.multicast("s0", b"twelve bytes")  # pieces 6 and 7: its beginning is lost
    streams.multicast("s0", b"3")
    streams.run(20 * SECOND, lambda: b"3" in streams.got["s1"]["s0"])
    assert streams.got["s1"]["s0"] == [b"0", b"1", b"2", b"3"]
    assert streams.sites["s1"].counts["skipped"] == 2


def test_what_the_sender_no_longer_has_is_skipped_at_once() -> None:
    streams = Streams(2, limits=StreamLimits(kept_pieces=10))
    streams.lose = lambda _f, _t, _d: streams.now < SECOND // 100
    numbered(streams, "s0", 30)
    streams.run(SECOND // 100)
    numbered(streams, "s0", 1)
    streams.run(streams.now + SECOND, lambda: b"0" in streams.got["s1"]["s0"][-1:])
    assert streams.wrong() == []
    assert 1 <= len(streams.got["s1"]["s0"]) <= 11


def test_pieces_far_ahead_are_not_stored_and_come_later() -> None:
    streams = Streams(2, limits=StreamLimits(early_pieces=16))
    streams.lose = lambda _f, _t, datagram: (
        type(datagram) is Piece and datagram.number == 1 and streams.now < 100 * MILLISECOND
    )
    numbered(streams, "s0", 60)
    streams.run(90 * MILLISECOND)
    receiving = streams.sites["s1"].streams[100]
    assert len(receiving._early) == 15
    assert streams.count("too_early") > 0
    streams.run(5 * SECOND, streams.complete)
    assert streams.complete()


def test_repairs_keep_to_their_rate() -> None:
    limits = StreamLimits(repair_burst=8, repairs_per_s=1_000)
    site = Multicast("s0", 100, limits)
    site.learn("s1", 101, 1)
    for n in range(200):
        site.send(b"%d" % n)
    now = 0
    while site.own.waiting:
        now += MILLISECOND
        site.drain(now)
    site.counts.clear()
    for turn in range(100):  # a member that asks for everything, all the time
        site.receive(now + turn * MILLISECOND, PieceRequest(101, turn + 1, 100, ((1, 200),)))
        site.drain(now + turn * MILLISECOND)
    assert site.counts["repairs_sent"] <= 8 + 100


def test_new_pieces_keep_to_their_pace() -> None:
    site = Multicast("s0", 100, StreamLimits(burst_pieces=16, pieces_per_s=1_000))
    for n in range(200):
        site.send(b"%d" % n)
    sent: list[Datagram] = []
    for turn in range(50):
        sent += site.drain(SECOND + turn * MILLISECOND).datagrams
    assert sum(type(each) is Piece for each in sent) <= 16 + 50


def test_the_sender_keeps_no_more_than_its_limit() -> None:
    site = Multicast("s0", 100, StreamLimits(kept_pieces=20))
    for n in range(500):
        site.send(b"%d" % n)
        site.drain(n * MILLISECOND)
    assert site.own.last - site.own.oldest < 21


def test_others_keep_no_more_than_their_limit() -> None:
    streams = Streams(2, limits=StreamLimits(others_pieces=10))
    numbered(streams, "s0", 100)
    streams.run(SECOND)
    assert streams.complete()
    assert len(streams.sites["s1"].streams[100]._kept) == 10


def test_a_packet_beyond_the_limit_is_dropped_and_the_next_one_taken() -> None:
    streams = Streams(2, limits=StreamLimits(piece_bytes=8, packet_bytes=64))
    streams.multicast("s0", b"x" * 100)
    streams.multicast("s0", b"after")
    streams.run(SECOND)
    assert streams.got["s1"]["s0"] == [b"after"]
    assert streams.sites["s1"].counts["too_large"] == 1


def test_a_site_reaches_those_who_said_lately_that_they_hear_it() -> None:
    times = StreamTimes()
    streams = Streams(3, times=times)
    streams.lose = lambda _f, t, _d: t == "s2"
    streams.run(SECOND)
    assert list(streams.sites["s0"].reached(streams.now)) == ["s1"]
    streams.lose = lambda _f, _t, _d: True
    streams.run(streams.now + times.reached_for + times.heard_every)
    assert list(streams.sites["s0"].reached(streams.now)) == []
    streams.lose = lambda _f, _t, _d: False
    streams.run(streams.now + SECOND)
    assert list(streams.sites["s0"].reached(streams.now)) == ["s1", "s2"]


def test_an_answer_about_an_earlier_stream_counts_for_nothing() -> None:
    site = Multicast("s0", 100)
    site.renew(200)
    site.answered(0, "s1", 100)
    assert list(site.reached(1)) == []
    site.answered(0, "s1", 200)
    assert list(site.reached(1)) == ["s1"]


@pytest.mark.parametrize("datagram", [Piece(9, 1, True, True, b""), Beat(9, 1, 5, 1)])
def test_a_stream_that_nobody_named_is_ignored(datagram: Datagram) -> None:
    site = Multicast("s0", 100)
    site.receive(0, datagram)
    assert site.counts["of_no_stream"] == 1
    assert site.drain(0).packets == []


def test_a_stream_is_of_the_first_that_names_it() -> None:
    """Its key is another's to tell, or the other would not be heard any more."""
    way = ByStreams("a", 1)
    way.laid_out(0, 1, ("a", "b", "c"), (), 7, bytes(KEY_BYTES))
    theirs, forged = bytes([1]) * KEY_BYTES, bytes([2]) * KEY_BYTES
    assert way.receive(0, "b", Keyed(1, 50, theirs, 1))
    for stream in (50, 7):
        assert way.receive(0, "c", Keyed(1, stream, forged, 1))
    assert way.keys == {7: bytes(KEY_BYTES), 50: theirs}
    assert way.receive(0, "b", Keyed(1, 51, theirs, 1))
    assert sorted(way.keys) == [7, 51]
