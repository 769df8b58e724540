"""The state of an object as nested tuples, so that equal states can be found again."""

from collections import deque
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from ordercast.core.epochs.layout import Layout
from ordercast.core.epochs.packing import pack_layout
from ordercast.core.structure import Structure, Tellers
from ordercast.model.options import Options

_PLAIN = frozenset({type(None), bool, int, str, bytes, float})
_PLANS: dict[type, tuple[str, ...]] = {}


def canonical(value: Any) -> Any:
    """What an object is made of, as nested tuples: equal for equal states, whatever is shared."""
    return _parts(value, {})


def _parts(value: Any, above: dict[int, int]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list or kind is deque:
        return tuple([_parts(item, above) for item in value])
    if isinstance(value, dict):
        return tuple([(_parts(k, above), _parts(v, above)) for k, v in value.items()])
    if kind is set or kind is frozenset:
        return tuple(sorted(value))
    if kind is Layout:
        return pack_layout(value)
    if kind is Structure or kind is Tellers:
        return value.epoch
    plan = _PLANS.get(kind)
    if plan is None:
        plan = _PLANS[kind] = _plan(value)
    if not plan:
        return getattr(value, "__name__", "")
    if id(value) in above:
        return ("above", len(above) - above[id(value)])
    above[id(value)] = len(above)
    names = vars(value) if plan == ("__dict__",) else plan
    parts = (kind.__name__, *[_parts(getattr(value, name), above) for name in names])
    del above[id(value)]
    return parts


def _plan(value: Any) -> tuple[str, ...]:
    """The attributes that make up a value of this type; none: it has no state of its own."""
    if callable(value) or isinstance(value, Options):
        return ()
    if isinstance(value, msgspec.Struct):
        return value.__struct_fields__
    if is_dataclass(value):
        return tuple(f.name for f in fields(value))
    if hasattr(value, "__dict__"):
        return ("__dict__",)
    return tuple(name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
