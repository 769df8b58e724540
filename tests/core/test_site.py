"""A site as its application and its driver see it: refusals, receipts, flow control."""

import pytest

from ordercast.core.engine import Engine
from ordercast.core.observation import observations
from ordercast.core.outbox import Accepted, EngineBox, StageReached
from ordercast.core.structure import Structure
from ordercast.forest.greedy import build_greedy
from ordercast.forest.star import build_star
from ordercast.model.errors import ConfigError, CrossDomain, TooLarge, UnknownGroup, WindowFull
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Batch, Key, Placed, pack_payloads
from ordercast.model.options import Limits, Options
from ordercast.wire.frames import DOWN, UP, Ack, Data, Frame, Relay, Submit
from support.cases.tables import FIGURE_3, table_of
from support.worlds.alone import submit, submit_to


def structure_of(table: GroupTable) -> Structure:
    return Structure(1, table, build_greedy(table, tie=[t for t in "dce" if t in table.sites]))


FIGURE = structure_of(table_of(FIGURE_3))
TWO_DOMAINS = structure_of(GroupTable.of({"left": ["a", "b"], "right": ["x", "y"]}))


class Cluster:
    """All sites, and a network that delivers everything in order, at once, except to the deaf."""

    def __init__(self, structure: Structure, options: Options, protocol: str = "propagation"):
        self.sites = {
            name: Engine(name, structure, options, protocol=protocol)
            for name in structure.table.sites
        }
        self.now = 0
        self.deaf: set[str] = set()
        self.delivered: dict[str, list[tuple[str, int, bytes]]] = {s: [] for s in self.sites}
        self.receipts: dict[str, list[StageReached]] = {s: [] for s in self.sites}
        self.frames: list[tuple[str, str, Frame]] = []

    def drain(self, name: str) -> EngineBox:
        box = self.sites[name].drain()
        self.delivered[name] += [
            (d.group, d.seq, d.payload) for batch in box.deliver for d in batch.deliveries()
        ]
        self.receipts[name] += box.receipts
        self.frames += [(name, peer, frame) for peer, frame in (*box.send, *box.then_send)]
        return box

    def run(self, alarms: int = 50) -> None:
        """Until nothing moves, with so many rounds of alarms."""
        for _ in range(alarms):
            while self.frames:
                source, target, frame = self.frames.pop(0)
                if target not in self.deaf:
                    self.sites[target].receive(self.now, source, frame)
                    self.drain(target)
            self.now += 10_000_000
            for name in self.sites:
                if name not in self.deaf:
                    self.sites[name].alarm(self.now)
                    self.drain(name)


def test_an_unknown_group_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownGroup, match=r"no group 'alpha99' \(did you mean 'alpha"):
        submit(Engine("a", FIGURE, Options()), 0, "alpha99", [b"x"])


def test_a_message_above_the_limit_is_refused_and_nothing_changes() -> None:
    site = Engine("a", FIGURE, Options(limits=Limits(message_bytes=10)))
    with pytest.raises(TooLarge, match="a message of 11 bytes; the limit is 10"):
        submit(site, 0, "alpha2", [b"fine", b"x" * 11])
    assert site.drain().persist == ()
    assert submit(site, 0, "alpha2", [b"x" * 10]) == 1


def test_a_full_window_is_refused_until_messages_are_stable() -> None:
    cluster = Cluster(FIGURE, Options(limits=Limits(window_messages=3)))
    origin = cluster.sites["a"]
    assert submit(origin, 0, "alpha4", [b"1", b"2"]) == 1
    assert submit(origin, 0, "alpha4", [b"3"]) == 3
    with pytest.raises(WindowFull, match=r"3 messages .* the window is 3 messages"):
        submit(origin, 0, "alpha4", [b"4"])
    cluster.drain("a")
    cluster.run()
    assert submit(origin, 0, "alpha4", [b"4"]) == 4


def test_listed_sites_of_two_domains_are_refused() -> None:
    site = Engine("a", TWO_DOMAINS, Options())
    with pytest.raises(CrossDomain, match="'a' and 'x' are in different domains"):
        submit_to(site, 0, ["x", "a"], [b"x"])


