"""`ring` step by step: numbers, headers, calls, repair requests, and what survives a restart."""

from collections.abc import Sequence

import pytest

from ordercast.core.engine import Engine
from ordercast.core.observation import holders
from ordercast.core.order.ring import LONGEST_REST, REPAIR_AFTER, Ring
from ordercast.core.outbox import EngineBox, Record, Visited
from ordercast.core.structure import Structure
from ordercast.forest.greedy import build_greedy
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, SECOND, Options
from ordercast.wire.frames import Data, Item
from ordercast.wire.ring import Call, Header, Numbered, Token
from support.worlds.alone import submit

TABLE = GroupTable.of({"alpha": ["a", "b"], "beta": ["b", "c", "d"]}, sites=list("abcdx"))
STRUCTURE = Structure(1, TABLE, build_greedy(TABLE))
WAIT = Options(deliver="agreed", on_failure="wait")
LATER = 100 * SECOND


class Domain:
    """Sites a, b, c, d on a network without delay; what each has said, and what was delivered."""

    def __init__(self) -> None:
        self.now = 0
        self.sites = {name: _made(name) for name in "abcd"}
        self.stored: dict[str, list[Record]] = {name: [] for name in self.sites}
        self.said: list[tuple[str, str, Item]] = []
        self.delivered: dict[str, list[bytes]] = {name: [] for name in self.sites}
        self.deaf: dict[str, None] = {}  # nothing reaches these
        self.boxes: list[tuple[str, EngineBox]] = []
        for name in self.sites:
            self.drain(name)

    def drain(self, name: str) -> EngineBox:
        box = self.sites[name].drain()
        self.stored[name] += box.persist
        self.delivered[name] += [p for batch in box.deliver for p in batch.payloads]
        self.boxes.append((name, box))
        return box

    def settle(self) -> None:
        """Hand on all that was said, and all that follows from it, without time passing."""
        while self.boxes:
            source, box = self.boxes.pop(0)
            for peer, frame in (*box.send, *box.then_send):
                if isinstance(frame, Data):
                    self.said += [(source, peer, item) for item in frame.items]
                if peer in self.sites and peer not in self.deaf:
                    self.sites[peer].receive(self.now, source, frame)
                    self.drain(peer)

    def pass_time(self, span: int) -> None:
        """In steps of a millisecond: all alarms go off."""
        for _ in range(span // MILLISECOND):
            self.now += MILLISECOND
            for name in list(self.sites):
                if name not in self.deaf:
                    self.sites[name].alarm(self.now)
                    self.drain(name)
            self.settle()

    def submit(self, name: str, group: str, payload: bytes) -> None:
        submit(self.sites[name], self.now, group, [payload])
        self.drain(name)

    def restart(self, name: str) -> None:
        boot = self.sites[name].boot + 1
        self.deaf.pop(name, None)
        self.sites[name] = _made(name, self.stored[name], boot)
        self.sites[name].start(self.now)
        self.drain(name)

    def holder(self) -> str:
        (name,) = (name for name in self.sites if self.ring(name)._token is not None)
        return name

    def ring(self, name: str) -> Ring:
        ordering = self.sites[name].ordering
        assert isinstance(ordering, Ring)
        return ordering

    def count(self, kind: type) -> int:
        return sum(type(item) is kind for _, _, item in self.said)


def _made(name: str, records: Sequence[Record] = (), boot: int = 1) -> Engine:
    return Engine(name, STRUCTURE, WAIT, protocol="ring", records=records, boot=boot)


def idle_domain() -> Domain:
    domain = Domain()
    domain.settle()
    domain.pass_time(4 * SECOND)  # so that the token rests for long
    domain.said.clear()
    return domain


def test_the_holder_numbers_and_every_site_of_the_domain_hears_of_it() -> None:
    domain = Domain()
    domain.submit("b", "alpha", b"m")
    domain.settle()
    told = {peer: item for source, peer, item in domain.said if type(item) in (Numbered, Header)}
    assert {peer: type(item) for peer, item in told.items()} == {
        "a": Numbered, "c": Header, "d": Header,
    }  # fmt: skip
    assert all(item.number == 1 for item in told.values())  # type: ignore[union-attr]
    assert domain.delivered == {"a": [b"m"], "b": [b"m"], "c": [], "d": []}


def test_one_rotation_numbers_what_waits_everywhere() -> None:
    """At best k messages cost a rotation together, not a rotation each ([TOM] §4.2.1)."""
    domain = Domain()
    for name in "abcd":
        for n in range(5):
            domain.submit(name, "beta", b"%s%d" % (name.encode(), n))
    domain.settle()
    tokens = [item for _, _, item in domain.said if type(item) is Token]
    first = next(place for place, token in enumerate(tokens) if token.number == 20)
    assert first <= len("abcd")
    assert domain.delivered["b"] == domain.delivered["c"] == domain.delivered["d"]
    assert len(domain.delivered["b"]) == 20


def test_an_idle_token_slows_down() -> None:
    domain = idle_domain()
    domain.pass_time(4 * SECOND)
    assert domain.count(Token) <= 4 * SECOND // LONGEST_REST + 1
    assert domain.count(Call) == 0


@pytest.mark.parametrize("distance", [1, 2, 3])
def test_a_resting_token_is_called_back_hop_by_hop_and_comes_at_once(distance: int) -> None:
    domain = idle_domain()
    ring = domain.ring("a")._ring
    sender = ring[(ring.index(domain.holder()) + distance) % len(ring)]
    domain.submit(sender, "beta", b"m")
    domain.settle()
    assert domain.count(Call) == distance
    before = [item for _, _, item in domain.said if type(item) is Token and item.number == 0]
    assert len(before) == distance
    assert domain.delivered["d"] == [b"m"]


def test_what_a_restart_has_lost_is_asked_for_in_the_token() -> None:
    """c is down when a number is given, and the giver restarts before c is back."""
    domain = idle_domain()
    domain.deaf["c"] = None
    sender = domain.holder()
    if sender == "c":
        domain.deaf.clear()
        domain.pass_time(LONGEST_REST + MILLISECOND)
        sender = domain.holder()
        domain.deaf["c"] = None
    domain.submit(sender, "beta", b"m")
    domain.settle()
    domain.restart(sender)
    domain.restart("c")
    domain.settle()
    assert domain.delivered["c"] == []
    domain.pass_time(REPAIR_AFTER + 4 * SECOND)
    asked = [i.missing for _, _, i in domain.said if type(i) is Token and i.missing]
    assert asked[0] == (("c", 1, 1),)
    assert domain.delivered["c"] == [b"m"]
    assert not any(domain.ring(name)._given for name in "abcd")  # all have it: forgotten


def test_the_token_is_durable_before_it_is_acknowledged_or_sent_on() -> None:
    domain = idle_domain()
    site = domain.sites[domain.holder()]
    site.alarm(LATER)
    box = site.drain()
    assert isinstance(box.persist[-1], Visited)
    assert not box.send


def test_a_site_that_restarts_with_the_token_has_it_and_no_other_does() -> None:
    domain = idle_domain()
    holder = domain.holder()
    following = domain.ring(holder)._after
    domain.restart(holder)
    domain.settle()
    assert domain.holder() == following  # it does not rest again
    domain.submit("b", "beta", b"m")
    domain.pass_time(4 * SECOND)
    assert domain.delivered["b"] == [b"m"]


def test_a_token_that_is_sent_again_after_a_restart_is_taken_once() -> None:
    domain = idle_domain()
    holder = domain.holder()
    sender = domain.ring(holder)._before
    domain.restart(sender)
    domain.settle()
    again = [item for source, peer, item in domain.said if (source, peer) == (sender, holder)]
    assert [type(item) for item in again] == [Token]
    assert domain.holder() == holder


def test_who_has_not_acknowledged_the_token_is_named() -> None:
    domain = idle_domain()
    holder = domain.holder()
    following = domain.ring(holder)._after
    domain.deaf[following] = None
    domain.pass_time(LONGEST_REST + MILLISECOND)
    domain.submit(holder, "beta", b"m")
    assert holders(domain.sites[holder]) == [following]


def test_an_origin_outside_hands_its_batches_to_the_root() -> None:
    domain = Domain()
    domain.settle()
    domain.sites["x"] = _made("x")
    domain.stored["x"], domain.delivered["x"] = [], []
    domain.submit("x", "alpha", b"m")
    domain.settle()
    domain.pass_time(SECOND)
    assert domain.delivered["a"] == domain.delivered["b"] == [b"m"]
    assert domain.sites["x"].own.idle()
