"""What clients of a daemon ask for is told to nobody before it is durable; an id never names two
bodies, though a site relays its own messages before it has stored them."""

import random
from collections import Counter
from typing import Any

import pytest

from ordercast.core.epochs.fence import MEMBER
from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import MemberBox
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.outbox import Accepted
from ordercast.model.epochs import CLIENT_WINDOW, AddProducer, JoinGroup
from ordercast.model.errors import Error
from ordercast.model.limits import BATCH_MESSAGES
from ordercast.model.messages import MARK_BITS, Requests, once
from ordercast.model.options import MILLISECOND, SECOND, Limits
from ordercast.wire.epochs import InEpoch
from ordercast.wire.frames import DOWN, Data, Submit
from support.worlds.epochs import World
from support.worlds.slow_disks import SlowDisks

Id = tuple[str, int, str, int]
ALL = ("a", "b", "c")
CLIENT = b"0123456789abcdef"
TREES = [name for name, info in PROTOCOLS.items() if not info.direct and name != "metagroup"]


def founded(protocol: str = "propagation", **options: object) -> World:
    """Three sites of a group, all of them voters, that have begun."""
    world = World({"alpha": ALL}, ALL, ALL, policy="exclude", protocol=protocol, **options)  # type: ignore[arg-type]
    world.run(2 * SECOND)
    assert world.quiet()
    return world


def primary(world: World, group: str = "alpha") -> Member:
    domain = world.first.domain_of([group])
    assert domain is not None
    return world.members[domain.structure.primary(group)]


def relayed(sends: object) -> list[tuple[str, int, int]]:
    """(peer, first number on the lane, items) of what goes DOWN."""
    return [
        (peer, frame.frame.number, len(frame.frame.items))
        for peer, frame in sends  # type: ignore[attr-defined]
        if isinstance(frame, InEpoch) and isinstance(frame.frame, Data) and frame.frame.lane == DOWN
    ]


def submitted(sends: object) -> list[bytes]:
    """The clients whose requests go UP; empty: a message of the application."""
    return [
        item.batch.requests.client if item.batch.requests else b""
        for _, frame in sends  # type: ignore[attr-defined]
        if isinstance(frame, InEpoch) and isinstance(frame.frame, Data)
        for item in frame.frame.items
        if isinstance(item, Submit)
    ]


def burst(member: Member, number: int | None) -> MemberBox:
    """A message of a client, or (None) of the application that embeds the site."""
    request = None if number is None else (CLIENT, number)
    member.submit(member.now, "alpha", [b"x"], request)
    return member.drain()


@pytest.mark.parametrize("protocol", TREES)
def test_a_clients_request_is_relayed_when_it_is_durable_and_an_applications_at_once(
    protocol: str,
) -> None:
    member = primary(founded(protocol))
    embedded = burst(member, None)
    assert relayed(embedded.send)
    assert MEMBER not in embedded.counted
    client = burst(member, 1)
    assert isinstance(client.persist[0], Accepted)
    assert not client.send
    assert relayed(client.then_send)
    assert MEMBER in client.counted


def test_a_clients_request_is_submitted_when_it_is_durable_and_an_applications_at_once() -> None:
    world = founded()
    member = next(one for one in world.members.values() if one is not primary(world))
    assert submitted(burst(member, None).send) == [b""]
    client = burst(member, 1)
    assert submitted(client.send) == []
    assert submitted(client.then_send) == [CLIENT]
    member.stored(client.counted)
    assert submitted(burst(member, None).send) == [b""]


class SlowDisk(World):
    """From the burst on in which it opens an epoch, the disk of d is slow."""

    def __init__(self) -> None:
        self.unstored: list[MemberBox] = []
        groups = {"alpha": ALL, "beta": ("a",)}
        super().__init__(groups, (*ALL, "d"), ALL, policy="exclude")

    def drain(self, site: str) -> None:
        layout = self.members[site].layout
        if site != "d" or layout.home("d") is None:
            super().drain(site)
        else:
            self.unstored.append(self.members[site].drain())

    def store(self) -> None:
        for box in self.unstored:
            self._persist("d", box)
            self._then_send("d", box)
        self.unstored = []


def test_nothing_is_submitted_in_an_epoch_before_it_is_stored_that_the_epoch_is_open() -> None:
    """Killed then, d would be a site outside, and go on. It would give seqs that it gave in the
    epoch: a window of them is skipped, and it may have given more."""
    world = SlowDisk()
    world.run(2 * SECOND)
    world.ask("a", "join", JoinGroup("beta", "d"))
    while not world.unstored:
        world.run(world.now + MILLISECOND)
    world.submit("d", "alpha", b"x")
    assert [submitted(box.send) for box in world.unstored] == [[]] * len(world.unstored)
    assert submitted(world.unstored[-1].then_send) == [b""]
    world.store()
    world.submit("d", "alpha", b"x")
    assert submitted(world.unstored[-1].send) == [b""]


