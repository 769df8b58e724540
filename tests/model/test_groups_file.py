"""The groups file: what is read from it, and one clear line for everything that is wrong in it."""

import json
import time

import pytest

from ordercast.model.errors import ConfigError
from ordercast.model.groups import GroupTable, parse_groups

GOOD = """
sites = ["a", "b", "c", "idle"]
[groups]
alpha = ["a", "b"]
beta = ["b", "c"]
[rates]
alpha = 100
"""


def message(text: str, source: str = "g.toml") -> str:
    with pytest.raises(ConfigError) as caught:
        parse_groups(text, source=source)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_toml_and_json_of_the_same_shape_give_the_same_table() -> None:
    data = {
        "sites": ["a", "b", "c", "idle"],
        "groups": {"alpha": ["a", "b"], "beta": ["b", "c"]},
        "rates": {"alpha": 100},
    }
    table = parse_groups(GOOD, source="g.toml")
    assert table == parse_groups(json.dumps(data), source="g.json")
    assert table == parse_groups(json.dumps(data), source="standard input")
    assert table.rate("alpha") == 100.0
    assert table.rate("beta") == 1.0
    assert table.memberships == 4


def test_without_sites_they_are_the_union_of_the_groups() -> None:
    table = parse_groups('[groups]\nx = ["b", "a"]\ny = ["c", "b"]\n', source="g.toml")
    assert table.sites == ("a", "b", "c")
    assert table.groups == {"x": ("b", "a"), "y": ("c", "b")}


def test_names_may_be_as_long_and_odd_as_the_contract_says() -> None:
    name = "0.x_Y-" + "z" * 58
    table = parse_groups(f'[groups]\n"{name}" = ["{name}"]\n', source="g.toml")
    assert table.sites == (name,)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "g.toml: the file is empty"),
        (" \n\t\n", "g.toml: the file is empty"),
        ("sites = []", "g.toml: the table [groups] is missing"),
        ("[groups]", "g.toml: [groups] is empty"),
        ("groups = 3", "g.toml: 'groups' must be a table of name = [members], not 3"),
        (
            '[group]\nx = ["a"]',
            "g.toml: unknown key 'group' (did you mean 'groups'?)",
        ),
        (
            '[groups]\nx = ["a"]\n[speed]\nx = 1',
            "g.toml: unknown key 'speed' (known: sites, groups, rates, tree)",
        ),
        ('[groups]\nx = "a"', "g.toml: groups.x: must be a list of sites, not 'a'"),
        ("[groups]\nx = []", "g.toml: groups.x: has no members"),
        (
            '[groups]\nx = ["a", "b", "a"]',
            "g.toml: groups.x: member 'a' is listed twice",
        ),
        (
            'sites = ["anna", "bob"]\n[groups]\nx = ["anna", "bobb"]',
            "g.toml: groups.x: 'bobb' is not in 'sites' (did you mean 'bob'?)",
        ),
        (
            'sites = ["anna", "bob"]\n[groups]\nx = ["ANNA"]',
            "g.toml: groups.x: 'ANNA' is not in 'sites' (did you mean 'anna'?)",
        ),
        (
            'sites = ["a", "a"]\n[groups]\nx = ["a"]',
            "g.toml: sites: 'a' is listed twice",
        ),
        (
            'sites = ["a", "A"]\n[groups]\nx = ["a"]',
            "g.toml: sites: 'A' and 'a' differ only in case",
        ),
        (
            'sites = "a"\n[groups]\nx = ["a"]',
            "g.toml: 'sites' must be a list of names, not 'a'",
        ),
        (
            '[groups]\nx = ["a", "B"]\ny = ["b"]',
            "g.toml: sites of the groups: 'b' and 'B' differ only in case",
        ),
        (
            '[groups]\nx = ["a"]\nX = ["b"]',
            "g.toml: groups: 'X' and 'x' differ only in case",
        ),
        (
            '[groups]\nx = ["a"]\n[rates]\ny = 1.0',
            "g.toml: rates.y: there is no such group (known: x)",
        ),
        (
            '[groups]\nalpha = ["a"]\n[rates]\nalfa = 1.0',
            "g.toml: rates.alfa: there is no such group (did you mean 'alpha'?)",
        ),
        (
            '[groups]\nx = ["a"]\n[rates]\nx = -1',
            "g.toml: rates.x: -1 is not a rate (a number from 0 to 1e+12)",
        ),
        (
            '[groups]\nx = ["a"]\n[rates]\nx = nan',
            "g.toml: rates.x: nan is not a rate (a number from 0 to 1e+12)",
        ),
        (
            '[groups]\nx = ["a"]\n[rates]\nx = inf',
            "g.toml: rates.x: inf is not a rate (a number from 0 to 1e+12)",
        ),
        (
            '[groups]\nx = ["a"]\n[rates]\nx = "fast"',
            "g.toml: rates.x: must be a number, not 'fast'",
        ),
        (
            '[groups]\nx = ["a"]\n[rates]\nx = true',
            "g.toml: rates.x: must be a number, not True",
        ),
        (
            'rates = 3\n[groups]\nx = ["a"]',
            "g.toml: 'rates' must be a table of group = messages per second, not 3",
        ),
    ],
)
def test_what_is_wrong_is_said_with_file_field_value_and_the_nearest_right_one(
    text: str, expected: str
) -> None:
    assert message(text) == expected


