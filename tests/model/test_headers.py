"""Headers keep their bounds, and are the same bytes whatever order they were given in."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import ConfigError, TooLarge
from ordercast.model.headers import HeaderItems, fault_in, header_items
from ordercast.model.limits import HEADER_CHARACTERS, HEADERS_BYTES, MESSAGE_HEADERS

MOST = {f"{n:02}": bytes(HEADERS_BYTES // MESSAGE_HEADERS - 2) for n in range(MESSAGE_HEADERS)}


NAMES = st.text("ab =.~", min_size=1, max_size=9)


@given(st.dictionaries(NAMES, st.binary(max_size=20), max_size=MESSAGE_HEADERS))
def test_headers_are_by_name_and_come_back(headers: dict[str, bytes]) -> None:
    items = header_items(headers)
    assert dict(items) == headers
    assert items == header_items(dict(reversed(headers.items())))
    assert not items or fault_in(items) == ""


def test_the_largest_headers_are_taken() -> None:
    for most in (MOST, {"x" * HEADER_CHARACTERS: bytes(HEADERS_BYTES - HEADER_CHARACTERS)}):
        assert fault_in(header_items(most)) == ""


def test_no_headers_are_none() -> None:
    assert header_items(None) == header_items({}) == ()


def test_values_that_are_like_bytes_become_bytes() -> None:
    items = header_items({"a": cast(bytes, bytearray(b"x")), "b": cast(bytes, memoryview(b"y"))})
    assert items == (("a", b"x"), ("b", b"y"))
    assert all(type(value) is bytes for _, value in items)


@pytest.mark.parametrize(
    ("headers", "error", "why"),
    [
        ({"": b""}, ConfigError, "headers: '' is not a name: 1 to 64 printable characters"),
        ({"x" * 65: b""}, ConfigError, "is not a name"),
        ({"a\n": b""}, ConfigError, r"headers: 'a\\n' is not a name"),
        ({"é": b""}, ConfigError, "headers: 'é' is not a name"),
        ({7: b""}, ConfigError, "headers: 7 is not a name"),
        ({"colour": "red"}, ConfigError, "headers: colour: bytes are needed, not 'red'"),
        ([("a", b"")], ConfigError, "headers: a mapping is needed, not "),
        ({**MOST, "z": b""}, TooLarge, "33 headers; the limit is 32"),
        ({**MOST, "00": bytes(127)}, TooLarge, "headers of 4,097 bytes; the limit is 4,096"),
    ],
)
def test_other_headers_are_refused_in_one_line(
    headers: Any, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why) as caught:
        header_items(headers)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("items", "why"),
    [
        ((), "0 headers, not 1 to 32"),
        (tuple((f"{n:02}", b"") for n in range(33)), "33 headers, not 1 to 32"),
        ((("b", b""), ("a", b"")), "header 'a' stands behind 'b'"),
        ((("a", b""), ("a", b"")), "header 'a' stands behind 'a'"),
        ((("", b""),), "'' is not a header's name"),
        ((("\t", b""),), "is not a header's name"),
        ((("x" * 65, b""),), "is not a header's name"),
        ((("a", bytes(4_096)),), "headers of 4,097 bytes, at most 4,096"),
    ],
)
def test_a_peers_headers_are_refused_by_the_same_rules(items: HeaderItems, why: str) -> None:
    assert why in fault_in(items)