@pytest.mark.parametrize("protocol", TREES)
def test_a_request_that_its_group_recognises_is_relayed_at_once(protocol: str) -> None:
    world = founded(protocol)
    world.ask("a", "remember", AddProducer(CLIENT_WINDOW, "alpha"))
    world.run(4 * SECOND)
    member = primary(world)
    request = once(CLIENT, 1, member.layout.producers[CLIENT_WINDOW, "alpha"] << MARK_BITS)
    member.submit(member.now, "alpha", [b"x"], request)
    box = member.drain()
    assert isinstance(box.persist[0], Accepted)
    assert relayed(box.send)
    assert MEMBER not in box.counted


@pytest.mark.parametrize("protocol", TREES)
def test_nothing_overtakes_what_waits_and_later_all_goes_at_once_again(protocol: str) -> None:
    member = primary(founded(protocol))
    boxes = [burst(member, 1), burst(member, None), burst(member, None)]
    assert all(not box.send for box in boxes)
    numbers = [number for box in boxes for peer, number, _ in relayed(box.then_send)]
    assert numbers == sorted(numbers)
    member.stored(boxes[0].counted)
    behind = burst(member, None)
    assert not behind.send, "the second has not left"
    for box in (*boxes[1:], behind):
        member.stored(box.counted)
    assert relayed(burst(member, None).send)


def test_what_is_sent_again_does_not_let_it_out() -> None:
    """Its frame is repeated after a while without an answer; the disk may take longer."""
    world = founded()
    member = primary(world)
    burst(member, 1)
    for _ in range(20):
        world.now += 100 * MILLISECOND
        member.alarm(world.now)
        assert relayed(member.drain().send) == []


def test_a_list_of_sites_is_held_as_well() -> None:
    world = founded()
    member = primary(world)
    member.submit_to(world.now, ALL, [b"x"], (CLIENT, 1))
    box = member.drain()
    assert not box.send
    assert relayed(box.then_send)


def test_the_batch_tells_the_requests_that_it_is_made_of() -> None:
    member = primary(founded())
    member.submit(member.now, "alpha", [b"x", b"y"], (CLIENT, 7))
    (record, *_) = member.drain().persist
    assert isinstance(record, Accepted)
    assert record.batch.requests == Requests(CLIENT, ((7, 2),))


def test_a_crash_before_it_is_durable_lets_nobody_have_it() -> None:
    world = founded()
    member = primary(world)
    member.submit(world.now, "alpha", [b"x"], (CLIENT, 1))
    world._send(member.name, member.drain())  # and no more
    world.crash(member.name)
    world.settle()
    assert all(seen == [] for seen in world.seen.values())
    world.submit(member.name, "alpha", b"after")
    world.settle()
    assert [[payload for _, _, payload in seen] for seen in world.seen.values()] == [[b"after"]] * 3


# --- random crashes, and a client that repeats ----------------------------------------------------


class WorldWithClients(SlowDisks):
    """Disks also have the numbers of requests, as stores do: in the commit of their batches."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self.stored: dict[bytes, int] = {}  # by client, the last
        super().__init__(*given, **named)

    def _persist(self, site: str, box: MemberBox) -> None:
        super()._persist(site, box)
        for record in box.persist:
            if isinstance(record, Accepted) and (requests := record.batch.requests) is not None:
                self.stored[requests.client] = requests.numbers[-1][0]


class Repeats:
    """A client of one site: it asks again and again for what the site's disk does not have."""

    def __init__(self, world: WorldWithClients, site: str, number: int, requests: int) -> None:
        self.world = world
        self.site = site
        self.client = b"%016d" % number
        self.requests = requests
        self._boot = 0
        self._given = 0  # up to here in this run, durable or not

    def step(self) -> None:
        world, member = self.world, self.world.members.get(self.site)
        if member is None:
            return
        if self._boot != world.boots[self.site]:
            self._boot = world.boots[self.site]
            self._given = world.stored.get(self.client, 0)
        if self._given < self.requests:
            number = self._given + 1
            payload = b"%s %d" % (self.client, number)
            try:
                member.submit(world.now, "alpha", [payload], (self.client, number))
            except Error:
                return
            self._given = number
            world.drain(self.site)


