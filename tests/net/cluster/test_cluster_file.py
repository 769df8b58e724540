"""The cluster file: defaults, one line per mistake, and what follows from it at every site."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordercast.core.epochs.member import Member
from ordercast.core.order.registry import PROTOCOLS
from ordercast.core.stability.registry import TRACKERS
from ordercast.model.errors import ConfigError, CrossDomain
from ordercast.model.grants import ClientSubject
from ordercast.model.groups import GroupTable
from ordercast.model.options import SECOND
from ordercast.net.cluster.config import ReaderLimits, Retention
from ordercast.net.cluster.file import cluster_of_groups, parse_cluster, read_cluster
from support.clusters.layouts import structure_of
from support.harness.commands import under_hash_seeds
from support.judges.forests import problems

SMALL = """
[cluster]
name = "demo"
[sites.a]
address = "127.0.0.1:7101"
[sites.b]
address = "localhost:7102"
metrics = "127.0.0.1:9102"
[sites.c]
address = "[::1]:7103"
[groups]
alpha = ["a", "b"]
beta = ["b", "c"]
"""


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new)


def mistake(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_cluster(text, source="x.toml")
    message = str(caught.value)
    assert message.startswith("x.toml: ")
    assert "\n" not in message
    assert len(message) < 400
    return message


def test_what_is_not_written_has_the_documented_default() -> None:
    cluster = parse_cluster(SMALL, source="x.toml")
    assert (cluster.protocol, cluster.builder, cluster.deliver) == ("propagation", "auto", "safe")
    assert (cluster.on_failure, cluster.durability) == ("exclude", "sync")
    assert (cluster.stability, cluster.slow_member) == ("s_coordp", "wait")
    assert (cluster.causal, cluster.open, cluster.insecure) == (False, False, False)
    assert cluster.voters == ("a", "b", "c")
    assert cluster.limits.window_messages == 10_000
    assert cluster.limits.window_bytes == 8_388_608
    assert cluster.limits.message_bytes == 1_048_576
    assert cluster.limits.unread_messages == 100_000
    assert cluster.limits.retention == Retention("stable")
    assert cluster.timeouts.suspect == 1_000_000_000
    assert cluster.tls is None
    assert cluster.address("c") == ("::1", 7103)
    assert cluster.site("b").metrics == ("127.0.0.1", 9102)


def test_an_address_for_clients_and_what_they_may_do() -> None:
    text = changed('metrics = "127.0.0.1:9102"', 'clients = "127.0.0.1:7202"')
    cluster = parse_cluster(f'{text}[grants]\n"client:x" = ["send:alpha"]\n', source="x.toml")
    assert cluster.site("b").clients == ("127.0.0.1", 7202)
    assert cluster.site("a").clients is None
    assert cluster.grants.allows(ClientSubject("client", "x"), "send", "alpha")
    insecure = changed(
        'metrics = "127.0.0.1:9102"', 'clients = "127.0.0.1:7202"\n[tls]\ninsecure=true'
    )
    assert "sites.b.clients: '127.0.0.1' has no secret to ask for" in mistake(insecure)
    with_tls = changed('metrics = "127.0.0.1:9102"', 'clients = "0.0.0.0:7202"\n[tls]\ndir="x"')
    assert parse_cluster(with_tls, source="x.toml").site("b").clients == ("0.0.0.0", 7202)


def test_what_is_written_is_used(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        changed(
            'name = "demo"',
            'name = "demo"\nprotocol = "centralized"\ndeliver = "agreed"\non_failure = "wait"\n'
            'causal = true\nstability = "plain"\ndurability = "os"\nvoters = ["c"]\n'
            'slow_member = "shed"\nopen = true\nlog = "json"\nlog_level = "debug"\n'
            '[limits]\nwindow_messages = 5\nwindow_bytes = "2MiB"\nmessage_bytes = 1000\n'
            'unread_messages = 7\nunread_bytes = "3KB"\nretention = "24h"\n'
            '[timeouts]\nsuspect = "250ms"\n[tls]\ndir = "certs"',
        )
    )
    cluster = read_cluster(file)
    assert cluster.limits.retention == Retention("age", 24 * 3600 * 10**9)
    assert cluster.limits.window_bytes == 2 * 1024 * 1024
    assert cluster.limits.unread_bytes == 3000
    assert (cluster.log, cluster.log_level) == ("json", "debug")
    assert cluster.timeouts.suspect == 250_000_000
    assert cluster.tls is not None
    assert cluster.tls.directory == tmp_path / "certs"
    options = cluster.options()
    assert (options.deliver, options.causal, options.stability) == ("agreed", True, "plain")
    assert (options.limits.window_messages, options.limits.message_bytes) == (5, 1000)
    assert structure_of(cluster, "alpha").forest.builder == "star"


def test_named_readers_have_limits() -> None:
    plain = parse_cluster(SMALL, source="x").reader_limits()
    assert plain == ReaderLimits(1 << 30, 7 * 86_400 * 10**9, unnamed=True)
    text = SMALL.replace('name = "demo"', 'name = "demo"\nunnamed_reader = false')
    text += '[limits]\nreader_bytes = "2MB"\nreader_age = "1h"\n'
    limits = parse_cluster(text, source="x").reader_limits()
    assert limits == ReaderLimits(2 * 10**6, 3_600 * 10**9, unnamed=False)


def test_a_retention_may_be_a_size() -> None:
    text = SMALL + '[limits]\nretention = "2GB"\n'
    assert parse_cluster(text, source="x").limits.retention == Retention("size", 2 * 10**9)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('name = "demo"', "", "cluster.name is missing"),
        ('"demo"', '"de mo"', "cluster.name: 'de mo' is not a name"),
        ('"demo"', '"demo"\nproto = "x"', "unknown key 'proto' (did you mean 'protocol'?)"),
        ('"demo"', '"demo"\nlog_level = "loud"', "cluster.log_level: there is no 'loud'"),
        ("[cluster]", "[custer]\nx = 1\n[cluster]", "unknown table 'custer' (did you mean"),
        ('"demo"', '"demo"\nprotocol = "propagaton"', "did you mean 'propagation'?"),
        (
            '"demo"',
            '"demo"\nprotocol = "hybrid:0"',
            "cluster.protocol: there is no protocol 'hybrid:0'",
        ),
        ('"demo"', '"demo"\nbuilder = "stra"', "cluster.builder: there is no 'stra' (did you"),
        ('"demo"', '"demo"\ndeliver = "save"', "there is no 'save' (did you mean 'safe'?)"),
        ('"demo"', '"demo"\ndeliver = 3', "cluster.deliver: must be one of safe, agreed, not 3"),
        ('"demo"', '"demo"\ncausal = "yes"', "cluster.causal: must be true or false, not 'yes'"),
        (
            '"demo"',
            '"demo"\nstability = "s_coord"',
            "there is no 's_coord' (did you mean 's_coordp'?)",
        ),
        (
            '"demo"',
            '"demo"\non_failure = "wait"\nslow_member = "exclude"',
            "'exclude' needs on_failure = 'exclude'",
        ),
        ('"demo"', '"demo"\nvoters = ["a", "d"]', "cluster.voters: there is no site 'd'"),
        ('"demo"', '"demo"\nvoters = ["a", "a"]', "cluster.voters: 'a' is listed twice"),
        ('"demo"', '"demo"\nvoters = []', "cluster.voters: [] names no site"),
        (
            '"demo"',
            '"demo"\nprotocol = "centralized"\nbuilder = "greedy"',
            "cluster.builder: 'centralized' runs on 'star', not on 'greedy'",
        ),
        (
            '"demo"',
            '"demo"\non_failure = "wait"\ndurability = "memory"',
            "cluster.durability: on_failure = 'wait' needs a store",
        ),
        ("7101", "70000", "sites.a.address: '127.0.0.1:70000': a port is a number from 1"),
        ("7101", "0", "a port is a number from 1 to 65535"),
        ("127.0.0.1:7101", "127.0.0.1", "sites.a.address: '127.0.0.1' is not an address"),
        ("127.0.0.1:7101", "::1:7101", "is not an address (write HOST:PORT, or [IPV6]:PORT)"),
        ("127.0.0.1:7101", "127.0.0.1:7102", "is taken by sites.a.address"),
        ("127.0.0.1:9102", "127.0.0.1:7101", "sites.b.metrics: '127.0.0.1:7101' is taken by"),
        ('metrics = "127', 'clients = "10', "sites.b.clients: '10.0.0.1' is not a loopback"),
        ("[groups]", "[grants]\n'client:x' = ['sent']\n[groups]", "did you mean 'send'?"),
        ("[groups]", "[grants]\nx = 1\n[groups]", "grants.'x': there is no kind 'x'"),
        ("127.0.0.1:7101", "10.0.0.1:7101", "sites.a.address: '10.0.0.1' is not a loopback"),
        ("127.0.0.1:7101", "db.example:7101", "give [tls] dir"),
        ('address = "127.0.0.1:7101"', "", "sites.a.address is missing"),
        ('address = "127.0.0.1:7101"', 'adress = "x"', "sites.a: unknown key 'adress' (did you"),
        ("[sites.c]", "[sites.B]", "differ only in case"),
        ('"b", "c"]', '"b", "cc"]', "groups.beta: there is no site 'cc' (did you mean 'c'?)"),
        ('"b", "c"]', '"b", "b"]', "groups.beta: member 'b' is listed twice"),
        ('["b", "c"]', "[]", "groups.beta: has no members"),
        ('["b", "c"]', '"b"', "groups.beta: must be a list of sites, not 'b'"),
        ('["b", "c"]', "3", "groups.beta: must be a list of sites, not 3"),
        ("beta =", '"no name" =', "groups: 'no name' is not a name"),
        ("[groups]", "[limits]\nwindow = 1\n[groups]", "limits: unknown key 'window'"),
        ("[groups]", "[limits]\nwindow_messages = 0\n[groups]", "limits.window_messages: 0 is"),
        ("[groups]", "[limits]\nwindow_bytes = '1XB'\n[groups]", "'1XB' is not a size"),
        ("[groups]", "[limits]\nwindow_bytes = 10\n[groups]", "10 is below message_bytes"),
        ("[groups]", "[limits]\nmessage_bytes = '1GB'\n[groups]", "1,000,000,000 is above"),
        ("[groups]", "[limits]\nretention = 'ever'\n[groups]", "'ever' is not a retention"),
        ("[groups]", "[limits]\nreader_age = 7\n[groups]", "limits.reader_age: 7 is not a time"),
        ("[groups]", "[limits]\nreader_bytes = 0\n[groups]", "limits.reader_bytes: 0 is too small"),
        ("[groups]", "[timeouts]\nsuspect = 1\n[groups]", "timeouts.suspect: 1 is not a time"),
        ("[groups]", "[timeouts]\nsuspect = '1ms'\n[groups]", "'1ms' is too small"),
        ("[groups]", "[tls]\ndri = 'x'\n[groups]", "tls: unknown key 'dri' (did you mean 'dir'?)"),
        ("[groups]", "[tls]\ndir = 3\n[groups]", "tls.dir: 3 is not a directory's name"),
        ("[groups]", "[tls]\ndir = 'x'\ninsecure = true\n[groups]", "contradict each other"),
        ("[groups]", "groups", "x.toml: "),
    ],
)
def test_a_mistake_is_one_line_with_field_value_and_remedy(old: str, new: str, said: str) -> None:
    assert said in mistake(SMALL.replace(old, new, 1))


def test_a_file_without_sites_groups_or_anything_is_told_what_to_write() -> None:
    assert mistake("").endswith("the file is empty")
    assert "no site is given" in mistake('[cluster]\nname = "x"')
    without_groups = SMALL[: SMALL.index("[groups]")]
    assert "no group is given" in mistake(without_groups)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, said in ((tmp_path / "none.toml", "no such file"), (tmp_path, "is a directory")):
        with pytest.raises(ConfigError, match=said) as caught:
            read_cluster(path)
        assert str(path) in str(caught.value)
    latin = tmp_path / "latin.toml"
    latin.write_bytes(b"# \xe9\n" + SMALL.encode())
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        read_cluster(latin)


@pytest.mark.parametrize("where", ["tls", "cluster"])
def test_other_machines_need_certificates_or_an_explicit_word(where: str) -> None:
    far = SMALL.replace("127.0.0.1:7101", "10.0.0.1:7101")
    table = "[tls]\ninsecure = true\n" if where == "tls" else ""
    word = "insecure = true\n" if where == "cluster" else ""
    text = far.replace('name = "demo"\n', f'name = "demo"\n{word}{table}')
    assert parse_cluster(text, source="x").insecure
    with_tls = far + '[tls]\ndir = "certs"\n'
    assert parse_cluster(with_tls, source="x").tls is not None


def test_a_failed_site_is_excluded_after_the_timeout_or_waited_for() -> None:
    default = cluster_of_groups(
        {"g": ["a", "b"]}, timeouts={"suspect": "2s"}, slow_member="exclude"
    )
    options = default.options()
    assert (options.on_failure, options.slow_member) == ("exclude", "exclude")
    assert options.timing.suspect == 2 * SECOND
    waiting = cluster_of_groups({"g": ["a", "b"]}, on_failure="wait", slow_member="shed").options()
    assert (waiting.on_failure, waiting.slow_member) == ("wait", "wait")


def test_every_tracker_can_be_chosen_by_name() -> None:
    assert cluster_of_groups({"g": ["a"]}).options().stability == "s_coordp"
    for name in TRACKERS:
        text = SMALL.replace('"demo"', f'"demo"\nstability = "{name}"')
        assert parse_cluster(text, source="x.toml").options().stability == name


def test_more_than_seven_sites_have_the_first_five_as_voters() -> None:
    sites = ["i", "h", "g", "f", "e", "d", "c", "b"]
    assert cluster_of_groups({"g": sites}).voters == ("b", "c", "d", "e", "f")
    assert cluster_of_groups({"g": sites[:7]}).voters == tuple(sorted(sites[:7]))


def test_an_unknown_site_is_answered_with_the_nearest() -> None:
    cluster = cluster_of_groups({"g": ["berlin", "paris"]})
    with pytest.raises(ConfigError, match=r"no site 'berlni' \(did you mean 'berlin'\?\)"):
        cluster.site("berlni")


def test_addresses_belong_to_sites() -> None:
    with pytest.raises(ConfigError, match="addresses: there is no site 'z'"):
        cluster_of_groups({"g": ["a", "b"]}, addresses={"z": "127.0.0.1:1"})


def test_domains_are_apart_unless_the_cluster_is_open_or_causal() -> None:
    groups = {"x": ["a", "b"], "y": ["c", "d", "e"]}
    for builder in ("star", "greedy", "balanced", "auto"):
        apart = cluster_of_groups(groups, builder=builder).first_layout()
        assert [domain.sites for domain in apart.domains.values()] == [("a", "b"), ("c", "d", "e")]
        ways: list[dict[str, Any]] = [{"open": True}, {"causal": True}]
        for one in ways:
            layout = cluster_of_groups(groups, builder=builder, **one).first_layout()
            (domain,) = layout.domains.values()
            forest = domain.structure.forest
            assert sum(above is None for above in forest.parent.values()) == 1
            assert problems(forest, domain.structure.table) == []
        with pytest.raises(CrossDomain):
            apart.taking("a", "", ("a", "c"))
    whole = cluster_of_groups(groups, open=True).first_layout()
    assert whole.taking("a", "", ("a", "c")).sites == ("a", "b", "c", "d", "e")
    with pytest.raises(CrossDomain):
        cluster_of_groups(groups, causal=True).first_layout().taking("a", "", ("a", "c"))


def test_an_open_star_still_has_one_site_that_orders_everything() -> None:
    groups = {"x": ["a", "b"], "y": ["c", "d"]}
    cluster = cluster_of_groups(groups, protocol="centralized", open=True)
    assert len(set(structure_of(cluster, "x").forest.primary.values())) == 1


def test_a_protocol_that_needs_a_builder_gets_it() -> None:
    cluster = cluster_of_groups({"x": ["a", "b"], "y": ["b", "c"]}, builder="greedy")
    assert cluster.build(cluster.table, "greedy", "centralized").builder == "star"
    assert cluster.build(cluster.table, "greedy", "propagation").builder == "greedy"


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "hybrid:2", "hybrid:2:3"])
@pytest.mark.parametrize("on_failure", ["exclude", "wait"])
@pytest.mark.parametrize("whole", [False, True])
def test_any_protocol_runs_under_either_policy(protocol: str, on_failure: str, whole: bool) -> None:
    """Sites do not exclude each other yet: what does not support it is not refused."""
    groups = {"x": ["a", "b"], "y": ["c", "d"], "z": ["c", "d", "e"]}
    cluster = cluster_of_groups(groups, protocol=protocol, on_failure=on_failure, open=whole)
    layout = cluster.first_layout()
    assert len(layout.domains) == (1 if whole else 2)
    for site in cluster.sites:
        member = Member(site, layout, cluster.options(), cluster.build, excluding=False)
        member.submit(1, "z", [b"taken"])
        assert member.engines[layout.taking(site, "z", ()).epoch].own.unstable == 1


TABLE = {"x": ["a", "b", "c"], "y": ["b", "c"], "z": ["c", "d", "e"], "w": ["a", "e"]}


@pytest.mark.parametrize(
    "other",
    [
        {"protocol": "centralized", "builder": "star"},
        {"builder": "star"},
        {"voters": ["a", "b"]},
        {"tie": ["b", "a"]},
        {"name": "other"},
    ],
)
def test_the_founding_covers_what_may_change_later(other: dict[str, Any]) -> None:
    first = cluster_of_groups(TABLE, builder="greedy").first_layout().founding
    assert len(first) == 32
    assert (
        first != cluster_of_groups(TABLE, **{"builder": "greedy", **other}).first_layout().founding
    )


@pytest.mark.parametrize(
    "other",
    [
        {"deliver": "agreed"},
        {"causal": True},
        {"durability": "memory"},
        {"open": True},
        {"tie": ["b", "a"]},
        {"limits": {"message_bytes": 1000}},
    ],
)
def test_the_terms_cover_what_never_changes(other: dict[str, Any]) -> None:
    assert cluster_of_groups(TABLE).terms() != cluster_of_groups(TABLE, **other).terms()


def test_neither_covers_what_may_differ_from_site_to_site() -> None:
    groups = {"x": ["a", "b"]}
    here = cluster_of_groups(groups)
    there = cluster_of_groups(groups, addresses={"a": "127.0.0.2:1"}, limits={"retention": "1h"})
    assert there.terms() == here.terms()
    assert there.first_layout().founding == here.first_layout().founding


NAMES = st.sampled_from([f"s{n}" for n in range(9)])
GROUPS = st.dictionaries(
    st.sampled_from([f"g{n}" for n in range(6)]), st.sets(NAMES, min_size=1), min_size=1
)


@given(groups=GROUPS, shuffled=st.randoms(use_true_random=False))
def test_the_same_groups_in_another_order_make_the_same_structure(
    groups: dict[str, set[str]], shuffled: Any
) -> None:
    sites = sorted(set().union(*groups.values()))
    listed = {group: sorted(members) for group, members in groups.items()}
    names = list(listed)
    shuffled.shuffle(names)
    other = {name: shuffled.sample(listed[name], len(listed[name])) for name in names}
    first, second = (
        cluster_of_groups(listed, sites=sites),
        cluster_of_groups(other, sites=sites[::-1]),
    )
    assert first.first_layout() == second.first_layout()
    for domain in first.first_layout().domains.values():
        table = GroupTable.of(domain.structure.groups, sites=list(domain.structure.forest.parent))
        assert problems(domain.structure.forest, table) == []


def test_the_structure_is_the_same_in_every_process() -> None:
    groups = {f"g{n}": [f"s{n}", f"s{n + 1}", f"s{n * 7 % 30 + 30}"] for n in range(1, 28, 2)}
    code = (
        "from ordercast.net.cluster.file import cluster_of_groups;"
        f"print(cluster_of_groups({groups!r}).first_layout().founding)"
    )
    assert set(under_hash_seeds("-c", code)) == {
        cluster_of_groups(groups).first_layout().founding + "\n"
    }


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


@given(
    place=st.sampled_from(
        [
            ("cluster", key)
            for key in ("name", "protocol", "voters", "causal", "stability", "durability")
        ]
        + [("limits", "window_bytes"), ("limits", "retention"), ("limits", "window_messages")]
        + [("timeouts", "suspect"), ("tls", "dir"), ("sites", "a"), ("groups", "alpha")]
        + [("sites",), ("groups",), ("cluster",), ("limits",), ("tls",)]
    ),
    value=VALUES,
)
def test_whatever_stands_in_a_field_is_taken_or_refused_in_one_line(
    place: tuple[str, ...], value: Any
) -> None:
    from ordercast.net.cluster.file import cluster_of_data

    data: dict[str, Any] = {
        "cluster": {"name": "demo"},
        "limits": {},
        "timeouts": {},
        "tls": {},
        "sites": {"a": {"address": "127.0.0.1:1"}, "b": {"address": "127.0.0.1:2"}},
        "groups": {"alpha": ["a", "b"]},
    }
    if len(place) == 1:
        data[place[0]] = value
    else:
        data[place[0]][place[1]] = value
    try:
        cluster = cluster_of_data(data, source="x.toml", base=Path())
    except ConfigError as error:
        message = str(error)
        assert message.startswith("x.toml: ")
        assert "\n" not in message
        assert len(message) < 400
    else:
        assert len(cluster.first_layout().founding) == 32


@given(st.text(max_size=60))
def test_any_other_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError) as caught:  # no text so short is a whole cluster
        parse_cluster(text, source="x.toml")
    assert "\n" not in str(caught.value)


def test_ties_decide_who_is_above_whom() -> None:
    groups = {"x": ["a", "b"], "y": ["a", "b"]}
    assert structure_of(cluster_of_groups(groups, builder="greedy"), "x").parent("b") == "a"
    preferred = cluster_of_groups(groups, builder="greedy", tie=["b"])
    assert structure_of(preferred, "x").parent("a") == "b"
    with pytest.raises(ConfigError, match=r"cluster\.tie: settles ties of 'greedy' only"):
        cluster_of_groups(groups, builder="star", tie=["b"])
    with pytest.raises(ConfigError, match=r"cluster\.tie: there is no site 'q'"):
        cluster_of_groups(groups, tie=["q"])
