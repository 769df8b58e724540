"""Grants: patterns, who may do what, and mistakes in the table."""

import fnmatch
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.model.errors import ConfigError, NotGranted
from ordercast.model.grants import (
    ACTS,
    CLIENT,
    EVERY,
    OWNER,
    SITE,
    ClientSubject,
    Grants,
    client_uri,
    fits,
    read_grants,
    subject_of,
)
from ordercast.net.cluster.certificates import certificate_uri

BILLING, STOCK, A = (
    ClientSubject(CLIENT, "billing"),
    ClientSubject(CLIENT, "stock"),
    ClientSubject(SITE, "a"),
)


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_star_stands_for_any_characters(pattern: str, text: str) -> None:
    assert fits(pattern, text) == fnmatch.fnmatchcase(text, pattern)


def test_without_a_table_sites_and_the_owner_may_do_everything_and_clients_nothing() -> None:
    for act in ACTS:
        assert Grants().allows(OWNER, act, EVERY)
        assert Grants().allows(A, act, "sales")
        assert not Grants().allows(STOCK, act, "sales")
    assert Grants().allows_some(OWNER)
    assert not Grants().allows_some(STOCK)


@pytest.mark.parametrize(
    "table", [{}, {"client:billing": ["send:*"]}, {"socket": [], "site:b": []}]
)
def test_with_a_table_nothing_is_allowed_that_is_not_granted(table: dict[str, list[str]]) -> None:
    grants = read_grants(table, "file")
    for subject in (OWNER, A, STOCK):
        assert not grants.allows_some(subject)
        assert not any(grants.allows(subject, act, "sales") for act in ACTS)
    assert grants.allows(BILLING, "send", "sales") == ("client:billing" in table)


def test_lines_add_up_and_each_counts_for_its_own_subjects_acts_and_groups() -> None:
    table = read_grants(
        {"client:b*": ["send:sales"], "client:billing": ["send:stock-*", "read"]}, "file"
    )
    assert table.allows(BILLING, "send", "sales")
    assert table.allows(BILLING, "send", "stock-1")
    assert not table.allows(BILLING, "send", "stock")
    assert not table.allows(BILLING, "send", EVERY)
    assert table.allows(BILLING, "read", EVERY)
    assert table.allows(BILLING, "read", "@0123456789abcdef")
    assert not table.allows(BILLING, "observe", "sales")
    assert table.allows_some(BILLING, ["send"])
    assert not table.allows_some(BILLING, ["admin"])
    assert not table.allows_some(STOCK)
    with pytest.raises(
        NotGranted, match="client:stock has no grant send:sales \\('ordercast grant"
    ):
        table.require(STOCK, "send", "sales")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"clients:x": []}, "did you mean 'client'"),
        ({"client": []}, "write client:NAME"),
        ({"client:": []}, "write client:NAME"),
        ({"client:a/b": []}, "write client:NAME"),
        ({"socket:me": []}, "'socket' has no name"),
        ({"client:x": "send"}, "must be a list"),
        ({"client:x": [7]}, "7 is no grant"),
        ({"client:x": ["sent:*"]}, "did you mean 'send'"),
        ({"client:x": ["send:"]}, "write send:GROUP"),
        ({"client:x": ["send:a b"]}, "write send:GROUP"),
        ({f"client:{n}": [] for n in range(1_001)}, "1,001 lines"),
    ],
)
def test_mistakes_in_the_table_are_one_line(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        read_grants(table, "file")
    assert str(caught.value).startswith("file: grants")


def test_a_certificate_has_one_subject_of_this_cluster_or_none() -> None:
    site, client = certificate_uri("demo", "client"), client_uri("demo", "client")
    assert subject_of([site], "demo") == ClientSubject(SITE, "client")
    assert subject_of([client], "demo") == ClientSubject(CLIENT, "client")
    assert subject_of(["ordercast://other/a", "https://example.org"], "demo") is None
    assert subject_of([site, client], "demo") is None
    for wrong in ("", "/", "client/", "client/a/b", "clients/a", "a b", "client/a\n"):
        assert subject_of([f"ordercast://demo/{wrong}"], "demo") is None
