"""What a driver over real connections tells a site: a new connection, congestion, a slow reader."""

from ordercast.core.engine import Engine
from ordercast.core.outbox import EngineBox
from ordercast.core.structure import Structure
from ordercast.forest.greedy import build_greedy
from ordercast.model.errors import WindowFull
from ordercast.model.groups import GroupTable
from ordercast.model.options import SECOND, Limits, Options, Timing
from ordercast.wire.frames import DOWN, Ack, Data, Frame
from support.worlds.alone import submit

TABLE = GroupTable.of({"g": ["a", "b"]})
STRUCTURE = Structure(1, TABLE, build_greedy(TABLE))
SLOW = Timing(resend_after=60 * SECOND, resend_at_most=60 * SECOND)


class Pair:
    """a orders, b follows; frames go through unless the connection is down."""

    def __init__(self, limits: Limits | None = None) -> None:
        options = Options(deliver="agreed", limits=limits or Limits(), timing=SLOW)
        self.sites = {name: Engine(name, STRUCTURE, options) for name in TABLE.sites}
        self.up = True
        self.now = 0
        self.seen: dict[str, list[bytes]] = {"a": [], "b": []}
        self.sent: list[tuple[str, Frame]] = []

    def drain(self, name: str) -> EngineBox:
        box = self.sites[name].drain()
        self.seen[name] += [payload for batch in box.deliver for payload in batch.payloads]
        for peer, frame in (*box.send, *box.then_send):
            self.sent.append((name, frame))
            if self.up:
                self.sites[peer].receive(self.now, name, frame)
        return box

    def settle(self) -> None:
        """All alarms of a few seconds, in steps of ten milliseconds."""
        for _ in range(300):
            self.now += SECOND // 100
            for name, site in self.sites.items():
                site.alarm(self.now)
                self.drain(name)

    def submit(self, payload: bytes) -> None:
        submit(self.sites["a"], self.now, "g", [payload])
        self.drain("a")
        self.drain("b")

    def reconnect(self) -> None:
        self.up = True
        for name, other in (("a", "b"), ("b", "a")):
            self.sites[name].connected(self.now, other)
        for name in ("a", "b", "a", "b"):
            self.drain(name)


def test_what_was_lost_with_a_connection_is_sent_again_at_once_by_number() -> None:
    pair = Pair()
    pair.submit(b"1")
    pair.up = False
    pair.submit(b"2")
    pair.submit(b"3")
    assert pair.seen["b"] == [b"1"]
    pair.sent.clear()
    pair.reconnect()
    assert pair.seen["b"] == [b"1", b"2", b"3"]
    down = [frame for name, frame in pair.sent if isinstance(frame, Data) and frame.lane == DOWN]
    assert [(frame.number, len(frame.items)) for frame in down] == [(2, 2)]


def test_a_new_connection_repeats_nothing_that_the_peer_has() -> None:
    pair = Pair()
    pair.submit(b"1")
    pair.sent.clear()
    pair.reconnect()
    assert pair.seen["b"] == [b"1"]
    assert [frame for _, frame in pair.sent if isinstance(frame, Data) and frame.lane == DOWN] == []
    assert {name for name, frame in pair.sent if isinstance(frame, Ack)} == {"a", "b"}


def test_nothing_new_is_sent_to_a_congested_peer_until_there_is_room() -> None:
    pair = Pair()
    pair.sites["a"].congest(pair.now, "b", congested=True)
    pair.submit(b"1")
    pair.submit(b"2")
    assert pair.seen == {"a": [b"1", b"2"], "b": []}
    pair.sites["a"].congest(pair.now, "b", congested=False)
    pair.drain("a")
    pair.drain("b")
    assert pair.seen["b"] == [b"1", b"2"]


def test_a_slow_reader_fills_the_window_of_the_origin_and_loses_nothing() -> None:
    pair = Pair(Limits(window_messages=3))
    pair.sites["b"].hold(pair.now, held=True)
    taken = 0
    for n in range(10):
        try:
            pair.submit(b"%d" % n)
            taken += 1
        except WindowFull:
            pair.settle()
    assert taken == 3
    assert pair.seen["b"] == []
    pair.sites["b"].hold(pair.now, held=False)
    pair.settle()
    assert pair.seen["b"] == [b"0", b"1", b"2"]
    pair.submit(b"more")
    pair.settle()
    assert pair.seen["b"][-1] == b"more"
