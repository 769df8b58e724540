"""The state of an object as bytes, so that equal states can be found again."""

import marshal
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
_NO_SHARING = 0  # marshal's format that depends on nothing but the values


def canonical(value: Any) -> bytes:
    """What an object is made of: the same bytes for equal states, whatever is shared."""
    return marshal.dumps(_parts(value, {}), _NO_SHARING)


def _parts(value: Any, above: dict[int, int]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list or kind is deque:
        return [v if type(v) in _PLAIN else _parts(v, above) for v in value]
    if isinstance(value, dict):
        return [
            (
                k if type(k) in _PLAIN else _parts(k, above),
                v if type(v) in _PLAIN else _parts(v, above),
            )
            for k, v in value.items()
        ]
    if kind is set or kind is frozenset:
        return sorted(value)
    if kind is Layout:
        return _parts(pack_layout(value), above)
    if kind is Structure or kind is Tellers:
        return value.epoch
    plan = _PLANS.get(kind)
    if plan is None:
        plan = _PLANS[kind] = _plan(value)
    if not plan:
        return getattr(value, "__name__", "")
    place = id(value)
    if place in above:
        return ("above", len(above) - above[place])
    above[place] = len(above)
    parts: list[Any] = [kind.__name__]
    for name in vars(value) if plan == ("__dict__",) else plan:
        part = getattr(value, name)
        parts.append(part if type(part) in _PLAIN else _parts(part, above))
    del above[place]
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
