"""Defects that a hostile reading of the core has found, each driven by hand to its symptom."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import count

import pytest

from ordercast.core.engine import Engine
from ordercast.core.outbox import Checkpoint, Record, StageReached
from ordercast.core.stability.registry import TRACKERS
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.model.errors import ConfigError, WindowFull
from ordercast.model.groups import GroupTable
from ordercast.model.messages import Batch, pack_payloads
from ordercast.model.options import MILLISECOND, NEVER, Limits, Options
from ordercast.wire.frames import UP, Ack, Data, Frame, Submit
from support.judges.forests import problems
from support.worlds.alone import submit, submit_to

Drop = Callable[[str, str, Frame], bool]


def tree(
    groups: Mapping[str, Sequence[str]], parent: Mapping[str, str | None], primary: dict[str, str]
) -> Structure:
    """A forest given outright; a site without a parent that is in no group is an outsider."""
    table = GroupTable.of({g: list(sites) for g, sites in groups.items()}, sites=list(parent))
    forest = Forest("greedy", parent, primary)
    assert problems(forest, table) == []
    return Structure(1, table, forest)


class Network:
    """Sites in virtual time, every frame 1 ms under way; what `drop` says is lost. Each record is
    durable at once, so that a crash takes only what was in memory."""

    def __init__(self, structure: Structure, options: Options) -> None:
        names = structure.table.sites
        self.structure, self.options = structure, options
        self.now = 0
        self.drop: Drop = lambda *_: False
        self.delivered: dict[str, list[bytes]] = {name: [] for name in names}
        self.receipts: dict[str, list[StageReached]] = {name: [] for name in names}
        self.sites: dict[str, Engine] = {}
        self._stores: dict[str, tuple[Checkpoint | None, list[Record]]] = {
            name: (None, []) for name in names
        }
        self._boots = dict.fromkeys(names, 0)
        self._alarms: dict[str, int] = {}
        self._heap: list[tuple[int, int, str, str, Frame]] = []
        self._tick = count()
        for name in names:
            self.start(name)

    def start(self, name: str) -> None:
        self._boots[name] += 1
        checkpoint, records = self._stores[name]
        self.sites[name] = Engine(
            name,
            self.structure,
            self.options,
            boot=self._boots[name],
            checkpoint=checkpoint,
            records=records,
        )
        self.sites[name].start(self.now)
        self.drain(name)

    def crash(self, name: str) -> None:
        del self.sites[name]
        del self._alarms[name]

    def drain(self, name: str) -> None:
        box = self.sites[name].drain()
        checkpoint, records = self._stores[name]
        records = [*records, *box.persist]
        for peer, frame in (*box.send, *box.then_send):
            if not self.drop(name, peer, frame):
                at = self.now + MILLISECOND
                heapq.heappush(self._heap, (at, next(self._tick), name, peer, frame))
        self.delivered[name] += [payload for batch in box.deliver for payload in batch.payloads]
        self.receipts[name] += box.receipts
        self._stores[name] = (box.forget, []) if box.forget else (checkpoint, records)
        self._alarms[name] = min(box.epochs_alarm, box.voters_alarm)

    def submit(self, name: str, group: str, *payloads: bytes) -> None:
        submit(self.sites[name], self.now, group, list(payloads))
        self.drain(name)

    def run(self, milliseconds: int) -> None:
        end = self.now + milliseconds * MILLISECOND
        while True:
            alarms = [(at, name) for name, at in self._alarms.items() if at < NEVER]
            ring = min(alarms, default=(end + 1, ""))
            arrival = self._heap[0][0] if self._heap else end + 1
            if min(ring[0], arrival) > end:
                break
            self.now = max(self.now, min(ring[0], arrival))
            if arrival <= ring[0]:
                _, _, source, name, frame = heapq.heappop(self._heap)
                if name not in self.sites:
                    continue
                self.sites[name].receive(self.now, source, frame)
            else:
                name = ring[1]
                self.sites[name].alarm(self.now)
            self.drain(name)
        self.now = end

    def stages(self, name: str) -> list[str]:
        return [receipt.stage for receipt in self.receipts[name]]


PAIR = tree({"g": "ab"}, {"a": None, "b": "a"}, {"g": "a"})


def is_submission(frame: Frame) -> bool:
    return isinstance(frame, Data) and frame.lane == UP


def test_progress_on_one_lane_does_not_put_off_what_was_lost_on_another() -> None:
    """b's only submission is lost, while its reports of a's steady messages are acknowledged."""
    network = Network(PAIR, Options())
    network.drop = lambda source, _, frame: source == "b" and is_submission(frame)
    network.submit("b", "g", b"lost once")
    network.drop = lambda *_: False
    for _ in range(50):
        network.submit("a", "g", b"steady")
        network.run(10)
    assert network.delivered["a"].count(b"lost once") == 1


def test_a_link_of_one_item_holds_one_item() -> None:
    """Half of one is nothing, which once meant no bound at all."""
    network = Network(PAIR, Options(limits=Limits(link_items=1)))
    network.drop = lambda _, peer, __: peer == "b"
    network.submit("a", "g", b"first")
    with pytest.raises(WindowFull):
        network.submit("a", "g", b"second")
    network.drop = lambda *_: False
    network.run(1000)
    network.submit("a", "g", b"second")
    network.run(1000)
    assert network.delivered["b"] == [b"first", b"second"]


DEEP = tree(
    {"g": "xy", "top": "pmn", "left": "mx", "right": "ny"},
    {"p": None, "m": "p", "n": "p", "x": "m", "y": "n", "o": None},
    {"g": "p", "top": "p", "left": "m", "right": "n"},
)
"""p orders g for two sites two levels below it, and is no member itself."""


@pytest.mark.parametrize("level", ["agreed", "safe"])
def test_a_restarted_primary_that_is_no_member_learns_again_what_is_final(level: str) -> None:
    """Its children are relays, so nobody that has something to report hears of its restart."""
    network = Network(DEEP, Options(deliver=level, on_failure="wait"))
    network.drop = lambda source, peer, frame: (
        source == "p" and peer == "o" and isinstance(frame, Data)
    )
    network.submit("o", "g", b"x")
    network.run(100)
    assert network.stages("o") == ["accepted", "ordered"]  # only word of its stability is lost
    network.crash("p")
    network.drop = lambda *_: False
    network.run(100)
    network.start("p")
    network.run(5000)
    assert network.stages("o") == ["accepted", "ordered", "stable"]
    assert network.sites["p"].retention.held() == 0


OUTSIDE = tree({"g": "ac"}, {"a": None, "c": "a", "o": None}, {"g": "a"})


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_restarted_site_whose_first_frames_are_lost_asks_again_when_it_hears_a_peer(
    tracker: str,
) -> None:
    """To a site that starts, the first frame of any peer looks as if the peer had restarted, too.
    Here it is an old acknowledgement. It ended the message that was to be sent again, so nothing
    was left that told the peer of the restart, and the peer told nothing again."""
    network = Network(OUTSIDE, Options(stability=tracker, on_failure="wait"))
    old: list[Frame] = []

    def note(source: str, peer: str, frame: Frame) -> bool:
        if (source, peer) == ("a", "o") and isinstance(frame, Ack):
            old.append(frame)
        return False

    network.crash("a")  # so that its boot is not the one that a new link expects
    network.start("a")
    network.drop = note
    network.submit("o", "g", b"x")
    network.run(5_000)
    assert network.stages("o") == ["accepted", "ordered", "stable"]
    network.crash("o")
    network.drop = lambda source, *_: source == "o"
    network.start("o")
    network.sites["o"].receive(network.now, "a", old[0])
    network.drop = lambda *_: False
    network.drain("o")
    network.run(5_000)
    assert network.stages("o")[3:] == ["ordered", "stable"]
    assert network.sites["o"].quiet()


CAUSAL = tree(
    {"z": "rqc", "x": "rs", "m": "qc"},
    {"r": None, "q": "r", "c": "q", "s": "r", "o": None},
    {"z": "r", "x": "r", "m": "q"},
)


@pytest.mark.parametrize("checkpoint", [1, 256])
@pytest.mark.parametrize("level", ["agreed", "safe"])
def test_a_restart_does_not_cut_off_the_causal_past(level: str, checkpoint: int) -> None:
    """o sends to z, which is slow, then to x; s, no member of z, delivers x, restarts and sends."""
    limits = Limits(checkpoint_batches=checkpoint)
    network = Network(CAUSAL, Options(deliver=level, on_failure="wait", causal=True, limits=limits))
    network.drop = lambda source, peer, _: (source, peer) == ("r", "q")
    network.submit("o", "z", b"cause")
    network.submit("o", "x", b"link")
    network.run(200)
    if checkpoint == 1:  # one more, so that s folds the first into a checkpoint
        network.submit("r", "x", b"more")
        network.run(200)
        assert network.sites["s"].retention.position > 0
    assert b"link" in network.delivered["s"]
    network.crash("s")
    network.start("s")
    network.submit("s", "m", b"effect")
    network.run(200)
    assert network.delivered["c"] == []
    network.drop = lambda *_: False
    network.run(5000)
    assert network.delivered["c"] == [b"cause", b"effect"]


def test_an_acknowledgement_makes_the_next_items_leave_at_once() -> None:
    """o, an outsider, queues ten windows; nothing else but acknowledgements comes back to it."""
    structure = tree({"g": "ab"}, {"a": None, "b": "a", "o": None}, {"g": "a"})
    network = Network(structure, Options(deliver="agreed", limits=Limits(link_items=20)))
    network.drop = lambda source, peer, frame: (
        (source, peer) == ("a", "o") and isinstance(frame, Data)
    )
    for _ in range(200):
        submit(network.sites["o"], 0, "g", [b"x"])
    network.drain("o")
    network.run(150)  # less than one time to send again
    assert len(network.delivered["a"]) == 200


def test_a_held_batch_is_acknowledged_when_it_is_placed() -> None:
    """r's message comes late to p, which holds o's until then; c's silence keeps all unstable."""
    structure = tree(
        {"top": "rpco", "low": "pc"},
        {"r": None, "p": "r", "c": "p", "o": "r"},
        {"top": "r", "low": "p"},
    )
    network = Network(structure, Options(deliver="agreed", causal=True))
    network.drop = lambda source, peer, _: (source, peer) == ("r", "p") or peer == "c"
    network.submit("r", "top", b"cause")
    network.run(150)
    network.submit("o", "low", b"effect")
    network.run(30)
    assert network.delivered["p"] == []
    network.drop = lambda _, peer, frame: peer == "c" or is_submission(frame)
    network.run(40)
    assert network.delivered["p"] == [b"cause", b"effect"]
    assert network.stages("o") == ["accepted", "ordered"]


