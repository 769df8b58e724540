"""What is wrong with bytes that the decoder refuses, in one line that names the field.

The decoder names a place by numbers (`$[5][0][1][4]`), because structs are arrays on the wire. Here
the same place is found in the bytes and in the types: `items[0].batch.seq is 0: expected …`.
"""

import re
import typing
from functools import cache
from types import NoneType
from typing import Any

import msgspec

_PLACE = re.compile(r" - at `\$((?:\[\d+\])+)`\Z")
_EXPLAINED = 65_536  # bytes: in a longer body a place is not looked for
_SHOWN = 80  # bytes of a value that is shown
_SIMPLE = (int, float, str, NoneType)  # shown; bytes may be secret
_LONGEST = 200  # characters of a complaint

_parts = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_value = msgspec.msgpack.Decoder().decode
_fields_of = cache(msgspec.structs.fields)
_hints_of = cache(typing.get_type_hints)


def complaint(error: Exception, body: bytes | memoryview, kind: Any, what: str) -> str:
    """One printable line about a body that could not be decoded as this type. It begins with the
    field that is wrong, or else with `what`."""
    text = str(error)
    found = _PLACE.search(text)
    line = f"{what}: {text}"
    if found is not None and len(body) <= _EXPLAINED:
        places = [int(place) for place in found[1][1:-1].split("][")]
        try:
            field = _named(bytes(body), kind, places)
        except (msgspec.DecodeError, LookupError, UnicodeDecodeError, RecursionError):
            pass  # what follows the wrong value cannot be read: the numbers must do
        else:
            line = f"{field}: {text[0].lower()}{text[1 : found.start()]}"
    return line.encode("unicode_escape").decode("ascii")[:_LONGEST]


def _named(data: bytes | msgspec.Raw, kind: Any, places: list[int]) -> str:
    """The field at these places, and its value if that is short."""
    field = ""
    for place in places:
        parts = _parts(data)
        name, kind = named_part(struct_of(kind, parts), place)
        field += name
        data = parts[place]
    field = field.removeprefix(".")
    if memoryview(data).nbytes > _SHOWN:
        return field
    value = _value(data)
    return f"{field} is {value!r}" if isinstance(value, _SIMPLE) else field


def struct_of(kind: Any, parts: list[msgspec.Raw]) -> Any:
    """The type of an array with these parts: without its annotations, and of several structs the
    one that has the tag."""
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    kinds = [one for one in typing.get_args(kind) if one is not NoneType]
    if typing.get_origin(kind) is tuple or not kinds:
        return kind
    if len(kinds) == 1:
        return kinds[0]
    tag = _value(parts[0])
    return next((one for one in kinds if one.__struct_config__.tag == tag), kinds[0])


def named_part(kind: Any, place: int) -> tuple[str, Any]:
    """The name of a part of a value of this type, and its type."""
    if typing.get_origin(kind) is tuple:
        args = typing.get_args(kind)
        return f"[{place}]", args[0] if args[-1] is ... else args[place]
    if issubclass(kind, tuple):
        name = kind._fields[place]
        return f".{name}", _hints_of(kind, include_extras=True)[name]
    if kind.__struct_config__.tag is not None:
        if place == 0:
            return ".tag", str
        place -= 1
    field = _fields_of(kind)[place]
    return f".{field.name}", field.type
