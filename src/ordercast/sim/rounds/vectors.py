"""Arrays by sender ([STAB] §3.1) as NumPy vectors: entry j is the last message had from member j.

Vectors are shared until one is written: in a group of 20,000 most members hold the same one, and
the least of a vector and itself is itself.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from ordercast.core.stability.arrays import COUNT_BYTES
from ordercast.model.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Vector: TypeAlias = npt.NDArray[np.uint32]


def numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ConfigError(
            "the stability protocols of [STAB] are simulated with NumPy, which the extra"
            " 'stability' brings: pip install 'ordercast[stability]'"
        ) from None
    return numpy


class Vectors:
    def __init__(self) -> None:
        self._np = numpy()

    def least(self, arrays: Iterable["Vector"]) -> "Vector":
        distinct = list({id(array): array for array in arrays}.values())
        if len(distinct) == 1:
            return distinct[0]
        least: Vector = self._np.minimum.reduce(distinct)
        return least

    def size(self, array: "Vector") -> int:
        return COUNT_BYTES * len(array)


class Received:
    """A member's own vector, which others may hold as it was: it is copied before it is changed."""

    __slots__ = ("_shared", "_vector")

    def __init__(self, vector: "Vector") -> None:
        self._vector = vector
        self._shared = True

    def now(self) -> "Vector":
        """To keep: it will not change."""
        self._shared = True
        return self._vector

    def seen(self) -> "Vector":
        """To look at and let go."""
        return self._vector

    def set(self, sender: int, number: int) -> None:
        if self._shared:
            self._vector = self._vector.copy()
            self._shared = False
        self._vector[sender] = number

    def get(self, sender: int) -> int:
        return int(self._vector[sender])
