"""Randomness of a simulation: independent streams of integers, all drawn from one seed.

Each purpose has a stream of its own, so that turning one kind of fault off leaves the workload and
the network's delays as they were. Only `getrandbits` is used: it is the same on every machine, and
no float and no function of the C library takes part.
"""

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

ONE = 1 << 32  # a probability of 1, in the units of `threshold`


def threshold(probability: float) -> int:
    """A probability in units of 2^-32; exact, since scaling by a power of two does not round."""
    return int(probability * ONE)


class Chance:
    """Integers for one purpose. `bits(k)` is the source of all of them."""

    def __init__(self, seed: int, purpose: str) -> None:
        digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
        self.bits = random.Random(int.from_bytes(digest, "big")).getrandbits

    def below(self, count: int) -> int:
        """0 … count-1; biased by less than count / 2^32."""
        return (self.bits(32) * count) >> 32

    def between(self, least: int, most: int) -> int:
        return least + ((self.bits(32) * (most - least + 1)) >> 32)

    def chance(self, probability: float) -> bool:
        return self.bits(32) < threshold(probability)

    def choice(self, items: Sequence[T]) -> T:
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        drawn = list(items)
        for last in range(len(drawn) - 1, 0, -1):
            other = self.below(last + 1)
            drawn[last], drawn[other] = drawn[other], drawn[last]
        return drawn

    def sample(self, items: Sequence[T], count: int) -> list[T]:
        return self.shuffled(items)[:count]

    def exponential(self, mean: int) -> int:
        """Exponentially distributed, by von Neumann's comparison of uniforms: no logarithm.

        A uniform followed by a run of falling ones is kept when the run's length is odd; every
        even run before adds one mean.
        """
        bits = self.bits
        whole = 0
        while True:
            first = last = bits(32)
            length = 1
            while (drawn := bits(32)) < last:
                last = drawn
                length += 1
            if length & 1:
                return whole * mean + ((first * mean) >> 32)
            whole += 1
