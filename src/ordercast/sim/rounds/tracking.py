"""One round of a stability protocol on the tree network of [STAB] §5.1, measured.

Members sit at the nodes of the tree. The protocol's own tree is the network's (`same`), or the same
tree with the members dealt out at random over the nodes (`shuffled`), which [STAB] §5.3.1 leaves
for later. On `wan` links the root's children are in other regions of the world (§7); on `wide` ones
every member is in a region drawn by lot, so that many links are long. An array has an entry for
each sender (`senders`), or one number of a total order (`total`: four bytes, §3.1, §7).

Some members are behind, each in a few senders' messages. Every claim that messages are stable is
compared with the truth. A round fails if it calls a message stable that some member lacks. It also
fails if it does not end at every member with exactly the messages that all have.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ordercast.core.stability.arrays import Arrays
from ordercast.core.stability.protocols import PROTOCOLS
from ordercast.core.stability.rounds import (
    AckMessage,
    Part,
    RoundHost,
    RoundMessage,
    RoundPaths,
    StartMessage,
)
from ordercast.model.errors import ConfigError
from ordercast.model.notation import require_known
from ordercast.model.options import MILLISECOND
from ordercast.sim.chance import Chance
from ordercast.sim.rounds.tree import NetworkTree, TreeShape
from ordercast.sim.rounds.tree_network import (
    ACK,
    EVERYONE,
    INFO,
    START,
    CostModel,
    Packet,
    TreeNetwork,
)
from ordercast.sim.rounds.vectors import Received, Vectors, numpy
from ordercast.sim.wan import BUILT_IN

if TYPE_CHECKING:
    from ordercast.sim.rounds.vectors import Vector

PLACEMENTS = ("same", "shuffled")
LINKS = ("lan", "wan", "wide")
ARRAYS = ("senders", "total")
KINDS = ("start", "ack", "info")
ROLES = ("root", "internal", "leaf")
FULL_DIST_MOST = 5_000  # members: beyond that a round of n² messages takes minutes
_SENT = 10  # messages from each member; a member that is not behind has received all of them
_BEHIND = 8  # members

Parts = Callable[[str], type[Part[Any, Any]]]


class Unsafe(Exception):
    """Something was called stable that some member does not have; never the user's mistake."""


class Unfinished(Exception):
    """A round did not end at every member with what all have."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is tracked where."""

    protocol: str
    shape: TreeShape
    placement: str = PLACEMENTS[0]
    links: str = LINKS[0]
    array: str = ARRAYS[0]
    router_ms: int = 1

    def check(self) -> None:
        require_known(self.protocol, PROTOCOLS, "protocol")
        require_known(self.placement, PLACEMENTS, "placement")
        require_known(self.links, LINKS, "links")
        require_known(self.array, ARRAYS, "array")
        if self.protocol == "full_dist" and self.shape.n > FULL_DIST_MOST:
            raise ConfigError(
                f"full_dist: {self.shape.n:,} members would send {self.shape.n**2:,} messages"
                f" (at most {FULL_DIST_MOST:,} members)"
            )


@dataclass(frozen=True, slots=True)
class Tracked:
    """`rtt_ns` is the first member's; `processed` is by role, the least and the most messages that
    a member has sent and received; `on_hops` and `sent` are by kind."""

    setting: Setting
    members: int
    height: int
    rtt_ns: int
    slowest_rtt_ns: int
    rounds: int
    on_hops: Mapping[str, int]
    sent: Mapping[str, int]
    longest_link: int
    longest_cpu: int
    processed: Mapping[str, tuple[int, int]]

    @property
    def messages_on_hops(self) -> int:
        return sum(self.on_hops.values())

    def as_json(self) -> dict[str, Any]:
        nobody = (None, None)
        least = {role: self.processed.get(role, nobody)[0] for role in ROLES}
        most = {role: self.processed.get(role, nobody)[1] for role in ROLES}
        return {
            "protocol": self.setting.protocol,
            "members": self.members,
            "height": self.height,
            "rtt_ms": self.rtt_ns / 1e6,
            "slowest_rtt_ms": self.slowest_rtt_ns / 1e6,
            "messages_on_hops": self.messages_on_hops,
            "max_queue": {"link": self.longest_link, "cpu": self.longest_cpu},
            "rounds": self.rounds,
            "processed": most,
            "processed_least": least,
            "sent": dict(self.sent),
            "on_hops": dict(self.on_hops),
        }


def paths_of(tree: NetworkTree, placement: str, seed: int) -> RoundPaths[int]:
    """The protocol's circle and tree, members named by the nodes at which they sit."""
    at = list(range(tree.count))
    if placement == "shuffled":
        at = Chance(seed, "placement").shuffled(at)
    children = {
        at[node]: [at[child] for child in below] for node, below in enumerate(tree.children)
    }
    return RoundPaths([at[node] for node in tree.circle], children)


def distances(tree: NetworkTree, links: str) -> list[int]:
    """By node, of the link to its parent. `wan`: the root and its children are in different
    regions. `wide`: each node is in any region, the same ones for every run on so many nodes."""
    if links == LINKS[0]:
        return []
    here, *others = BUILT_IN.between
    found = [0] * tree.count
    if links == "wide":
        stream = Chance(tree.count, "regions")
        names = list(BUILT_IN.between)
        region = [names[stream.below(len(names))] for _ in range(tree.count)]
        for node in range(1, tree.count):
            found[node] = BUILT_IN.between[region[tree.parent[node]]][region[node]]
        return found
    for place, child in enumerate(tree.children[0]):
        found[child] = BUILT_IN.between[here][others[place % len(others)]]
    return found


