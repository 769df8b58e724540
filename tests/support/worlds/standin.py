"""A stand-in for a protocol site, to test the simulated world itself: it does as it is told.

Each burst it hands out the outbox that the test prepared for that call; it notes every call.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ordercast.core.epochs.member import Member
from ordercast.core.epochs.records import Anew, MemberBox, MemberRecord
from ordercast.core.outbox import Accepted, StageReached
from ordercast.core.structure import Structure
from ordercast.model.errors import WindowFull
from ordercast.model.messages import Batch, DeliveredBatch, Delivery, Key, Placed
from ordercast.model.options import NEVER
from ordercast.sim.config import SimConfig
from ordercast.sim.place import Place
from ordercast.sim.world import World
from ordercast.wire.epochs import InEpoch, SiteFrame
from ordercast.wire.frames import Repair

Call: TypeAlias = tuple[str, str, int, Any]
"""Site, what was called, the site's own time, the argument."""


def outbox(*, alarm: int | None = None, **given: Any) -> MemberBox:
    empty: dict[str, Any] = {
        "persist": (), "send": (), "then_send": (), "deliver": (), "receipts": (),
        "outcomes": (), "forget": None,
    }  # fmt: skip
    return MemberBox(**{**empty, "epochs_alarm": NEVER if alarm is None else alarm, **given})


def frame(number: int) -> InEpoch:
    """A frame that a test can tell from another."""
    return InEpoch(1, Repair(1, 1, 0, number, number))


def record(seq: int, origin: str = "a") -> Accepted:
    return Accepted(Batch(origin, 1, "g", seq, 1, b"\x91\xc4\x01x"))


def delivery(position: int, seq: int | None = None, counter: int | None = None) -> Delivery:
    (made,) = delivered(position, seq, counter).deliveries()
    return made


def delivered(position: int, seq: int | None = None, counter: int | None = None) -> DeliveredBatch:
    """A batch of one message."""
    batch = record(position if seq is None else seq).batch
    key = Key((0, position if counter is None else counter), "a")
    return DeliveredBatch(position, 1, Placed(key, batch.seq, batch))


def accepted(seq: int) -> StageReached:
    return StageReached("accepted", "g", seq, 1)


class StandIn:
    """`answer(site, call, argument)` gives an outbox for the call, or None: nothing new.

    Outboxes of one burst are joined; the alarm stays as it was last set until it rings.
    """

    def __init__(
        self,
        name: str,
        calls: list[Call],
        drains: list[tuple[str, int]],
        answer: Callable[..., MemberBox | None],
    ) -> None:
        self.name = name
        self.calls = calls
        self.drains = drains
        self.answer = answer
        self.seq = 0
        self.incarnation = 1
        self._alarm: int | None = None
        self._burst: list[MemberBox] = []

    def _called(self, what: str, now: int, argument: Any = None) -> None:
        self.calls.append((self.name, what, now, argument))
        if what == "alarm":
            self._alarm = None
        given = self.answer(self, what, argument)
        if given is not None:
            self._burst.append(given)
            alarm = min(given.epochs_alarm, given.voters_alarm)
            self._alarm = alarm if alarm < NEVER else None

    def start(self, now: int) -> None:
        self._called("start", now)

    def submit(self, now: int, group: str, payloads: list[bytes], *_: object) -> int:
        self.seq += 1
        try:
            self._called("submit", now, (group, payloads))
        except WindowFull:
            self.seq -= 1
            raise
        return self.seq

    def submit_to(
        self, now: int, sites: Sequence[str], payloads: list[bytes], *_: object
    ) -> tuple[str, int]:
        self.seq += 1
        self._called("submit_to", now, (tuple(sites), payloads))
        return "@" + ",".join(sites), self.seq

    def receive(self, now: int, peer: str, frame: SiteFrame) -> None:
        self._called("receive", now, (peer, frame))

    def alarm(self, now: int) -> None:
        self._called("alarm", now)

    def hold(self, now: int, *, held: bool) -> None:
        self._called("hold", now, held)

    def stored(self, counted: Sequence[str]) -> None:
        self.calls.append((self.name, "stored", 0, tuple(counted)))

    def drain(self) -> MemberBox:
        burst, self._burst = self._burst, []
        self.drains.append((self.name, len(burst)))
        forgets = [box.forget for box in burst if box.forget is not None]
        return outbox(
            persist=[record for box in burst for record in box.persist],
            send=[sent for box in burst for sent in box.send],
            then_send=[sent for box in burst for sent in box.then_send],
            deliver=[item for box in burst for item in box.deliver],
            receipts=[receipt for box in burst for receipt in box.receipts],
            forget=forgets[-1] if forgets else None,
            alarm=self._alarm,
        )

    def observations(self) -> list[tuple[str, int, int]]:
        return []

    def quiet(self, apart_from: Sequence[str] = ()) -> bool:  # noqa: ARG002
        return True


class Cast:
    """Makes stand-ins for a world and keeps what was called and what each was started with."""

    def __init__(self, answer: Callable[..., MemberBox | None]) -> None:
        self.answer = answer
        self.calls: list[Call] = []
        self.drains: list[tuple[str, int]] = []  # site, and answers joined in the burst
        self.starts: list[tuple[str, int, Anew | None, list[MemberRecord]]] = []

    def __call__(
        self, name: str, boot: int, checkpoint: Anew | None, records: list[MemberRecord]
    ) -> StandIn:
        self.starts.append((name, boot, checkpoint, records))
        return StandIn(name, self.calls, self.drains, self.answer)

    def of(self, site: str, what: str) -> list[Any]:
        """Arguments of the calls of one kind at a site, in order."""
        return [
            argument for name, called, _, argument in self.calls if (name, called) == (site, what)
        ]

    def times(self, site: str, what: str) -> list[int]:
        """By the site's own clock."""
        return [now for name, called, now, _ in self.calls if (name, called) == (site, what)]


class StagedWorld(World):
    """A world with a cast in the place of its members."""

    def __init__(self, config: SimConfig, structure: Structure, seed: int, cast: Cast) -> None:
        super().__init__(config, structure, seed)
        self._cast: Any = cast

    def _make(self, place: Place, anew: Anew | None, records: list[MemberRecord]) -> Member:
        made: Member = self._cast(place.name, place.boot, anew, records)
        return made