@pytest.mark.parametrize(
    "name", ["", " a", "-a", ".a", "a b", "a/b", "ä", "a\n", "x" * 65, "a,b", "@0123"]
)
def test_what_is_not_a_name_is_refused_for_sites_and_groups(name: str) -> None:
    quoted = json.dumps(name)
    rule = "is not a name (1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit)"
    assert message(f"[groups]\nx = [{quoted}]") == f"g.toml: groups.x: {name!r} {rule}"
    assert message(f'[groups]\n{quoted} = ["a"]') == f"g.toml: groups: {name!r} {rule}"


@pytest.mark.parametrize("value", ["3", "[1]", "true", '{"a" = 1}'])
def test_a_member_that_is_not_text_is_refused(value: str) -> None:
    assert message(f"[groups]\nx = [{value}]").startswith("g.toml: groups.x: ")


def test_what_is_not_toml_or_json_is_refused_with_its_place() -> None:
    assert message("[groups\n") == "g.toml: Expected ']' at the end of a table declaration " + (
        "(at line 1, column 8)"
    )
    assert message("{", "g.json").startswith("g.json: ")
    assert message("[1, 2]", "g.json") == "g.json: a groups file is an object with the key 'groups'"


def test_a_key_written_twice_is_refused_in_both_formats() -> None:
    assert message('[groups]\nx = ["a"]\nx = ["b"]').startswith("g.toml: ")
    twice = '{"groups": {"x": ["a"], "x": ["b"]}}'
    assert message(twice, "g.json") == "g.json: key 'x' is written twice"


@pytest.mark.parametrize("value", ["1" + "0" * 400, "1" + "0" * 5000, "0x" + "f" * 5000])
def test_numbers_of_any_length_are_refused_in_a_short_line(value: str) -> None:
    assert len(message(f'[groups]\nx = ["a"]\n[rates]\nx = {value}')) < 200


def test_a_long_value_is_not_repeated_in_full() -> None:
    assert len(message(f'[groups]\nx = "{"y" * 100_000}"')) < 200
    assert len(message(f"[groups]\nx = [{'1,' * 10_000}]")) < 200


def test_nesting_without_end_is_refused() -> None:
    deep = '{"groups": ' + "[" * 100_000
    assert message(deep, "g.json") == "g.json: nested too deeply for a groups file"


def test_a_duplicate_at_the_end_of_a_giant_group_is_found_at_once() -> None:
    members = [f"s{i}" for i in range(100_000)] + ["s99999"]
    started = time.perf_counter()
    with pytest.raises(ConfigError, match=r"groups: groups\.x: member 's99999' is listed twice"):
        GroupTable.of({"x": members})
    assert time.perf_counter() - started < 5
