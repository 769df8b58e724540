"""The first words on a connection: whole or refused, whatever the bytes; terms must agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.net.link.complaints import LinkTrouble
from ordercast.net.link.hello import (
    HELLO_BYTES,
    Hello,
    Identity,
    check_hello,
    check_terms,
    encode_hello,
    split_hello,
)

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True)
numbers = st.integers(1, 2**62)
hellos = st.builds(
    Hello,
    cluster=names,
    site=names,
    to=names,
    incarnation=numbers,
    boot=numbers,
    instance=st.binary(min_size=8, max_size=8),
    number=numbers,
    answers=st.integers(0, 2**62),
    gone=st.integers(0, 2**62),
    terms=st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=8),
    refusal=st.from_regex(r"[ -~]{0,400}", fullmatch=True),
    door=st.from_regex(r"([a-z.]{1,253}:[0-9]{1,5})?", fullmatch=True),
)
HELLO = Hello("demo", "b", "a", 1, 1, b"12345678", 1, 0, 0, {"protocol": "ring"})
KNOWN = {"b": None, "c": None}


@given(hellos, st.binary(max_size=50))
def test_a_hello_is_read_back_and_what_follows_is_left(hello: Hello, rest: bytes) -> None:
    data = encode_hello(hello)
    assert split_hello(data + rest) == (hello, len(data))


@given(hellos, st.data())
def test_a_part_of_a_hello_is_waited_for(hello: Hello, data: st.DataObject) -> None:
    whole = encode_hello(hello)
    assert split_hello(whole[: data.draw(st.integers(0, len(whole) - 1))]) is None


def refusal_of(data: bytes | bytearray) -> str:
    try:
        return "waited for" if split_hello(data) is None else "taken"
    except LinkTrouble as refused:
        return refused.cause


@given(hellos, st.data())
def test_a_damaged_hello_is_never_taken_for_another(hello: Hello, data: st.DataObject) -> None:
    whole = bytearray(encode_hello(hello))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert refusal_of(whole) != "taken"


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waited_for(data: bytes) -> None:
    for start in (b"", b"och", b"och\x01\x00\x00\x00\x20"):
        assert refusal_of(start + data) in ("waited for", "no hello", "another version")


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"GET / HTTP/1.1", "no hello: it begins with b'GET / HT'"),
        (b"\x16\x03\x01", "no hello: it speaks TLS, and this site has no certificates"),
        (
            b"och\x01" + bytes(8),
            "another version: its hello is of version 1, this site's of 3",
        ),
        (
            b"och\x03\xff\xff\xff\xff" + bytes(4),
            f"no hello: 4,294,967,295 bytes announced, at most {HELLO_BYTES:,} taken",
        ),
    ],
)
def test_a_refusal_says_what_came(data: bytes, line: str) -> None:
    with pytest.raises(LinkTrouble) as caught:
        split_hello(data)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    "changes",
    [
        {"site": "no/name"},
        {"boot": 0},
        {"number": -1},
        {"gone": 2**63},
        {"instance": b"short"},
        {"terms": {str(n): "" for n in range(33)}},
        {"refusal": "two\nlines"},
        {"door": "two\nlines"},
        {"door": "x" * 301},
    ],
)
def test_fields_out_of_range_are_refused(changes: dict[str, object]) -> None:
    fields = {name: getattr(HELLO, name) for name in HELLO.__struct_fields__}
    with pytest.raises(LinkTrouble, match="a field is not what it must be"):
        split_hello(encode_hello(Hello(**{**fields, **changes})))


def test_terms_that_are_too_long_are_found_at_the_sender() -> None:
    fields = {name: getattr(HELLO, name) for name in HELLO.__struct_fields__}
    with pytest.raises(ValueError, match="its terms are too long"):
        encode_hello(Hello(**{**fields, "terms": {"x": "y" * HELLO_BYTES}}))


@pytest.mark.parametrize(
    ("ours", "site", "line"),
    [
        (Identity("demo", terms={"protocol": "ring"}), "a", None),
        (Identity("other", terms={"protocol": "ring"}), "a", "another cluster: 'demo', this"),
        (Identity("demo", terms={"protocol": "ring"}), "b", "connected to ourselves"),
        (Identity("demo", terms={"protocol": "ring"}), "c", "meant for another site: 'b' wants"),
        (Identity("demo", terms={"protocol": "tom"}), "a", "'protocol' is 'ring' there, 'tom'"),
        (Identity("demo"), "a", "'protocol' is 'ring' there, None here"),
        (Identity("demo", terms={"a": "1", "protocol": "tom"}), "a", "'a' is None there, '1' here"),
    ],
)
def test_a_hello_must_mean_us_and_agree(ours: Identity, site: str, line: str | None) -> None:
    if line is None:
        check_hello(HELLO, ours, site, KNOWN)
        return
    with pytest.raises(LinkTrouble) as caught:
        check_hello(HELLO, ours, site, KNOWN)
    assert line in str(caught.value)


def test_a_site_that_is_not_in_the_cluster_is_refused() -> None:
    with pytest.raises(
        LinkTrouble, match=r"unknown site: 'b' is not, or no longer, of .*site add CLUSTER b"
    ):
        check_hello(HELLO, Identity("demo", terms={"protocol": "ring"}), "a", {"c": None})


@pytest.mark.parametrize(
    ("here", "there", "agrees"),
    [
        ("f", "f", True),
        ("", "f", True),
        ("f", "", True),
        ("", "", True),
        ("f", "g", False),
        (None, "f", False),
        ("f", None, False),
    ],
)
def test_a_founding_that_is_not_known_agrees_with_every_other(
    here: str | None, there: str | None, agrees: bool
) -> None:
    ours, theirs = ({} if f is None else {"founding": f} for f in (here, there))
    if agrees:
        check_terms({**theirs, "a": ""}, {**ours, "a": ""})
    else:
        with pytest.raises(LinkTrouble, match=r"'founding' is .* two clusters of one name"):
            check_terms({**theirs, "a": ""}, {**ours, "a": ""})
    with pytest.raises(
        LinkTrouble, match="'a' is '' there, '1' here"
    ):  # no other term is so lenient
        check_terms({"a": ""}, {"a": "1"})


def test_builders_of_two_releases_are_named_as_the_reason() -> None:
    check_terms({"forests": ""}, {"forests": "f"})  # who came later has not built them
    with pytest.raises(LinkTrouble, match=r"'forests' is 'g' there.*builders of two releases"):
        check_terms({"forests": "g"}, {"forests": "f"})


def test_a_reason_is_cut_and_in_ascii_so_that_it_always_fits() -> None:
    fields = {name: getattr(HELLO, name) for name in HELLO.__struct_fields__}
    found = split_hello(encode_hello(Hello(**{**fields, "refusal": "é" * 5_000})))
    assert found is not None
    assert found[0].refusal == ("\\xe9" * 100)
    ours = Identity("demo", terms={"protocol": "ring"})
    with pytest.raises(LinkTrouble, match="it refuses us: so it is"):
        check_hello(Hello(**{**fields, "refusal": "so it is"}), ours, "a", KNOWN)
