"""The trees of [STAB] §4 and §5: complete, filled level by level, and random.

Nodes are numbered level by level from the left, the root is 0. `TreeShape` is a tree as it is asked
for: `b=4,p=5,z=4` is complete down to level p − 1, whose nodes have z children each; `n=20000,b=4`
(with a height p to hold it to, if given) is filled level by level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ordercast.model.errors import ConfigError
from ordercast.model.notation import count, pairs, require_known
from ordercast.sim.chance import Chance

MOST_NODES = 200_000
_MOST_DRAWS = 10_000  # of a random tree with a node at every level


@dataclass(frozen=True)
class NetworkTree:
    """`parent[0]` is −1."""

    parent: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.parent)

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        below: list[list[int]] = [[] for _ in self.parent]
        for node, above in enumerate(self.parent[1:], start=1):
            below[above].append(node)
        return tuple(map(tuple, below))

    @cached_property
    def depth(self) -> tuple[int, ...]:
        depth = [0] * self.count
        for node in range(1, self.count):
            depth[node] = depth[self.parent[node]] + 1
        return tuple(depth)

    @property
    def height(self) -> int:
        return self.depth[-1]

    @cached_property
    def circle(self) -> tuple[int, ...]:
        """[STAB] §5.3.1: odd levels from the left, even ones from the right."""
        levels: list[list[int]] = [[] for _ in range(self.height + 1)]
        for node, depth in enumerate(self.depth):
            levels[depth].append(node)
        return tuple(
            node
            for depth, level in enumerate(levels)
            for node in (level if depth % 2 else reversed(level))
        )


def near_complete(b: int, p: int, z: int) -> NetworkTree:
    """[STAB] §5.1: a b-ary tree of height p in which the nodes of level p − 1 have z children."""
    parent = [-1]
    level = range(1)
    for depth in range(1, p + 1):
        below = z if depth == p else b
        first = len(parent)
        parent += [node for node in level for _ in range(below)]
        level = range(first, len(parent))
    return NetworkTree(tuple(parent))


def filled(n: int, b: int) -> NetworkTree:
    """A b-ary tree of n nodes, level by level from the left."""
    return NetworkTree((-1, *((node - 1) // b for node in range(1, n))))


def random_tree(n: int, b: int, p: int, seed: int) -> NetworkTree:
    """[STAB] §5.4.2, mended by errata STAB-2: the other n − 1 nodes are on level k < p with
    probability b^k / (n − 1) and otherwise on level p, each below a random node of the level above.
    Where a level stays empty, all is drawn again."""
    stream = Chance(seed, "tree")
    for _ in range(_MOST_DRAWS):
        sizes = [1] + [0] * p
        for _node in range(n - 1):
            sizes[_level(stream.below(n - 1), b, p)] += 1
        if all(sizes):
            return _hung(sizes, stream)
    raise ConfigError(f"random-tree: no tree of n={n}, b={b}, p={p} has a node at every level")


def _level(drawn: int, b: int, p: int) -> int:
    width = 1
    for level in range(1, p):
        width *= b
        if drawn < width:
            return level
        drawn -= width
    return p


def _hung(sizes: Sequence[int], stream: Chance) -> NetworkTree:
    """Nodes of a level that share a parent are neighbours, in their parents' order."""
    parent = [-1]
    above = range(1)
    for size in sizes[1:]:
        first = len(parent)
        parent += sorted(above[stream.below(len(above))] for _ in range(size))
        above = range(first, len(parent))
    return NetworkTree(tuple(parent))


@dataclass(frozen=True, slots=True)
class TreeShape:
    """`z` 0: filled level by level up to `n` nodes. `seed`: of a random tree; None: the run's."""

    n: int
    b: int
    p: int
    z: int = 0
    random: bool = False
    seed: int | None = None

    def build(self, seed: int) -> NetworkTree:
        if self.random:
            return random_tree(self.n, self.b, self.p, seed if self.seed is None else self.seed)
        return near_complete(self.b, self.p, self.z) if self.z else filled(self.n, self.b)

    def text(self) -> str:
        if self.z:
            return f"b={self.b},p={self.p},z={self.z}"
        seed = "" if self.seed is None else f",seed={self.seed}"
        return f"n={self.n},b={self.b},p={self.p}{seed}"


def parse_tree(text: str, where: str = "tree") -> TreeShape:
    """`b=4,p=5,z=4`, or `n=20000,b=4,p=7`."""
    given = _given(text, ("n", "b", "p", "z"), where)
    if "b" not in given:
        raise ConfigError(f"{where}: b, the children of a node, is missing")
    b = given["b"]
    if "n" in given:
        if "z" in given:
            raise ConfigError(f"{where}: n and z exclude each other: n is filled level by level")
        n = given["n"]
        p = _height(n, b)
        if given.get("p", p) != p:
            raise ConfigError(f"{where}: n={n} with b={b} has height {p}, not p={given['p']}")
        return TreeShape(_limited(n, where), b, p)
    if "p" not in given:
        raise ConfigError(f"{where}: neither n, the members, nor p, the height, is given")
    p, z = given["p"], given.get("z", b)
    if p < 1:
        raise ConfigError(f"{where}: a tree of height p={p} has no children; write n=1")
    if z > b:
        raise ConfigError(f"{where}: z={z} is more than b={b}")
    return TreeShape(_limited(_up_to(b, p - 1, where) + z * b ** (p - 1), where), b, p, z)


def parse_random_tree(text: str, where: str = "random-tree") -> TreeShape:
    """`n=1109,b=4,p=5,seed=3`; without a seed, the run's."""
    given = _given(text, ("n", "b", "p", "seed"), where)
    for name in ("n", "b", "p"):
        if name not in given:
            raise ConfigError(f"{where}: {name} is missing (n=…,b=…,p=…,seed=…)")
    n, b, p = _limited(given["n"], where), given["b"], given["p"]
    if p < 1:
        raise ConfigError(f"{where}: a tree of height p={p} has no children to draw")
    least = _up_to(b, p - 1, where) + 1
    if n < least:
        raise ConfigError(f"{where}: n={n} does not reach level p={p} with b={b} (n ≥ {least})")
    return TreeShape(n, b, p, random=True, seed=given.get("seed"))


def _given(text: str, known: Sequence[str], where: str) -> dict[str, int]:
    found = {}
    for name, value in pairs(text, where):
        require_known(name, known, where)
        found[name] = count(value, f"{where}: {name}", least=0 if name in ("p", "seed") else 1)
    return found


def _limited(n: int, where: str) -> int:
    if n > MOST_NODES:
        raise ConfigError(f"{where}: {n:,} members are too many ({MOST_NODES:,})")
    return n


def _height(n: int, b: int) -> int:
    """Of a tree filled level by level; a tree with one child per node is a chain."""
    height, reached, level = 0, 1, 1
    while reached < n:
        if b == 1:
            return n - 1
        level *= b
        reached += level
        height += 1
    return height


def _up_to(b: int, p: int, where: str) -> int:
    """The nodes of the levels 0 … p, as far as the limit goes."""
    total = width = 1
    for _ in range(p):
        width *= b
        total = _limited(total + width, where)
    return total
