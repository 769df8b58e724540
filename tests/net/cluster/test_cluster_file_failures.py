"""The cluster file: what it says of failures, stability and dissemination, and one line per
mistake in it: file, field and value."""

from dataclasses import replace
from pathlib import Path

import pytest

from ordercast.cli import main
from ordercast.core.order.registry import PROTOCOLS
from ordercast.model.errors import ConfigError
from ordercast.net.cluster.file import parse_cluster

FILE = """
[cluster]
name = "demo"
{cluster}
{tables}
[sites.a]
address = "127.0.0.1:7101"
[sites.b]
address = "127.0.0.1:7102"
[groups]
alpha = ["a", "b"]
"""


def text(table: str, line: str) -> str:
    if table == "cluster":
        return FILE.format(cluster=line, tables="")
    return FILE.format(cluster="", tables=f"[{table}]\n{line}")


@pytest.mark.parametrize(
    ("table", "line", "said"),
    [
        ("cluster", 'on_failure = "exlude"', "there is no 'exlude' (did you mean 'exclude'?)"),
        ("cluster", 'on_failure = "return"', "there is no 'return' (known: exclude, wait)"),
        ("cluster", 'slow_member = "exlude"', "there is no 'exlude' (did you mean 'exclude'?)"),
        ("cluster", 'stability = "s_cordp"', "there is no 's_cordp' (did you mean 's_coordp'?)"),
        ("cluster", "stability = 5", "must be one of plain, coordp, full_dist"),
        ("cluster", 'dissemination = "tre"', "there is no 'tre' (did you mean 'tree'?)"),
        ("cluster", 'dissemination = "udp"', "(known: unicast, tree, multicast)"),
        ("cluster", "voters = []", "[] names no site; leave it out, or name one at least"),
        ("limits", "missed_bytes = 0", "0 is too small (more than 0)"),
        ("limits", 'missed_bytes = "lots"', "'lots' is not a size"),
        ("limits", "missed_bytes = true", "True is not a size"),
        ("timeouts", 'suspect = "9ms"', "'9ms' is too small (10ms or more)"),
        ("timeouts", 'suspect = "0h"', "'0h' is too small (10ms or more)"),
        ("timeouts", "hold = 5", "5 is not a time (write 250ms, 1s, 5min, 24h or 7d)"),
        ("timeouts", 'hold = "2s"', "'2s' is longer than suspect"),
        ("multicast", 'address = "10.0.0.1:7400"', "'10.0.0.1:7400' is not a multicast address"),
        ("multicast", "ttl = 33", "33 is not a whole number from 0 to 32"),
        ("multicast", 'datagram_bytes = "1400"', "'1400' is not a whole number from 576 to 9000"),
    ],
)
def test_a_mistake_names_file_field_and_value(table: str, line: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_cluster(text(table, line), source="c.toml")
    told = str(caught.value)
    assert told.startswith(f"c.toml: {table}.{line.split()[0]}: ")
    assert said in told
    assert "\n" not in told


def test_a_hold_up_to_suspect_is_taken() -> None:
    longer = 'suspect = "2s"\nhold = "2s"'
    assert parse_cluster(text("timeouts", longer), source="c").timeouts.hold == 2_000_000_000


@pytest.mark.parametrize("policy", ["exclude", "wait"])
def test_a_protocol_is_refused_where_it_does_not_support_the_policy(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = PROTOCOLS["ring"]
    lacking = replace(one, wait=False) if policy == "wait" else replace(one, exclude=False)
    monkeypatch.setitem(PROTOCOLS, "ring", lacking)
    both = f'protocol = "ring"\non_failure = "{policy}"'
    with pytest.raises(ConfigError) as caught:
        parse_cluster(text("cluster", both), source="c.toml")
    why = f"'ring' does not support on_failure = {policy!r}"
    assert str(caught.value) == f"c.toml: cluster.on_failure: {why}"
    cluster = parse_cluster(text("cluster", f'on_failure = "{policy}"'), source="c.toml")
    with pytest.raises(ConfigError, match="'ring' does not support on_failure"):
        cluster.build(cluster.table, "greedy", "ring")


def test_a_verb_tells_a_mistake_in_one_line_and_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "c.toml")
    Path(file).write_text(text("limits", 'missed_bytes = "lots"'), encoding="utf-8")
    for verb in ("status", "epoch"):
        assert main([verb, file]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"ordercast: {file}: limits.missed_bytes: 'lots' is not a size")
        assert err.count("\n") == 1