def test_a_group_of_another_domain_may_be_sent_to() -> None:
    cluster = Cluster(TWO_DOMAINS, Options())
    submit(cluster.sites["a"], 0, "right", [b"hello"])
    cluster.drain("a")
    cluster.run()
    assert cluster.delivered["x"] == cluster.delivered["y"] == [("right", 1, b"hello")]
    assert all(site.quiet() for site in cluster.sites.values())


def test_an_implicit_group_is_delivered_once_at_each_listed_site() -> None:
    cluster = Cluster(FIGURE, Options())
    group, seq = submit_to(cluster.sites["j"], 0, ["g", "f", "g", "h"], [b"hello"])
    cluster.drain("j")
    cluster.run()
    got = {site for site, items in cluster.delivered.items() if items == [(group, seq, b"hello")]}
    assert got == {"g", "f", "h"}


@pytest.mark.parametrize("origin", ["d", "g", "c"])  # the primary, a site outside, a member
@pytest.mark.parametrize("level", ["agreed", "safe"])
def test_receipts_come_in_order_and_all_of_them(origin: str, level: str) -> None:
    cluster = Cluster(FIGURE, Options(deliver=level))
    submit(cluster.sites[origin], 0, "alpha3", [b"1", b"2"])
    cluster.drain(origin)
    cluster.run()
    assert cluster.receipts[origin] == [
        StageReached(stage, "alpha3", 1, 2) for stage in ("accepted", "ordered", "stable")
    ]
    for site in "bcde":
        assert cluster.delivered[site] == [("alpha3", 1, b"1"), ("alpha3", 2, b"2")]


@pytest.mark.parametrize(
    ("options", "inside", "early"),
    [
        (Options(), True, True),
        (Options(), False, False),
        (Options(on_failure="wait"), True, False),
        (Options(causal=True), True, False),
        (Options(causal=True, deliver="agreed"), True, True),
    ],
)
def test_a_submission_leaves_before_it_is_durable_only_where_a_restart_is_sealed(
    options: Options, inside: bool, early: bool
) -> None:
    site = Engine("a", FIGURE, options, inside=inside)
    submit(site, 0, "alpha4", [b"x"])
    box = site.drain()
    assert [type(record) for record in box.persist] == [Accepted]
    assert [peer for peer, _ in box.send] == ["d"] * early
    assert [peer for peer, _ in box.then_send] == ["d"] * (not early)


def test_where_nothing_is_stored_no_record_is_made_and_acknowledgements_ride_with_relays() -> None:
    few = Limits(checkpoint_batches=4)
    primary = Engine("d", FIGURE, Options(deliver="agreed", limits=few), durable=False)
    for seq in range(1, 9):
        batch = Batch("e", 1, "alpha4", seq, 1, pack_payloads([b"x"]))
        primary.receive(seq, "e", Data(1, 1, UP, seq, (Submit(batch),)))
        box = primary.drain()
        assert (box.persist, box.send, box.forget) == ((), (), None)
        (frame,) = [frame for peer, frame in box.then_send if peer == "e"]
        assert isinstance(frame, Data)
        assert (frame.lane, frame.acks) == (DOWN, ((UP, seq, seq),))
    heavy = Batch("e", 1, "alpha4", 9, 1, pack_payloads([bytes(20_000)]))
    primary.receive(9, "e", Data(1, 1, UP, 9, (Submit(heavy),)))
    sent = [frame for peer, frame in primary.drain().then_send if peer == "e"]
    assert [type(frame) for frame in sent] == [Data, Ack]
    assert [frame.acks for frame in sent if isinstance(frame, Data)] == [()]


@pytest.mark.parametrize(("policy", "early"), [("exclude", True), ("wait", False)])
def test_relays_forward_before_they_persist_only_under_exclude(policy: str, early: bool) -> None:
    primary = Engine("d", FIGURE, Options(on_failure=policy))
    batch = Batch("a", 1, "alpha4", 1, 1, pack_payloads([b"x"]))
    primary.receive(0, "a", Data(1, 1, UP, 1, (Submit(batch),)))
    box = primary.drain()
    data = [
        [frame for _, frame in sends if isinstance(frame, Data) and frame.lane == DOWN]
        for sends in (box.send, box.then_send)
    ]
    assert bool(data[0]) == early
    assert bool(data[1]) == (not early)


