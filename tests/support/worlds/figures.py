"""[TOM] Figure 2, reconstructed, and sites on it whose frames a test can hold back.

The figure is not in the text that we have. The prose gives: the root r with its only child d; the
sources x, y and z at depth 5 (labels of five symbols); x and y meet at c, c and z at d; receivers
x, y, z, a, b, c, d, e, f. Assumed: a and b are the parents of x and y, f and e the way of z up.
"""

from collections.abc import Callable

from ordercast.core.engine import Engine
from ordercast.core.outbox import Checkpoint, EngineBox, Record
from ordercast.core.structure import Structure
from ordercast.forest.forest import Forest
from ordercast.forest.labels import Labels
from ordercast.model.groups import GroupTable
from ordercast.model.options import MILLISECOND, Options
from ordercast.wire.frames import Data, Frame, Item
from support.worlds.alone import submit

FIGURE_2_PARENT = {
    "r": None, "d": "r", "c": "d", "e": "d", "a": "c", "b": "c", "x": "a", "y": "b", "f": "e",
    "z": "f", "out": None,
}  # fmt: skip
FIGURE_2_GROUPS = {
    "rec": ["x", "y", "z", "a", "b", "c", "d", "e", "f"],
    "left": ["x", "y", "a", "b"],
    "right": ["e", "f", "z"],
}


def figure_2() -> Structure:
    table = GroupTable.of(FIGURE_2_GROUPS, sites=sorted(FIGURE_2_PARENT))
    labels = Labels.of(FIGURE_2_PARENT)
    primary = {g: labels.ordering_node(members) or "" for g, members in FIGURE_2_GROUPS.items()}
    return Structure(1, table, Forest("balanced", FIGURE_2_PARENT, primary))


Lost = Callable[[str, str, Item], bool]


class Stage:
    """All sites, an orderly network that loses what `lost` says, and what their stores have."""

    def __init__(self, structure: Structure, options: Options, protocol: str = "tom") -> None:
        self.structure, self.options, self.protocol = structure, options, protocol
        self.now = 0
        self.lost: Lost = lambda *_: False
        self.frames: list[tuple[str, str, Frame]] = []
        self.carried: list[tuple[str, str, Data]] = []  # every data frame that arrived
        self.delivered: dict[str, list[tuple[str, str, int]]] = {}
        self.records: dict[str, list[Record]] = {}
        self.checkpoints: dict[str, Checkpoint] = {}
        self.sites: dict[str, Engine] = {}
        for name in structure.table.sites:
            self.delivered[name], self.records[name] = [], []
            self.sites[name] = Engine(name, structure, options, protocol=protocol)

    def send(self, origin: str, group: str, payload: bytes = b"p") -> None:
        submit(self.sites[origin], self.now, group, [payload])
        self.drain(origin)

    def drain(self, name: str) -> EngineBox:
        box = self.sites[name].drain()
        self.records[name] += box.persist
        if box.forget is not None:
            self.checkpoints[name], self.records[name] = box.forget, []
        self.delivered[name] += [
            (d.origin, d.group, d.seq) for batch in box.deliver for d in batch.deliveries()
        ]
        self.frames += [(name, peer, frame) for peer, frame in (*box.send, *box.then_send)]
        return box

    def carry(self) -> None:
        """All that is under way, without any time passing."""
        while self.frames:
            source, target, frame = self.frames.pop(0)
            if isinstance(frame, Data):
                if any(self.lost(source, target, item) for item in frame.items):
                    continue
                self.carried.append((source, target, frame))
            self.sites[target].receive(self.now, source, frame)
            self.drain(target)

    def wait(self, milliseconds: int) -> None:
        """In steps of ten."""
        self.carry()
        for _ in range(milliseconds // 10):
            self.now += 10 * MILLISECOND
            for name, site in self.sites.items():
                site.alarm(self.now)
                self.drain(name)
            self.carry()

    def restart(self, name: str, *, checkpoint: bool = False, records: int | None = None) -> Engine:
        """Of its store: folded into a checkpoint now, or the first so many records of it only."""
        before = self.sites[name]
        if checkpoint:
            before.retention.held()
            self.checkpoints[name], self.records[name] = before.retention.whole(), []
        if records is not None:
            del self.records[name][records:]
        self.sites[name] = Engine(
            name, self.structure, self.options, protocol=self.protocol, boot=before.boot + 1,
            checkpoint=self.checkpoints.get(name), records=self.records[name],
        )  # fmt: skip
        self.sites[name].start(self.now)
        self.drain(name)
        return self.sites[name]

    def items(self, kind: type[Item]) -> list[tuple[str, str]]:
        """From whom to whom items of a kind arrived."""
        return [(s, t) for s, t, frame in self.carried for i in frame.items if type(i) is kind]
