"""The built-in partitioner: line the nodes up, then cut the line where few edges cross.

Lining up is recursive bisection without coordinates: a half is grown from a far end, always by the
node that has most of its edges in it already, so that clusters of groups stay together; each piece
is grown from the side of the piece before it, so that neighbours in the line are neighbours in the
table. Nodes are first joined in pairs a few times, which makes this cheap; afterwards each node
moves to the middle of its groups, which gives back the precision. The cuts are then optimal for
this line. No randomness, no numpy, no recursion.
"""

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush

from ordercast.forest.hypergraph import Hypergraph

_COARSE = 2_000  # nodes below which joining in pairs saves nothing
_ROUNDS = 3  # of joining in pairs
_SMALL_EDGE = 20  # pins; larger edges say little about which two nodes belong together
_PIECE = 4  # nodes that are not bisected any more
_WIDE = 4  # times a piece's nodes: an edge with more pins does not shape the piece
_WIDEST = 512  # children of a cluster
_SMOOTHING = 3  # times that each node moves to the middle of its groups
_NEAR = 16  # edges longer than this fraction of the line do not count in that


class LineupCutter:
    def __init__(self, graph: Hypergraph) -> None:
        self._graph = graph
        self._line = line_up(graph)

    def cut(self, sizes: Sequence[float], parts: int, tolerance: float) -> list[int]:
        if parts <= 1:
            return [0] * self._graph.nodes
        return cut_line(self._graph, self._line, sizes, sum(sizes, 0.0) / parts * (1 + tolerance))

    def cut_under(self, cap: float) -> list[int]:
        """A cluster for each node: runs of the line whose heads carry no more than the cap."""
        return cut_line_under(self._graph, self._line, cap)


def line_up(graph: Hypergraph) -> list[int]:
    """All nodes in an order in which those of an edge are near each other."""
    coarse, joined = graph, list(range(graph.nodes))
    for _ in range(_ROUNDS):
        if coarse.nodes < _COARSE:
            break
        label, count = _pairs(coarse)
        coarse = coarse.contracted(label, count)
        joined = [label[node] for node in joined]
    scale = graph.nodes / coarse.nodes
    place = [0.0] * coarse.nodes
    for at, node in enumerate(_bisected(coarse)):
        place[node] = at * scale
    return _smoothed(graph, [place[node] for node in joined])


def _pairs(graph: Hypergraph) -> tuple[list[int], int]:
    """Join each node with the free node it shares most with; small edges bind most."""
    label = [-1] * graph.nodes
    count = 0
    for node in range(graph.nodes):
        if label[node] >= 0:
            continue
        label[node] = count
        bond: dict[int, float] = {}
        for edge in graph.edges_of[node]:
            pins = graph.pins[edge]
            if len(pins) <= _SMALL_EDGE:
                strength = graph.weights[edge] / (len(pins) - 1)
                for other in pins:
                    if label[other] < 0:
                        bond[other] = bond.get(other, 0.0) + strength
        if bond:
            label[min(bond, key=lambda other: (-bond[other] / graph.work[other], other))] = count
        count += 1
    return label, count


def _smoothed(graph: Hypergraph, place: list[float]) -> list[int]:
    """Nodes by place, after each has moved to the middle of its groups a few times.

    Edges between distant places are left out: where a circle was cut open they would draw its two
    ends to the middle of the line.
    """
    far = graph.nodes / _NEAR
    order: list[int] = []
    for _ in range(_SMOOTHING):
        total, pull = [0.0] * graph.nodes, [0.0] * graph.nodes
        for pins, weight in zip(graph.pins, graph.weights, strict=True):
            places = [place[node] for node in pins]
            if max(places) - min(places) <= far:
                middle = sum(places) / len(places) * weight
                for node in pins:
                    total[node] += middle
                    pull[node] += weight
        for node, strength in enumerate(pull):
            if strength > 0:
                place[node] = total[node] / strength
        order = sorted(range(graph.nodes), key=lambda node: (place[node], node))
        for at, node in enumerate(order):
            place[node] = float(at)
    return order


def _bisected(graph: Hypergraph) -> list[int]:
    """The order that bisecting again and again leads to, from left to right."""
    place = [0] * graph.nodes  # of each node: where its piece begins in the line
    piece = [0] * graph.nodes
    line: list[int] = []
    waiting = [list(range(graph.nodes))]
    number = 0
    while waiting:
        nodes = waiting.pop()
        begin = len(line)
        number += 1
        for node in nodes:
            piece[node] = number
        start = _first(graph, nodes, piece, place, begin)
        grown = _grown(graph, nodes, piece, start, len(nodes) > _PIECE)
        if len(grown) == len(nodes):
            line.extend(grown)
            for at, node in enumerate(grown, begin):
                place[node] = at
            continue
        left = dict.fromkeys(grown)
        right = [node for node in nodes if node not in left]
        for node in grown:
            place[node] = begin
        for node in right:
            place[node] = begin + len(grown)
        waiting += [right, grown]
    return line


