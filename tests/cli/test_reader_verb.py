"""`ordercast reader` and `status` on a running site: readers are listed, reset, removed, warned."""

from pathlib import Path

import pytest

from cli.beside import Verbs
from support.clusters.served import served
from support.harness.loops import in_loop

FILE = '[cluster]\nname = "local"\n[sites.a]\naddress = "127.0.0.1:7101"\n[groups]\nalpha = ["a"]\n'


@in_loop
async def test_readers_are_listed_reset_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(FILE)

    verbs = Verbs(tmp_path, capsys)
    verb, told = verbs.run, verbs.told
    async with served(tmp_path, {"alpha": ["a"]}, limits={"reader_age": "1h"}) as sites:
        node = sites.cluster["a"]
        assert await verb(0, "reader", "list", str(file), "a") == "no reader has a name here\n"
        for text in (b"one", b"two", b"three"):
            await (await node.multicast("alpha", text)).stable()
        reader = node.deliveries(reader="r", groups=["alpha"])
        assert (await anext(reader)).position == 1
        await node.confirm(1, reader="r")
        shown = (await verb(0, "reader", "list", str(file), "a")).splitlines()
        assert shown[0].split() == [
            "reader", "groups", "confirmed", "lag", "followers", "kept", "of", "limit",
        ]  # fmt: skip
        assert shown[1].split()[:5] == ["r", "alpha", "1", "2", "1"]
        done = await told("reader", "reset", str(file), "a", "r", "--to", "3")
        assert done == {"cluster": "local", "site": "a", "reader": "r", "position": 3}
        assert "goes on with position 4" in await verb(
            0, "reader", "reset", str(file), "a", "r", "--to", "end"
        )
        assert (await told("reader", "reset", str(file), "a", "r"))["position"] == 1
        listed = (await told("reader", "list", str(file), "a"))["readers"]["r"]
        assert (listed["confirmed"], listed["lag"], listed["groups"]) == (0, 3, ["alpha"])
        assert "there is no reader 's'" in await verb(2, "reader", "remove", str(file), "a", "s")
        assert (await told("reader", "remove", str(file), "a", "r"))["removed"] is True
        assert (await told("reader", "list", str(file), "a"))["readers"] == {}


def test_status_warns_of_readers_that_are_near_their_limit() -> None:
    from ordercast.net.site.named_readers import reader_warnings

    near = {"lag": 9133, "limit_used": 0.897}
    assert reader_warnings({"billing": near, "well": {"lag": 1, "limit_used": 0.79}}) == [
        "reader billing: 9,133 positions behind, at 90% of its limit; beyond it messages go, and it"
        " finds a gap"
    ]
