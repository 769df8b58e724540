"""A node and a client refuse what a command would refuse: at once, in one line, and nothing has
happened."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast.model.epochs import AddSite
from ordercast.model.errors import ConfigError, Forgotten
from ordercast.net.local import local_cluster
from ordercast.net.site.node import Node, site_of
from support.clusters.served import served
from support.harness.loops import in_loop

CALLS: list[tuple[str, Callable[[Any], Any], str]] = [
    ("a host without a port", lambda n: n.add_site("q", "nonsense"), "is not an address"),
    ("a port above all", lambda n: n.add_site("q", "h:99999"), "a port is a number"),
    ("port 0", lambda n: n.add_site("q", "h:0"), "a port is a number"),
    ("no host", lambda n: n.add_site("q", ":7001"), "is not an address"),
    ("a number for an address", lambda n: n.add_site("q", 5), r"edits\[0\]\.address is 5"),
    ("a number for a site", lambda n: n.add_site(5, "h:1"), r"edits\[0\]\.site is 5: expected"),
    ("a site with a space", lambda n: n.retire_site("q q"), "'q q' is not a site's name"),
    ("letters for a list", lambda n: n.add_group("g", "ab"), "a list of names is needed, not 'ab'"),
    ("numbers in a list", lambda n: n.add_group("g", [1]), "members: 1 is not a name"),
    ("a number for a group", lambda n: n.remove_group(5), r"edits\[0\]\.group is 5"),
    ("a reserved name", lambda n: n.add_group("@x", ["a"]), "'@x' is not a group's name"),
    ("a number for a protocol", lambda n: n.switch_protocol(5), "protocol is 5"),
    ("a text for an edit", lambda n: n.change("join"), r"edits\[0\]: 'join' is no edit"),
    ("bytes for a name", lambda n: n.change(AddSite("q", ""), name=b"n"), "name: expected `str`"),
    ("no edit", lambda n: n.change(), "there is no edit in it"),
    ("a position below 0", lambda n: n.confirm(-1), "position: -1 is too small"),
    ("a text for a position", lambda n: n.confirm("1"), "a whole number is needed, not '1'"),
    ("truth for a position", lambda n: n.confirm(True), "a whole number is needed, not True"),
    ("a fraction", lambda n: n.confirm(1.5), "a whole number is needed, not 1.5"),
    ("a text for an attempt", lambda n: n.confirm(0, "x"), "attempt: a whole number is needed"),
    ("reading from 0", lambda n: anext(aiter(n.deliveries(0))), "start: 0 is too small"),
    ("reading from a text", lambda n: anext(aiter(n.deliveries("1"))), "start: a whole number"),
    ("a position above all", lambda n: n.confirm(2**62 + 1), "position: .* is too large"),
    ("a start above all", lambda n: anext(aiter(n.deliveries(2**62 + 1))), "start: .* too large"),
    ("an attempt above all", lambda n: n.confirm(0, 10**30), "attempt: .* is too large"),
    ("an attempt that was not", lambda n: n.confirm(0, 2), "attempt: 2 was not told by this site"),
    ("reading in one", lambda n: anext(aiter(n.deliveries(1, 2))), "attempt: 2 was not told"),
    ("reading in a text", lambda n: anext(aiter(n.deliveries(1, "x"))), "attempt: a whole number"),
    ("a range above all", lambda n: anext(aiter(n.read("r", 1, 2**63))), "end: .* is too large"),
    ("the mark of a list", lambda n: n.id_mark(["alpha"]), "goes to one group, not to a list"),
    ("a number for groups", lambda n: n.multicast(5, b"x"), "a list of names is needed, not 5"),
    ("numbers for groups", lambda n: n.multicast([1], b"x"), "1 is not a name"),
    ("letters for sites", lambda n: n.multicast_to("ab", b"x"), "a list of names is needed"),
    ("a number for the stage", lambda n: n.flush(5), "until: 5 is none of"),
    ("nothing for payloads", lambda n: n.multicast_many("alpha", None), "a list of bytes is"),
    ("and with an id", lambda n: n.multicast_many("alpha", 5, id="x"), "payloads: a list of bytes"),
    ("one for payloads", lambda n: n.multicast_many("alpha", b"x"), "payloads: a list of bytes"),
    ("none of a producer", lambda n: n.produce("p", 1, "alpha", None), "payloads: a list of bytes"),
    ("nothing for listed sites", lambda n: n.multicast_to(["a"], None), "not NoneType"),
    ("a number for them", lambda n: n.multicast_to(["a"], 5), "payload: bytes are needed, not int"),
]  # fmt: skip


async def all_refused(node: Any) -> None:
    for name, call, why in CALLS:
        with pytest.raises(ConfigError, match=why) as caught:
            await call(node)
        assert "\n" not in str(caught.value), name


@in_loop
async def test_a_node_refuses_what_a_command_refuses() -> None:
    async with local_cluster({"alpha": ["a", "b"]}) as cluster:
        await all_refused(cluster["a"])
        layout = site_of(cluster["b"]).core.layout
        assert (list(layout.groups), sorted(layout.roster), layout.last_epoch) == (
            ["alpha"], ["a", "b"], 1,
        )  # fmt: skip


@in_loop
async def test_a_client_refuses_it_too(tmp_path: Path) -> None:
    async with served(tmp_path) as running, running.connect("a") as client:
        await all_refused(client)
        await (await client.multicast("alpha", b"x")).stable()  # the daemon has not dropped it


@in_loop
async def test_whether_one_looks_on_is_true_or_false(tmp_path: Path) -> None:
    """The daemon drops a client whose frame breaks a rule, and the client would send it again."""
    async with served(tmp_path) as running, running.connect("a") as client:
        wrong: Any
        for wrong in (1, "yes", None, []):
            with pytest.raises(ConfigError, match="observe: True or False is needed, not"):
                await anext(aiter(client.deliveries(observe=wrong)))
        assert (await client.status())["clients"]["connected"] == {"socket": 1}


@in_loop
async def test_listed_sites_get_one_payload_or_many_through_a_node_as_through_a_client(
    tmp_path: Path,
) -> None:
    async with served(tmp_path) as running, running.connect("a") as client:
        one: Any
        for sender in (running.cluster["a"], client):
            for one in (b"x", bytearray(b"x"), memoryview(b"x"), [b"x", b"x"], iter([b"x"])):
                await (await sender.multicast_to(["a", "b"], one)).stable()


@pytest.mark.parametrize("members", ["ab", 5, None, b"ab"])
def test_a_group_is_a_list_of_names(members: Any) -> None:
    with pytest.raises(ConfigError, match=r"groups\.alpha: a list of names is needed"):
        local_cluster({"alpha": members})
    with pytest.raises(ConfigError, match=r"groups\.alpha: a list of names is needed"):
        ordercast.GroupTable.of({"alpha": members})


@in_loop
async def test_a_node_that_is_not_opened_says_how() -> None:
    opening: Any = Node.open("cluster.toml", site="a")
    with pytest.raises(AttributeError, match=r"async with Node\.open.*'multicast' is the node's"):
        await opening.multicast("alpha", b"x")
    with pytest.raises(TypeError, match=r"async with Node\.open"):
        await opening
    with pytest.raises(TypeError, match=r"async with Node\.open"), opening:
        pass


@pytest.mark.parametrize(
    ("cluster", "site", "said"),
    [
        ("http://x", None, "'http://x' is neither tls://HOST:PORT, nor tcp://HOST:PORT of this"),
        ("tls://A:1", "tls://B:1", "'tls://B:1' is an address: give several addresses as a list"),
        ("tls://A:1", "not a name!", "site: 'not a name!' is not a name"),
        (["tcp://127.0.0.1:1"], 5, "site: 5 is not a name"),
        (["http://x"], None, "'http://x' is not the address of a daemon"),
    ],
)
def test_an_address_and_a_site_are_what_they_are_taken_for(
    cluster: Any, site: Any, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        ordercast.connect(cluster, site)


NO_PATHS: tuple[Any, ...] = (5, True, b"x", [], "a\0b", "\ud800", "x" * 300)


@in_loop
@pytest.mark.parametrize("wrong", NO_PATHS, ids=repr)
async def test_a_directory_and_the_file_of_a_certificate_are_paths(
    wrong: Any, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        '[cluster]\nname = "x"\n[sites.a]\naddress = "127.0.0.1:1"\n[groups]\nalpha = ["a"]\n'
    )
    for call in (
        lambda: ordercast.connect(file, "a", wrong),
        lambda: ordercast.connect("tls://h:1", cert=wrong),
        lambda: ordercast.connect("tcp://127.0.0.1:1", secret=wrong),
        lambda: local_cluster({"alpha": ["a"]}, dir=wrong),
    ):
        with pytest.raises(ConfigError, match="the path of a file or directory is needed, not "):
            call()
    with pytest.raises(ConfigError, match="dir: the path of a file or directory is needed, not "):
        async with Node.open(file, "a", dir=wrong):
            pass


@in_loop
async def test_the_name_of_a_site_and_a_time_are_what_they_are_taken_for(tmp_path: Path) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(
        '[cluster]\nname = "x"\n[sites.a]\naddress = "127.0.0.1:1"\n[groups]\nalpha = ["a"]\n'
    )
    site: Any
    for site in (5, None, ["a"], "../a", "x" * 5_000):
        with pytest.raises(ConfigError, match=r"site: .* is not a name"):
            async with Node.open(file, site, address="h:1"):
                pass
        if site is not None:
            with pytest.raises(ConfigError, match=r"site: .* is not a name"):
                ordercast.connect(file, site)
    seconds: Any
    for seconds in ("5", None, True, -1, float("nan")):
        with pytest.raises(ConfigError, match="start_s: seconds are needed, not "):
            ordercast.connect(file, "a", start_s=seconds)


@pytest.mark.parametrize("groups", [None, 5, "alpha", ["alpha"]])
def test_groups_and_settings_are_tables(groups: Any) -> None:
    with pytest.raises(ConfigError, match="groups: a table of lists is needed, not "):
        local_cluster(groups)
    with pytest.raises(ConfigError, match="groups: a table of lists is needed, not "):
        ordercast.GroupTable.of(groups)
    if groups is not None:
        with pytest.raises(ConfigError, match=r"\[grants\] must be a table, not "):
            local_cluster({"alpha": ["a"]}, grants=groups)


@in_loop
async def test_the_path_of_a_cluster_file_is_a_path() -> None:
    with pytest.raises(ConfigError, match="the path of a file is needed, not 5"):
        async with Node.open(5, site="a"):  # type: ignore[arg-type]
            pass


@in_loop
async def test_a_position_that_is_gone_is_an_error_of_its_own() -> None:
    async with local_cluster({"alpha": ["a", "b"]}) as cluster:
        node = cluster["a"]
        for _ in range(2):
            await (await node.multicast("alpha", b"x")).stable()
        reader = node.deliveries()
        await anext(reader)
        await anext(reader)
        await node.confirm(2)
        with pytest.raises(Forgotten, match="position 1 was read before") as caught:
            await anext(aiter(node.deliveries(1)))
        assert not isinstance(caught.value, ConfigError)