def _first(
    graph: Hypergraph, nodes: Sequence[int], piece: Sequence[int], place: Sequence[int], begin: int
) -> int:
    """The node from which a piece is grown: next to the piece on its left, else far from the one on
    its right."""
    width = len(nodes)
    left, right = (0.0, nodes[0]), (0.0, nodes[0])
    own = piece[nodes[0]]
    for node in nodes:
        to_left = to_right = 0.0
        for edge in graph.edges_of[node]:
            if len(graph.pins[edge]) > _SMALL_EDGE:
                continue
            for other in graph.pins[edge]:
                if piece[other] != own:
                    if place[other] >= begin:
                        to_right += graph.weights[edge]
                    elif place[other] >= begin - width:
                        to_left += graph.weights[edge]
        if to_left > left[0]:
            left = (to_left, node)
        if to_right > right[0]:
            right = (to_right, node)
    return left[1] if left[0] > 0 else _farthest(graph, nodes, piece, right[1])


def _farthest(graph: Hypergraph, nodes: Sequence[int], piece: Sequence[int], start: int) -> int:
    own = piece[start]
    widest = _SMALL_EDGE + _WIDE * len(nodes)
    reached, used = {start: None}, dict[int, None]()
    queue = [start]
    for node in queue:  # grows while it is read: a breadth-first search
        for edge in graph.edges_of[node]:
            if edge not in used and len(graph.pins[edge]) <= widest:
                used[edge] = None
                for other in graph.pins[edge]:
                    if piece[other] == own and other not in reached:
                        reached[other] = None
                        queue.append(other)
    if len(queue) < len(nodes):  # not all in one: whatever cannot be reached is far away
        return next(node for node in nodes if node not in reached)
    return queue[-1]


def _grown(
    graph: Hypergraph, nodes: Sequence[int], piece: Sequence[int], start: int, half: bool
) -> list[int]:
    """The nodes in the order they join a growing set, up to half of the work if `half`."""
    own = piece[start]
    widest = _SMALL_EDGE + _WIDE * len(nodes)
    goal = sum([graph.work[node] for node in nodes], 0.0) / 2 if half else float("inf")
    inside = dict.fromkeys(nodes, 0.0)  # the weight of the edges that are in the set already
    touched: dict[int, None] = {}
    heap = [(-1.0, start)]
    rest = iter(nodes)
    grown: list[int] = []
    total = 0.0
    while len(grown) < len(nodes) and total < goal:
        if heap:
            node = heappop(heap)[1]
        else:
            node = next(node for node in rest if node in inside)
        if node not in inside:
            continue
        del inside[node]
        grown.append(node)
        total += graph.work[node]
        for edge in graph.edges_of[node]:
            if edge in touched or len(graph.pins[edge]) > widest:
                continue
            touched[edge] = None
            weight = graph.weights[edge]
            for other in graph.pins[edge]:
                if piece[other] == own and other in inside:
                    inside[other] += weight
                    heappush(heap, (-inside[other] / graph.work[other], other))
    return grown


def cut_line_under(graph: Hypergraph, line: Sequence[int], cap: float) -> list[int]:
    """Runs under the cap so that least crosses; a node that is too much by itself stays alone."""
    crossing = _crossing(graph, line)
    cost, came_from = [0.0], [0]
    for end in range(1, graph.nodes + 1):
        begin = best = end - 1
        load, seen = 0.0, dict[int, None]()
        while begin >= 0 and end - begin <= _WIDEST:
            node = line[begin]
            load += graph.work[node]
            for edge in graph.edges_of[node]:
                if edge not in seen:
                    seen[edge] = None
                    load += graph.weights[edge]
            if load > cap and begin < end - 1:
                break
            if cost[begin] <= cost[best]:
                best = begin
            begin -= 1
        cost.append(cost[best] + crossing[end])
        came_from.append(best)
    return _labels(line, came_from)


def _labels(line: Sequence[int], came_from: Sequence[int]) -> list[int]:
    label = [0] * len(line)
    end, part = len(line), 0
    while end > 0:
        for node in line[came_from[end] : end]:
            label[node] = part
        end, part = came_from[end], part + 1
    return label


def cut_line(
    graph: Hypergraph, line: Sequence[int], sizes: Sequence[float], limit: float
) -> list[int]:
    """A part for each node: runs of the line of size `limit` at most, so that least crosses."""
    crossing = _crossing(graph, line)
    filled = [0.0]
    for node in line:
        filled.append(filled[-1] + sizes[node])
    cost, came_from = [0.0], [0]
    begins = deque([0])  # where the last part may begin, cheapest first
    for end in range(1, len(line) + 1):
        while begins[0] < end - 1 and filled[end] - filled[begins[0]] > limit:
            begins.popleft()
        cost.append(cost[begins[0]] + crossing[end])
        came_from.append(begins[0])
        while begins and cost[begins[-1]] > cost[end]:
            begins.pop()
        begins.append(end)
    return _labels(line, came_from)


def _crossing(graph: Hypergraph, line: Sequence[int]) -> list[float]:
    """The weight of the edges between each place in the line and the one before it."""
    at = [0] * len(line)
    for place, node in enumerate(line):
        at[node] = place
    crossing = [0.0] * (len(line) + 1)
    for pins, weight in zip(graph.pins, graph.weights, strict=True):
        places = [at[node] for node in pins]
        crossing[min(places) + 1] += weight
        crossing[max(places) + 1] -= weight
    for place in range(len(line)):
        crossing[place + 1] += crossing[place]
    return crossing
