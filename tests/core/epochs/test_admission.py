"""Reservations beside a model that counts message by message: whatever is sent, granted, accepted,
stable, frozen or removed in between, seqs follow each other and the window is kept."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from ordercast.core.batches import NO_EXTRAS, PER_MESSAGE, Extras, extras_of
from ordercast.core.epochs.admission import (
    BATCH_BYTES,
    Admission,
    Origin,
    PlaceInLine,
    RequestName,
    Reservation,
)
from ordercast.model.envelope import Envelope, HeaderRun, unpack_body
from ordercast.model.errors import ConfigError, NotInMajority, TooLarge, UnknownGroup, WindowFull
from ordercast.model.features import HEADERS
from ordercast.model.headers import HeaderItems
from ordercast.model.implicit import implicit_group
from ordercast.model.limits import BATCH_MESSAGES, ENVELOPE_BYTES
from ordercast.model.messages import producer_id
from ordercast.model.options import Limits, Options

GROUPS = ("alpha", "beta", "gamma")
LIST = ("p", "q")
NAMES = (("one",), ("b", "a"), tuple(f"header {n}" for n in range(9)))


class Around:
    """The member, its window and its layout, as far as admission asks; all that tests change."""

    def __init__(self, options: Options) -> None:
        self.name = "o"
        self.options = options
        self.window = self.layout = self
        self.groups: dict[str, tuple[str, ...]] = dict.fromkeys(GROUPS, LIST)
        self.roster = {"o": 1}
        self.lasts: dict[str, int] = {}  # another object whenever the layout changes
        self.frozen: set[str] = set()
        self.features: tuple[str, ...] = ()
        self.producers: dict[tuple[str, str], int] = {}
        self.count = 1  # records of the layout: the cluster is founded
        self.known_extras: dict[bytes, tuple[HeaderItems, tuple[str, ...]]] = {}  # by payload
        self.times: dict[bytes, int] = {}  # when a message with this payload was first reserved
        self.is_open = self.has_room = True
        self.accepted: list[tuple[str, int, list[bytes], int]] = []  # group, seq, payloads, bytes
        self.requests: list[tuple[RequestName, int]] = []
        self.stable = 0  # so many of those
        self.taken: dict[str, int] = {}  # the last seq accepted and not refused

    def change(self, **lasts: int) -> None:
        self.lasts = lasts

    def unstable_both(self) -> tuple[int, int]:
        unstable = self.accepted[self.stable :]
        return sum(len(p) for _, _, p, _ in unstable), sum(size for *_, size in unstable)

    def knows(self, group: str) -> bool:
        return group in self.taken

    def forget_skipped(self, numbered: Callable[[str], bool]) -> None:
        """Nothing is skipped here."""

    def require_stream(self, group: str, members: Sequence[str]) -> None:
        """There is room for all."""

    def require_past(self) -> None:
        """It is never long."""

    @property
    def domains(self) -> dict[str, int]:
        """They change with the layout."""
        return self.lasts

    @property
    def absent(self) -> set[str]:
        return self.frozen

    def next_seq(self, group: str) -> int:
        return self.taken.get(group, 0) + 1

    def last_seq(self, group: str) -> int:
        return self.taken.get(group, 0)

    def listed(self, sites: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(sites))

    def domain_of(self, groups: Sequence[str]) -> object | None:
        return None if groups[0] in self.frozen else self

    def require_open(self) -> None:
        if not self.is_open:
            raise NotInMajority("closed")

    def domain(self, group: str, members: Sequence[str]) -> Any:
        if not members and group not in self.groups:
            raise UnknownGroup(group)
        if group in self.frozen:
            raise NotInMajority(group)

    def accept(self, now: int, batch: Reservation) -> bool:
        del now
        self.require_open()
        self.domain(batch.group, batch.members)
        if not self.has_room:
            return False
        body = batch.body()
        payloads = self.unpack(body)
        assert len(body) <= batch.size + ENVELOPE_BYTES, "more than was reserved"
        self.accepted.append((batch.group, batch.seq, payloads, len(body)))
        if batch.request is not None:
            self.requests.append((batch.request, batch.seq))
        assert batch.seq == self.next_seq(batch.group), "a seq twice, or left out"
        self.taken[batch.group] = batch.seq + len(payloads) - 1
        return True

    def unpack(self, body: bytes) -> list[bytes]:
        """The payloads of an accepted batch, whose envelope says what its messages were sent with,
        and when the first of them was."""
        found = unpack_body(body)
        if not isinstance(found, Envelope):
            assert not any(payload in self.known_extras for payload in found)
            assert not self.features
            return found
        found.check(listed=True)
        assert found.sent_ns == self.times[found.payloads[0]]
        for payload, items in zip(found.payloads, found.items(), strict=True):
            assert (items, found.groups) == self.known_extras.get(payload, ((), ()))
        return found.payloads


class Model:
    """Plain lists: what was sent and not accepted, and what is granted."""

    def __init__(self, around: Around, limits: Limits) -> None:
        self.around = around
        self.limits = limits
        self.sent: list[tuple[str, int, bytes, int]] = []  # group, seq, payload, size
        self.last: dict[str, int] = {}
        self.granted = Counter[str]()
        self.line: list[PlaceInLine] = []
        self.followed: object = around.lasts

    def fits(self, messages: int, size: int) -> bool:
        unstable, unstable_bytes = self.around.unstable_both()
        under_way = unstable + len(self.sent) + self.granted["messages"]
        held = unstable_bytes + sum(size for *_, size in self.sent) + self.granted["bytes"]
        return not under_way or (
            under_way + messages <= self.limits.window_messages
            and held + size <= self.limits.window_bytes
        )

    def admits(self, messages: int, size: int) -> bool:
        current = self.followed is self.around.lasts
        return current and self.around.is_open and not self.line and self.fits(messages, size)

    def send(self, group: str, payloads: Sequence[bytes], extra: int) -> int:
        for payload in payloads:
            self.last[group] = self.last.get(group, self.around.taken.get(group, 0)) + 1
            size = len(payload) + PER_MESSAGE + extra
            self.sent.append((group, self.last[group], payload, size))
            extra = 0
        return self.last[group]


class Run:
    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        limits = Limits(
            window_messages=rng.choice([1, 7, 60]),
            window_bytes=rng.choice([500, 5_000, 1_000_000]),
            message_bytes=rng.choice([400, BATCH_BYTES]),
        )
        self.causal = rng.random() < 0.4
        self.around = Around(Options(limits=limits, causal=self.causal))
        self.around.features = rng.choice([(), (HEADERS,)])
        self.now = 0
        self.admission = Admission(cast(Origin, self.around))
        self.model = Model(self.around, limits)
        self.order: list[tuple[str, bytes]] = []  # of everything that was sent and not refused
        self.met = Counter[str]()
        self._number = 0
        self._requested = 0

    def payload(self) -> bytes:
        self._number += 1
        return b"%d " % self._number + bytes(self.rng.choice([0, 5, 100, 300]))

    def step(self) -> None:
        steps = {
            self.one: 5, self.many: 3, self.hand_over: 4, self.count_joined: 3, self.stand: 1,
            self.grant: 3, self.leave: 1, self.take_turn: 3, self.shut: 0.5, self.freeze: 0.5,
            self.change: 1, self.lag: 0.5,
        }  # fmt: skip
        self.rng.choices([*steps], [*steps.values()])[0]()
        self.check()

    def one(self) -> None:
        group, payload = self.rng.choice(GROUPS), self.payload()
        extras = self.extras([payload])
        for _ in range(self.rng.choice([1, 1, 20])):
            size = len(payload) + PER_MESSAGE + extras.size
            expected = self.expected(group, 1, size)
            fits = not self.model.line and self.model.fits(1, size)
            if not extras.headers and (seq := self.admission.join(group, payload)):
                self.met["joined"] += 1
                assert fits, "it overtakes the line, or exceeds the window"
                self.sent(True, seq, group, [payload], 0)
                continue
            try:
                seq = self.admission.reserve(group, payload, self.now, extras)
            except (UnknownGroup, NotInMajority):
                self.refused(expected, group)
                return
            self.sent(expected, seq, group, [payload], extras.size)

    def extras(self, payloads: Sequence[bytes], *groups: str) -> Extras:
        """What the messages have beside their payloads, now that they are sent."""
        self.now += 1
        headers = None
        if self.around.features and self.rng.random() < 0.5:
            headers = {name: bytes(self.rng.choice([0, 1, 60])) for name in self.rng.choice(NAMES)}
            self.met["with headers"] += 1
        groups = groups if self.around.features else ()
        extras = extras_of(headers, len(payloads), groups)
        for payload in payloads:
            self.around.times[payload] = self.now
            if extras is not NO_EXTRAS:
                items = tuple(sorted((headers or {}).items()))
                self.around.known_extras[payload] = (items, groups)
        return extras

    def many(self) -> None:
        payloads = [self.payload() for _ in range(self.rng.randint(1, 5))]
        group = self.rng.choice([*GROUPS, implicit_group(LIST)])
        extras = self.extras(payloads, *(() if group in GROUPS else GROUPS[:2]))
        size = sum(map(len, payloads)) + PER_MESSAGE * (len(payloads) + 1) + extras.size
        request = None
        if self.rng.random() < 0.5:
            self._requested += 1
            request = (b"client", self._requested)
        expected = self.expected(group, len(payloads), size)
        try:
            if group in GROUPS:
                reserve = self.admission.reserve_batch
                seq = reserve(group, payloads, request, self.now, extras)
            else:
                listed = self.admission.reserve_listed
                group, seq = listed(LIST, payloads, request, self.now, extras)
        except (UnknownGroup, NotInMajority):
            self.refused(expected, group)
            return
        if seq and request is not None:
            first = seq - len(payloads) + 1
            assert self.admission.requested[request] == (group, first, len(payloads))
        self.sent(expected, seq, group, payloads, PER_MESSAGE + extras.size)

    def expected(self, group: str, messages: int, size: int) -> bool | None:
        """Whether there is room; None: it is refused."""
        around = self.around
        current = self.model.followed is around.lasts
        unknown = group in GROUPS and group not in around.groups
        if current and (unknown or group in around.frozen):
            return None
        return self.model.admits(messages, size)

    def refused(self, expected: bool | None, group: str) -> None:
        """With a layout that nobody has followed yet, a sender may also be told to wait."""
        around = self.around
        assert expected is None or self.model.followed is not around.lasts
        assert group not in around.groups or group in around.frozen

    def sent(
        self, expected: bool | None, seq: int, group: str, payloads: list[bytes], extra: int
    ) -> None:
        if expected is None:  # the site is closed: that comes first
            assert not seq
            assert not self.around.is_open
            return
        assert bool(seq) is expected
        self.met["sent" if seq else "told to wait"] += 1
        if seq:
            assert seq == self.model.send(group, payloads, extra)
            self.order += [(group, payload) for payload in payloads]

    def hand_over(self) -> None:
        around, before = self.around, len(self.around.accepted)
        admitted, done = self.admission.hand_over(0)
        new = around.accepted[before:]
        if not around.is_open or self.model.followed is not around.lasts:
            assert not new
        elif around.has_room and not around.frozen:
            assert self.admission.messages == 0
            assert done
        asked = around.requests[len(around.requests) - len(admitted) :]
        assert [(one[:2], one[3]) for one in admitted] == asked
        flat = [(g, s + n, p) for g, s, payloads, _ in new for n, p in enumerate(payloads)]
        for group, seq, payload in flat:
            found = next(i for i, one in enumerate(self.model.sent) if one[0] == group)
            assert self.model.sent.pop(found)[:3] == (group, seq, payload)
        self.met["accepted"] += len(flat)
        if self.causal:
            told = [(group, payload) for group, _, payload in flat]
            assert told == self.order[: len(told)]
        for group, _, payload in flat:
            self.order.remove((group, payload))

    def count_joined(self) -> None:
        left = len(self.around.accepted) - self.around.stable
        self.around.stable += self.rng.randint(0, left)

    def stand(self) -> None:
        if len(self.model.line) < 3:
            messages = self.rng.choice([1, 1, 2, 4])
            size = messages * (PER_MESSAGE + 50) + PER_MESSAGE
            self.model.line.append(self.admission.stand_in_line(messages, size))

    def grant(self) -> None:
        expected = []
        if self.around.is_open and self.model.followed is self.around.lasts:
            for in_line in self.model.line:
                if in_line.granted:
                    continue
                if not self.model.fits(in_line.messages, in_line.size):
                    break
                expected.append(in_line)
                self.model.granted.update(messages=in_line.messages, bytes=in_line.size)
        assert self.admission.grant() == expected
        self.met["granted"] += len(expected)

    def leave(self) -> None:
        if self.model.line and self.rng.random() < 0.5:
            self.ungrant(self.rng.choice(self.model.line))

    def ungrant(self, in_line: PlaceInLine) -> None:
        self.give_back(in_line)
        self.model.line.remove(in_line)
        self.admission.leave_line(in_line)

    def give_back(self, in_line: PlaceInLine) -> None:
        if in_line.granted:
            self.model.granted.update(messages=-in_line.messages, bytes=-in_line.size)

    def take_turn(self) -> None:
        in_line = next((in_line for in_line in self.model.line if in_line.granted), None)
        if in_line is None:
            return
        payloads = [self.payload()[:50] for _ in range(in_line.messages)]
        self.now += 1
        self.around.times.update(dict.fromkeys(payloads, self.now))
        group = self.rng.choice(GROUPS)
        alone = in_line.messages == 1
        ready = self.model.followed is self.around.lasts and self.around.is_open
        if not ready:
            self.give_back(in_line)
        try:
            if alone:
                seq = self.admission.reserve(group, payloads[0], self.now, in_line=in_line)
            else:
                seq = self.admission.reserve_batch(group, payloads, None, self.now, in_line=in_line)
        except (UnknownGroup, NotInMajority):
            if not ready:
                self.model.granted.update(messages=in_line.messages, bytes=in_line.size)
            self.ungrant(in_line)
            return
        assert bool(seq) is ready
        if seq:
            self.sent(True, seq, group, payloads, 0 if alone else PER_MESSAGE)
            self.ungrant(in_line)
            self.met["took its turn"] += 1
        else:
            assert in_line in self.model.line
            assert not in_line.granted

    def shut(self) -> None:
        """Only a change of the layout opens or closes a site."""
        self.around.is_open = self.rng.random() < 0.8
        self.around.change()
        self.follow()

    def lag(self) -> None:
        self.around.has_room = self.rng.random() < 0.7

    def freeze(self) -> None:
        if self.rng.random() < 0.3:
            group = self.rng.choice(GROUPS)
            self.around.frozen ^= {group}
            self.around.change()
            self.follow()

    def change(self) -> None:
        """A group is removed or added, or other messages than were sent are in the past."""
        around, rng = self.around, self.rng
        if rng.random() < 0.7:
            return
        group = rng.choice(GROUPS)
        if rng.random() < 0.7:
            if group in around.groups:
                del around.groups[group]
                around.taken[group] = max(0, around.taken.get(group, 0) - rng.randint(0, 2))
            else:
                around.groups[group] = LIST
        around.change()
        if rng.random() < 0.7:
            self.follow()

    def follow(self) -> None:
        refused = self.admission.follow()
        around, model = self.around, self.model
        model.followed = around.lasts
        for group, first in refused.items():
            assert first == around.taken.get(group, 0) + 1
            gone = [(g, p) for g, s, p, _ in model.sent if g == group]
            for one in gone:
                self.order.remove(one)
            model.sent = [one for one in model.sent if one[0] != group]
            model.last.pop(group, None)
            self.met["refused"] += 1
        for group in [g for g in model.last if g not in around.groups and g in GROUPS]:
            if not any(one[0] == group for one in model.sent) and around.is_open:
                model.last.pop(group)

    def check(self) -> None:
        model, rng = self.model, self.rng
        if rng.random() < 0.3:  # looking counts what has joined, which ends the quick way
            assert self.admission.messages == len(model.sent)
            assert self.admission.bytes == sum(size for *_, size in model.sent)
            known = self.around.is_open and model.followed is self.around.lasts
            for group, last in self.admission.last_seqs().items() if known else ():
                assert last == model.last.get(group, self.around.taken.get(group, 0))


@pytest.mark.parametrize("part", range(8))
def test_reservations_are_as_if_counted_one_by_one(part: int) -> None:
    met = Counter[str]()
    for seed in range(part, 400, 8):
        run = Run(seed)
        try:
            for _ in range(150):
                run.step()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        met += run.met
    for what in ("joined", "sent", "told to wait", "accepted", "granted", "took its turn"):
        assert met[what] > 40, met
    assert met["refused"] > 10, met
    assert met["with headers"] > 40, met


def test_headers_are_refused_and_nothing_is_reserved_until_all_sites_have_them() -> None:
    around = Around(Options())
    admission = Admission(cast(Origin, around))
    extras = extras_of({"colour": b"red"}, 1, ("alpha", "beta"))
    for send in (
        lambda: admission.reserve("alpha", b"x", 1, extras),
        lambda: admission.reserve_batch("alpha", [b"x"], None, 1, extras),
        lambda: admission.reserve_listed(LIST, [b"x"], None, 1, extras),
        lambda: admission.submit(0, "alpha", (), [b"x"], None, 1, extras),
    ):
        with pytest.raises(ConfigError, match="headers: this cluster does not use them yet"):
            send()
    assert admission.messages == admission.bytes == 0
    admission.reserve("alpha", b"plain", 1)
    admission.reserve_listed(LIST, [b"to groups"], None, 1, extras_of(None, 1, ("alpha", "beta")))
    assert [unpack_body(batch.body()) for batch in admission.queue] == [[b"plain"], [b"to groups"]]
    around.features = ("another", HEADERS)
    admission.reserve("alpha", b"with", 7, extras_of({"colour": b"red"}, 1))
    assert unpack_body(admission.queue[0].body()) == Envelope(
        [b"plain", b"with"], 0, (HeaderRun(1, 1, (("colour", b"red"),)),)
    )


def test_headers_wait_until_the_cluster_is_founded() -> None:
    around = Around(Options())
    around.count = 0
    admission = Admission(cast(Origin, around))
    extras = extras_of({"colour": b"red"}, 1)
    assert admission.reserve("alpha", b"x", 1, extras) == 0
    assert admission.reserve_batch("alpha", [b"x"], None, 1, extras) == 0
    assert admission.reserve_listed(LIST, [b"x"], None, 1, extras)[1] == 0
    assert admission.reserve("alpha", b"plain", 1) == 1
    in_line = admission.stand_in_line(1, 10 + extras.size)
    assert admission.grant() == [in_line]
    assert admission.reserve("alpha", b"x", 1, extras, in_line=in_line) == 0
    assert not in_line.granted, "another may have the room meanwhile"
    around.count, around.features = 1, (HEADERS,)
    assert admission.grant() == [in_line]
    assert admission.reserve("alpha", b"x", 1, extras, in_line=in_line) == 2
    admission.leave_line(in_line)
    in_line = admission.stand_in_line(1, 10 + extras.size)
    around.features = ()  # or it was founded by an older release
    with pytest.raises(ConfigError, match="does not use them yet"):
        admission.reserve("alpha", b"x", 1, extras, in_line=in_line)


def test_a_batch_larger_than_the_window_goes_alone_and_is_not_overtaken() -> None:
    around = Around(Options(limits=Limits(window_messages=3)))
    admission = Admission(cast(Origin, around))
    assert admission.reserve("alpha", b"x") == 1
    assert admission.reserve_batch("alpha", [b"y"] * 5) == 0
    in_line = admission.stand_in_line(5, 100)
    assert admission.grant() == []
    assert admission.reserve("beta", b"z") == 0, "nobody overtakes it"
    admission.hand_over(0)
    assert admission.grant() == []
    around.stable = 1
    assert admission.grant() == [in_line]
    assert admission.reserve_batch("alpha", [b"y"] * 5, in_line=in_line) == 6
    admission.leave_line(in_line)
    assert admission.reserve("beta", b"z") == 0
    admission.hand_over(0)
    around.stable = 2
    assert admission.reserve("beta", b"z") == 1


def test_who_is_refused_has_taken_neither_room_nor_seq() -> None:
    around = Around(Options(limits=Limits(message_bytes=10)))
    admission = Admission(cast(Origin, around))
    for wrong, error in (
        ([], ConfigError),
        ([b"fine", b"x" * 11], TooLarge),
        (["text"], ConfigError),
        ([b""] * (BATCH_MESSAGES + 1), TooLarge),
    ):
        with pytest.raises(error):
            admission.reserve_batch("alpha", cast(list[bytes], wrong))
        with pytest.raises(error):
            admission.reserve_listed(LIST, cast(list[bytes], wrong))
        with pytest.raises(error):
            admission.submit(0, "alpha", (), cast(list[bytes], wrong))
    with pytest.raises(TooLarge):
        admission.reserve("alpha", b"x" * 11)
    with pytest.raises(UnknownGroup):
        admission.reserve("omega", b"")
    assert admission.messages == admission.bytes == 0
    assert admission.reserve("alpha", cast(bytes, bytearray(b"x"))) == 1


def test_what_is_accepted_at_once_is_asked_the_same() -> None:
    around = Around(Options(limits=Limits(window_messages=2)))
    admission = Admission(cast(Origin, around))
    assert admission.submit(0, "alpha", (), [b"x"]) == 1
    assert admission.submit(0, "alpha", (), [b"y"]) == 2
    with pytest.raises(WindowFull, match="2 messages"):
        admission.submit(0, "beta", (), [b"z"])
    around.stable = 2
    around.has_room = False
    with pytest.raises(WindowFull, match="lags behind"):
        admission.submit(0, "alpha", (), [b"z"])
    around.has_room = True
    assert admission.submit(0, "alpha", (), [b"z"]) == 3


def test_what_is_reserved_for_a_producer_that_is_removed_is_refused() -> None:
    """Otherwise an epoch that opens without the producer's marks would take it."""
    around = Around(Options())
    around.producers = {("sink", "alpha"): 7}
    admission = Admission(cast(Origin, around))
    assert admission.reserve_batch("alpha", [b"x"], (producer_id(7), 1)) == 1
    assert admission.reserve_batch("beta", [b"y"], (producer_id(7), 1)) == 1
    around.change(one=1)
    assert admission.follow() == {}
    around.producers = {}
    around.change(two=2)
    assert admission.follow() == {"alpha": 1, "beta": 1}
    assert (admission.messages, len(admission.queue)) == (0, 0)