def test_at_safe_nothing_is_delivered_that_a_member_has_not_logged() -> None:
    cluster = Cluster(FIGURE, Options(deliver="safe"))
    cluster.deaf.add("f")
    submit(cluster.sites["d"], 0, "alpha4", [b"held"])
    submit(cluster.sites["d"], 0, "alpha8", [b"behind it in d's log"])
    cluster.drain("d")
    cluster.run()
    assert cluster.delivered["d"] == cluster.delivered["e"] == []
    assert cluster.delivered["j"] == [("alpha8", 1, b"behind it in d's log")]
    cluster.deaf.clear()
    cluster.run(400)
    assert [payload for _, _, payload in cluster.delivered["d"]] == [
        b"held",
        b"behind it in d's log",
    ]


def test_a_child_that_does_not_answer_fills_bounded_queues_and_stops_the_origin() -> None:
    limits = Limits(link_items=16, window_messages=60)
    cluster = Cluster(FIGURE, Options(deliver="agreed", limits=limits))
    cluster.deaf.add("f")
    accepted = 0
    for _ in range(40):
        for _ in range(10):
            try:
                submit(cluster.sites["j"], cluster.now, "alpha4", [b"x"])
                accepted += 1
            except WindowFull:
                break
        cluster.drain("j")
        cluster.run(4)
        for site in cluster.sites.values():
            assert all(value <= limit for _, value, limit in observations(site))
    assert accepted == 60
    assert len(cluster.delivered["e"]) == 16  # what e may hold for f
    assert len(cluster.delivered["d"]) == 16 + 8  # and d, of submissions, for e
    cluster.deaf.clear()
    cluster.run(800)
    assert len(cluster.delivered["f"]) == accepted
    assert all(site.quiet() for site in cluster.sites.values())


def test_what_comes_down_does_not_wait_for_what_goes_up() -> None:
    """m holds for its child half of what it may: it takes no submissions, but still from above."""
    table = GroupTable.of({"top": ["r", "m", "l"], "root": ["r", "x"], "low": ["m", "l"]})
    structure = Structure(1, table, build_greedy(table, tie=["r", "m"]))
    assert structure.forest.parent == {"r": None, "m": "r", "l": "m", "x": "r"}
    cluster = Cluster(structure, Options(deliver="agreed", limits=Limits(link_items=8)))
    cluster.deaf.add("l")
    for group, origin in (("low", "x"), ("top", "r")):
        for _ in range(8):
            submit(cluster.sites[origin], cluster.now, group, [b"x"])
            cluster.drain(origin)
            cluster.run(2)
    groups = [group for group, _, _ in cluster.delivered["m"]]
    assert groups == ["low"] * 4 + ["top"] * 4


def test_centralized_refuses_a_forest_that_is_not_a_star() -> None:
    with pytest.raises(ConfigError, match="centralized needs a forest of depth 1"):
        Engine("b", FIGURE, Options(), protocol="centralized")
    star = Structure(1, table_of(FIGURE_3), build_star(table_of(FIGURE_3)))
    cluster = Cluster(star, Options(), protocol="centralized")
    submit(cluster.sites["a"], 0, "alpha6", [b"x"])
    cluster.drain("a")
    cluster.run()
    assert cluster.delivered["g"] == [("alpha6", 1, b"x")]


def test_a_relay_passes_on_nothing_that_its_children_would_refuse() -> None:
    table = GroupTable.of({"deep": ["d", "g"], "mid": ["d", "c"], "low": ["c", "g"]})
    structure = Structure(1, table, build_greedy(table, tie=["d", "c"]))
    assert structure.forest.parent == {"d": None, "c": "d", "g": "c"}
    relay = Engine("c", structure, Options(deliver="agreed"))
    garbage = Batch("x", 1, "deep", 1, 1, b"\xc1 not msgpack")
    item = Relay(Placed(Key((0, 1), "d"), 1, garbage))
    relay.receive(0, "d", Data(1, 1, DOWN, 1, (item,)))
    box = relay.drain()
    assert [peer for peer, _ in box.mistakes] == ["d"]
    assert not box.send
