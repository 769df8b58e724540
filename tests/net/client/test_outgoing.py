"""What a client has on its way: messages that join a request unlooked at are counted as others."""

import asyncio
import random
from typing import Any

import pytest

from ordercast.model.errors import NotGranted, UnknownGroup, WindowFull
from ordercast.net.admin.frames import (
    ACCEPTED,
    STABLE,
    VERSION,
    Send,
    ServedCluster,
    Targets,
    Welcome,
)
from ordercast.net.admin.targets import KnownTargets
from ordercast.net.client.outgoing import ClientOutgoing
from ordercast.net.client.requests import ClientReceipt
from support.harness.loops import in_loop

MOST_MESSAGES, MOST_BYTES = 50, 3_000
GROUPS = ("alpha", "beta")
SEND, TURN, ANSWER, REJECT = "send", "turn", "answer", "reject"


def welcome(*, causal: bool) -> Welcome:
    targets = Targets(("a",), tuple((group, ("a",)) for group in GROUPS), (("a",),))
    served = ServedCluster("local", "safe", "wait", causal, 1 << 20)
    return Welcome(VERSION, "a", 1, 1, MOST_MESSAGES, MOST_BYTES, targets, served)


class Sender:
    """Sends as `Client.multicast_nowait` does; `quick`: by `join` where that takes it."""

    def __init__(self, *, quick: bool, causal: bool) -> None:
        self.frames: list[Any] = []
        self.quick = quick
        targets = KnownTargets("a")
        self.outgoing = ClientOutgoing(targets, self.frames.append)
        hello = welcome(causal=causal)
        targets.update(hello.targets)
        self.outgoing.resume(hello)
        self.receipts: list[ClientReceipt | None] = []
        self.joined = self.answered = 0

    def send(self, group: str, payload: bytes) -> None:
        outgoing = self.outgoing
        receipt = outgoing.join(group, payload) if self.quick else None
        self.joined += receipt is not None
        if receipt is None:
            target = outgoing.target(group)
            payloads = [payload]
            size, runs = outgoing.measure(target, payloads, None)
            try:
                outgoing.require_room(1, size)
            except WindowFull:
                self.receipts.append(None)
                return
            receipt = outgoing.add(target, payloads, size, runs)
        self.receipts.append(receipt)

    def answer(self, *, reject: bool) -> None:
        sends = [frame for frame in self.frames if isinstance(frame, Send)]
        if self.answered < len(sends):
            frame = sends[self.answered]
            self.answered += 1
            if reject:
                self.outgoing.rejected(frame.number, WindowFull("no"))
            else:
                for stage in (ACCEPTED, STABLE):
                    self.outgoing.reached(frame.number, stage, frame.group, 100 * frame.number)

    def check(self) -> None:
        self.outgoing.count_joined()
        left = [sent for sent in self.outgoing.requests.values() if not sent.is_handed_over]
        count, size = sum(sent.count for sent in left), sum(sent.size for sent in left)
        assert self.outgoing._under_way == [count, size]
        assert all(sent.count == len(sent.payloads) for sent in left)
        assert count <= MOST_MESSAGES
        assert size <= MOST_BYTES


def steps(draw: random.Random) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    group = "alpha"
    for _ in range(300):
        chance = draw.random()
        if chance < 0.85:
            group = draw.choice(GROUPS) if draw.random() < 0.1 else group
            found.append((SEND, group, draw.randbytes(draw.choice([0, 9, 90, 900]))))
        elif chance < 0.92:
            found.append((TURN,))
        else:
            found.append((ANSWER, draw.random() < 0.2))
    return found


async def played(given: list[tuple[Any, ...]], *, quick: bool, causal: bool, check: bool) -> Sender:
    sender = Sender(quick=quick, causal=causal)
    for what, *more in given:
        if what == SEND:
            sender.send(*more)
        elif what == TURN:
            await asyncio.sleep(0)
        else:
            sender.answer(reject=more[0])
        if check:
            sender.check()
    await asyncio.sleep(0)
    sender.check()
    return sender


@pytest.mark.parametrize("causal", [False, True])
@in_loop
async def test_messages_that_join_make_the_same_frames_and_receipts_as_those_that_are_looked_at(
    causal: bool,
) -> None:
    joined = 0
    for seed in range(60):
        given = steps(random.Random(seed))
        one = await played(given, quick=True, causal=causal, check=seed % 2 == 0)
        other = await played(given, quick=False, causal=causal, check=False)
        assert one.frames == other.frames, seed
        told = [
            [None if r is None else (r.group, r.seq, r.stage) for r in each.receipts]
            for each in (one, other)
        ]
        assert told[0] == told[1], seed
        joined += one.joined
    assert joined > 1_000


@in_loop
async def test_nothing_joins_in_another_turn_or_to_another_group_or_what_is_not_bytes() -> None:
    sender = Sender(quick=True, causal=False)
    sender.send("alpha", b"one")
    assert sender.outgoing.join("alpha", b"two") is not None
    assert sender.outgoing.join("beta", b"three") is None
    assert sender.outgoing.join("alpha", bytearray(b"three")) is None
    assert sender.outgoing.join(["alpha"], b"three") is None
    await asyncio.sleep(0)
    assert sender.outgoing.join("alpha", b"three") is None
    assert [frame.count for frame in sender.frames] == [2]


@in_loop
async def test_a_message_that_is_refused_only_when_it_is_repeated_may_have_been_accepted() -> None:
    """A daemon that finds no grant does not look whether it has accepted an earlier copy. Other
    refusals of it say that it has not."""
    unknown = "it is not known whether this message was accepted"
    for error, repeated, doubtful in (
        (NotGranted("no grant"), False, False),
        (NotGranted("no grant"), True, True),
        (UnknownGroup("gone"), True, False),
    ):
        sender = Sender(quick=False, causal=False)
        sender.send("alpha", b"x")
        await asyncio.sleep(0)
        if repeated:
            sender.outgoing.resume(welcome(causal=False))
        assert [frame.again for frame in sender.frames] == [False, True][: 1 + repeated]
        sender.outgoing.rejected(sender.frames[0].number, error)
        receipt = sender.receipts[0]
        assert receipt is not None
        with pytest.raises(type(error)) as caught:
            await receipt.accepted()
        assert (unknown in str(caught.value)) == doubtful
