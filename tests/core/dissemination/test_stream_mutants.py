"""Broken streams: each must fail the claim that it breaks."""

from collections.abc import Callable
from typing import Any

import pytest

from core.dissemination import test_streams as claims
from ordercast.core.dissemination.multicast import Multicast
from ordercast.core.dissemination.received_stream import ReceivedStream
from ordercast.core.dissemination.sent_stream import SentStream
from ordercast.core.dissemination.settings import Bucket
from ordercast.model.options import MILLISECOND
from ordercast.wire.datagrams import Beat, Datagram, Piece
from support.worlds.streams import campaign

_piece, _flush, _add = ReceivedStream.piece, ReceivedStream.flush, ReceivedStream._add


def without_order(self: ReceivedStream, now: int, piece: Piece) -> list[bytes]:
    if piece.number > self.next and piece.first and piece.last:
        self.next = piece.number
    return _piece(self, now, piece)


def with_repeats(self: ReceivedStream, now: int, piece: Piece) -> list[bytes]:
    if piece.number < self.next and piece.first and piece.last:
        return [piece.body]
    return _piece(self, now, piece)


def never_asks(self: ReceivedStream, now: int, out: list[Datagram]) -> Any:
    _flush(self, now, out)
    return (), []


def never_notices_the_end(
    _self: ReceivedStream, _now: int, _beat: Beat
) -> tuple[list[bytes], bool]:
    return [], True


def joins_what_is_left(self: ReceivedStream, piece: Piece, packets: list[bytes]) -> None:
    if not piece.first and self._size < 0:
        self._parts, self._size = [], 0
    _add(self, piece, packets)


def never_put_off(self: ReceivedStream, now: int) -> None:
    self._ask_at = now + 10 * MILLISECOND


def all_at_once(_self: ReceivedStream, _width: int) -> int:
    return 0


def nobody_else_answers(self: ReceivedStream, _now: int, _holes: object) -> None:
    self._answers = {}


def stores_everything(self: ReceivedStream, now: int, piece: Piece) -> list[bytes]:
    if piece.number > self.next:
        self._early[piece.number] = piece
        self.highest = max(self.highest, piece.number)
        self._watch(now)
        return []
    return _piece(self, now, piece)


def reached_for_ever(self: Multicast, _now: int) -> dict[str, None]:
    return dict.fromkeys(self._reached)


def without_limit(_self: Bucket, _now: int) -> bool:
    return True


def always(_self: ReceivedStream, _serial: int) -> bool:
    return True


def keeps_all(_self: SentStream) -> None:
    return None


def weather() -> None:
    for seed in range(20):
        streams = campaign(seed)
        assert streams.wrong() == []
        assert streams.complete()


MUTANTS: list[tuple[type, str, Callable[..., object], Callable[[], None]]] = [
    (ReceivedStream, "piece", without_order, weather),
    (ReceivedStream, "piece", with_repeats, weather),
    (ReceivedStream, "flush", never_asks, weather),
    (
        ReceivedStream, "beat", never_notices_the_end,
        claims.test_the_loss_of_the_last_piece_is_noticed,
    ),
    (
        ReceivedStream, "_add", joins_what_is_left,
        claims.test_a_hole_that_nobody_fills_is_skipped_to_the_next_packet,
    ),
    (ReceivedStream, "_put_off", never_put_off, claims.test_many_that_wait_for_the_same_ask_little),
    (ReceivedStream, "_spread", all_at_once, claims.test_one_asks_and_one_answers_for_all),
    (
        ReceivedStream, "asked", nobody_else_answers,
        claims.test_any_member_that_has_a_piece_may_answer,
    ),
    (
        ReceivedStream, "piece", stores_everything,
        claims.test_pieces_far_ahead_are_not_stored_and_come_later,
    ),
    (ReceivedStream, "fresh", always, claims.test_a_replayed_ask_is_not_answered_again),
    (
        Multicast, "reached", reached_for_ever,
        claims.test_a_site_reaches_those_who_said_lately_that_they_hear_it,
    ),
    (Bucket, "take", without_limit, claims.test_repairs_keep_to_their_rate),
    (SentStream, "_let_go", keeps_all, claims.test_the_sender_keeps_no_more_than_its_limit),
]  # fmt: skip


@pytest.mark.parametrize(
    ("part", "name", "broken", "claim"), MUTANTS, ids=[mutant[2].__name__ for mutant in MUTANTS]
)
def test_a_broken_stream_is_caught(
    part: type,
    name: str,
    broken: Callable[..., object],
    claim: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claim()
    monkeypatch.setattr(part, name, broken)
    with pytest.raises(AssertionError):
        claim()