def test_a_batch_of_no_messages_is_refused() -> None:
    """No window would bound such batches, no codec takes them, and their seq is the next one's."""
    with pytest.raises(ConfigError, match="a batch of no messages"):
        submit(Engine("a", PAIR, Options()), 0, "g", [])


@pytest.mark.parametrize("sites", [["nosuch"], ["a", "nosuch"], []])
def test_listed_sites_that_are_unknown_or_none_are_refused_before_anything_is_kept(
    sites: list[str],
) -> None:
    site = Engine("a", PAIR, Options())
    with pytest.raises(ConfigError, match="sites: "):
        submit_to(site, 0, sites, [b"x"])
    assert site.drain().persist == ()


@pytest.mark.parametrize(
    "wrong",
    [
        Batch("b", 1, "other", 1, 1, pack_payloads([b"x"])),
        Batch("b", 1, "@0123", 1, 1, pack_payloads([b"x"]), (), ("nosuch",)),
        Batch("b", 1, "g", 1, 2, pack_payloads([b"x"])),
    ],
    ids=["unknown group", "unknown sites", "not whole"],
)
def test_a_submission_that_cannot_be_placed_is_neither_kept_nor_acknowledged(wrong: Batch) -> None:
    """A record of it would stop every restart; an acknowledgement without one, the lane."""
    site = Engine("a", PAIR, Options(on_failure="wait"))
    site.receive(0, "b", Data(1, 1, UP, 1, (Submit(wrong),)))
    box = site.drain()
    assert box.persist == ()
    site.alarm(MILLISECOND * 10)
    assert [peer for peer, _ in box.mistakes] == ["b"]
    assert not [frame for _, frame in site.drain().then_send if isinstance(frame, Ack)]
    submit(site, MILLISECOND * 20, "g", [b"others go on"])
    assert len(site.drain().persist) == 2


def test_what_is_forgotten_makes_a_checkpoint_although_little_is_held_at_a_time() -> None:
    """Once much was held, so it takes much to look again; and whoever asks how much is held folds
    what is not needed before it gathers."""
    network = Network(PAIR, Options(limits=Limits(checkpoint_batches=4)))
    network.drop = lambda source, *_: source == "b"
    for _ in range(100):
        network.submit("a", "g", b"x")
        network.run(10)
    network.drop = lambda *_: False
    network.run(5000)
    most = 0
    for _ in range(1000):
        network.submit("a", "g", b"x")
        network.run(100)
        assert network.sites["a"].retention.held() < 3
        most = max(most, len(network._stores["a"][1]))
    assert most < 1000  # records that a restart would have to read