@pytest.mark.parametrize("disk", [0, 15 * MILLISECOND])
@pytest.mark.parametrize("seed", range(8))
def test_what_clients_repeat_after_crashes_is_delivered_once(seed: int, disk: int) -> None:
    """Seeds that are odd deliver at `agreed`. Crashes come between any two duties of an outbox."""
    draw = random.Random(seed)
    protocol = draw.choice(["propagation", "centralized"])
    world = WorldWithClients(
        {"alpha": ALL, "beta": ("b", "c")}, ALL, ALL, seed=seed, policy="exclude",
        deliver="agreed" if seed % 2 else "safe", protocol=protocol, loss=0.05, crash=0.004,
        disk=disk,
    )  # fmt: skip
    clients = [Repeats(world, site, n, 40) for n, site in enumerate([*ALL, *ALL])]
    for at in range(300):
        client = draw.choice(clients)
        world.at(2 * SECOND + at * 20 * MILLISECOND, client.step)
    world.run(9 * SECOND)
    world.settle()
    for _ in range(400):
        for client in clients:
            client.step()
        world.run(world.now + 20 * MILLISECOND)
    world.settle()
    told = f"seed {seed}, disk {disk}, {protocol}, {world.crashes} crashes"
    for site, seen in world.seen.items():
        times = Counter(payload for _, _, payload in seen)
        assert [payload for payload, n in times.items() if n > 1] == [], (
            f"doubled at {site}: {told}"
        )
        for client in clients:
            mine = [payload for _, _, payload in seen if payload.startswith(client.client)]
            expected = [b"%s %d" % (client.client, n + 1) for n in range(client.requests)]
            assert mine == expected, f"{client.client!r} at {site}: {told}"


# --- numbers --------------------------------------------------------------------------------------


def bodies(world: World, rolled_back: list[tuple[Id, bytes]]) -> dict[Id, set[bytes]]:
    found: dict[Id, set[bytes]] = {}
    for seen in world.seen.values():
        for _, message, payload in seen:
            found.setdefault(message, set()).add(payload)
    for message, payload in rolled_back:
        found.setdefault(message, set()).add(payload)
    return found


@pytest.mark.parametrize("listed", [False, True])
def test_an_id_that_only_an_absent_site_has_seen_is_not_given_again(listed: bool) -> None:
    """The primary relays to c alone and is killed before it has stored anything; c is cut off. The
    others open an epoch that knows nothing of it."""
    world = founded(deliver="agreed")
    origin = primary(world).name
    lonely, other = [site for site in ALL if site != origin]
    targets = (origin, lonely)

    def send(payload: bytes) -> None:
        member = world.members[origin]
        if listed:
            member.submit_to(world.now, targets, [payload])
        else:
            member.submit(world.now, "alpha", [payload])

    send(b"lost")
    box = world.members[origin].drain()
    world._transmit(origin, [(peer, frame) for peer, frame in box.send if peer == lonely])
    world.crash(origin, away=10 * MILLISECOND)
    world.run(world.now + 5 * MILLISECOND)
    before = [(message, payload) for _, message, payload in world.seen[lonely]]
    assert [payload for _, payload in before] == [b"lost"]
    world.cut = {frozenset((lonely, origin)), frozenset((lonely, other))}
    world.run(world.now + 5 * SECOND)
    if listed:
        world.cut = set()  # a list waits for all its sites
        world.settle()
    send(b"another")
    world.drain(origin)
    world.run(world.now + SECOND)
    world.cut = set()
    world.settle()
    assert world.rollbacks or listed
    assert {frozenset(found) for found in bodies(world, before).values()} == {
        frozenset([b"lost"]), frozenset([b"another"]),
    }  # fmt: skip


def test_each_run_numbers_above_what_all_runs_before_may_have_given() -> None:
    """None of them has stored anything: only the boot tells them apart."""
    world = founded()
    site = primary(world).name
    most = max(Limits().window_messages, BATCH_MESSAGES)
    for run in range(4):
        member = world.members[site]
        assert member.window.next_seq("alpha") == run * most + 1
        assert member.submit(world.now, "alpha", [b"x"]) == run * most + 1
        assert member.window.next_seq("alpha") == member.submit(world.now, "alpha", [b"x"])
        world.crash(site, away=MILLISECOND)
        world.settle()


@pytest.mark.parametrize("policy", ["wait", "exclude"])
def test_only_where_relays_leave_before_they_are_durable_are_numbers_skipped(policy: str) -> None:
    world = World(
        {"alpha": ALL}, ALL, ALL, policy=policy, causal=policy == "exclude", deliver="safe"
    )
    world.run(2 * SECOND)
    site = primary(world).name
    world.crash(site, away=MILLISECOND)
    world.settle()
    assert world.members[site].submit(world.now, "alpha", [b"x"]) == 1