def track(
    setting: Setting,
    seed: int,
    parts: Parts = PROTOCOLS.__getitem__,
    progress: Callable[[int, int], None] | None = None,
) -> Tracked:
    """A whole round. `parts`: makes the members of a protocol that is no tracker."""
    setting.check()
    return _Round(setting, seed, parts).run(progress)


class RoundMember(RoundHost[int, "Vector"]):
    """Sends over the tree network, and notes what it takes to measure a round."""

    __slots__ = (
        "_cause",
        "_depth",
        "deepest",
        "finished",
        "joined",
        "network",
        "node",
        "own",
        "seen",
        "size",
    )

    def __init__(self, node: int, network: TreeNetwork, received: Received, size: int) -> None:
        self.node = node
        self.network = network
        self.own = received
        self.size = size  # of an array, in bytes
        self.joined: int | None = None  # when it heard of the round first
        self.finished: int | None = None
        self.seen = [0, 0, 0]  # sent, by kind
        self.deepest = 0  # the longest chain of messages that ends with one of its own
        self._depth = 0
        self._cause = 0

    def received(self) -> "Vector":
        return self.own.now()

    def send(self, peer: int, message: "RoundMessage[Vector]") -> None:
        self._send(peer, message)

    def multicast(self, message: "RoundMessage[Vector]") -> None:
        self._send(EVERYONE, message)

    def _send(self, target: int, message: "RoundMessage[Vector]") -> None:
        kind = kind_of(message)
        self.seen[kind] += 1
        packet = Packet(self.node, target, kind, message, 1 + max(self._depth, self._cause))
        self.deepest = max(self.deepest, packet.depth)
        self.network.send(packet, 0 if kind == START else self.size)

    def hears(self, packet: Packet) -> None:
        if self.joined is None:
            self.joined = self.network.now
        self._cause = packet.depth
        if packet.kind != INFO:  # arrays that are waited for; an INFO is answered at once or never
            self._depth = max(self._depth, packet.depth)


def kind_of(message: "RoundMessage[Vector]") -> int:
    if isinstance(message, StartMessage):
        return START
    return ACK if isinstance(message, AckMessage) else INFO


class _TruthfulMember(RoundMember):
    __slots__ = ("truth",)

    truth: "Vector"

    def stable(self, array: "Vector") -> None:
        if (array > self.truth).any():
            raise Unsafe(f"member {self.node} is told that more is stable than every member has")
        if (array < self.truth).any():
            raise Unfinished(f"member {self.node} is told that less is stable than all have")
        self.finished = self.network.now


class _Round:
    def __init__(self, setting: Setting, seed: int, parts: Parts) -> None:
        self.setting = setting
        self.tree = tree = setting.shape.build(seed)
        self.paths = paths_of(tree, setting.placement, seed)
        self.heard = [0] * tree.count
        far = distances(tree, setting.links)
        costs = CostModel(router=setting.router_ms * MILLISECOND)
        self.network = TreeNetwork(tree, self._hear, far, costs)
        arrays: Arrays[Vector] = Vectors()
        received = _received(tree.count, seed, 1 if setting.array == "total" else tree.count)
        truth = arrays.least([each.now() for each in received])
        size = arrays.size(truth)
        self.members = [
            _TruthfulMember(node, self.network, received[node], size) for node in range(tree.count)
        ]
        make = parts(setting.protocol)
        self.parts = [make(each.node, self.paths, arrays, each) for each in self.members]
        self.receivers = [part.receive for part in self.parts]
        for member in self.members:
            member.truth = truth

    def _hear(self, node: int, packet: Packet) -> None:
        self.heard[node] += 1
        self.members[node].hears(packet)
        self.receivers[node](packet.source, packet.message)

    def run(self, progress: Callable[[int, int], None] | None) -> Tracked:
        first = self.members[self.paths.first]
        if self.setting.protocol in ("full_dist", "train"):
            first.joined = 0  # there is no START: it takes part from the beginning
        self.parts[first.node].begin()
        self.network.run(progress=progress)
        times = []
        for member in self.members:
            if member.finished is None or member.joined is None:
                raise Unfinished(f"member {member.node} was never told what is stable")
            times.append(member.finished - member.joined)
        return Tracked(
            setting=self.setting,
            members=self.tree.count,
            height=self.tree.height,
            rtt_ns=times[first.node],
            slowest_rtt_ns=max(times),
            rounds=max(member.deepest for member in self.members),
            on_hops=dict(zip(KINDS, self.network.hops, strict=False)),
            sent={
                name: sum(member.seen[kind] for member in self.members)
                for kind, name in enumerate(KINDS)
            },
            longest_link=self.network.longest_link,
            longest_cpu=self.network.longest_cpu,
            processed=self._processed(),
        )

    def _processed(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for member, heard in zip(self.members, self.heard, strict=True):
            node = member.node
            if node == self.paths.first:
                role = "root"
            else:
                role = "internal" if self.paths.children[node] else "leaf"
            done = sum(member.seen) + heard
            least, most = found.get(role, (done, done))
            found[role] = (min(least, done), max(most, done))
        return found


def _received(count: int, seed: int, entries: int) -> list[Received]:
    """All members hold one vector, except a few that are behind."""
    np = numpy()
    stream = Chance(seed, "behind")
    everything = np.full(entries, _SENT, dtype=np.uint32)
    received = [Received(everything) for _ in range(count)]
    for _ in range(_BEHIND):
        received[stream.below(count)].set(stream.below(entries), stream.below(_SENT))
    return received
