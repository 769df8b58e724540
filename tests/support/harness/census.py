"""How much running objects hold: the lengths of all containers below them, by whose attribute it
is. A container that gains an entry per epoch, list or connection, and never loses one, shows as a
length that grows with the rounds of a test."""

import asyncio
import types
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

_SEQUENCES = (list, tuple, deque, set, frozenset)
_LEAVES = (
    type(None), bool, int, float, str, bytes, type, types.ModuleType, types.FunctionType,
    asyncio.AbstractEventLoop, asyncio.Future,
)  # fmt: skip


def lengths_of(roots: Iterable[Any], stop: Iterable[Any] = ()) -> Counter[str]:
    """The sum of the lengths of all containers that are reached from `roots` through attributes of
    this library's objects, by `Class.attribute`. Nothing is looked for below `stop`."""
    lengths: Counter[str] = Counter()
    seen: dict[int, Any] = {id(one): one for one in stop}  # it also keeps them alive
    todo: list[tuple[Any, str]] = [(root, type(root).__name__) for root in roots]
    while todo:
        found, name = todo.pop()
        if isinstance(found, _LEAVES) or id(found) in seen:
            continue
        seen[id(found)] = found
        if isinstance(found, types.MethodType):
            todo.append((found.__self__, "method"))
        elif isinstance(found, partial):
            todo += [(found.func, "partial"), (found.args, "partial")]
        elif isinstance(found, Mapping):
            lengths[name] += len(found)
            todo += [(one, f"{name}[]") for pair in found.items() for one in pair]
        elif isinstance(found, _SEQUENCES):
            lengths[name] += len(found)
            todo += [(one, f"{name}[]") for one in found]
        if type(found).__module__.startswith("ordercast."):
            todo += [(one, f"{type(found).__name__}.{key}") for key, one in _attributes(found)]
    return lengths


def _attributes(found: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(found, "__dict__", {}).items()
    for base in type(found).__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(found, name):
                yield name, getattr(found, name)
    for name in getattr(type(found), "__struct_fields__", ()):
        yield name, getattr(found, name)


def growing(counts: Sequence[Counter[str]], least: int) -> dict[str, list[int]]:
    """What has grown by `least` or more from each count to the next, with all its values."""
    names = sorted({name for count in counts for name in count})
    values = {name: [count[name] for count in counts] for name in names}
    return {name: of for name, of in values.items() if _grows(of, least)}


def _grows(values: list[int], least: int) -> bool:
    return all(after - before >= least for before, after in pairwise(values))
