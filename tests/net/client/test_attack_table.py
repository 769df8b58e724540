"""Every act, for every subject, granted or not: what is allowed is what docs/operations.md says."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import product
from pathlib import Path

from ordercast.model.epochs import AddGroup, Edit, Grant, RemoveGroup, Withdraw
from ordercast.model.errors import NotGranted
from ordercast.model.grants import ACTS, ADMIN, OBSERVE, READ, SEND
from ordercast.net.client.client import Client, connect
from ordercast.net.cluster.certificates import add_client_certificates, write_certificates
from ordercast.net.site.node import Node, site_of
from support.clusters.served import Served, served
from support.clusters.sites import until
from support.harness.loops import in_loop

SUBJECTS = ("socket", "site:b", "client:x", "client:x*")
ALLOWS = {SEND: {SEND}, READ: {READ, OBSERVE}, OBSERVE: {OBSERVE}, ADMIN: {ADMIN}}
"""Who may read may also look on (docs/operations.md)."""


async def send(client: Client) -> None:
    await (await client.multicast("alpha", b"sent")).ordered()


async def read(client: Client) -> None:
    reader = client.deliveries(reader="r", groups=["alpha"])
    try:
        await anext(reader)
    finally:
        await reader.aclose()


async def look_on(client: Client) -> None:
    """Of alpha only: what is not granted is withheld, and so nothing comes. The message of another
    group, which everybody may look at here, comes in its place. Nor is a time told of the first
    message, which is alpha's."""
    timed = [position for position, *_ in await client.logged_times(1)]
    watching = client.deliveries(1, observe=True)
    try:
        async for item in watching:
            if getattr(item, "group", "") == "alpha":
                assert timed[0] == 1
                return
            if getattr(item, "group", "") == "open":
                assert timed[0] > 1
                raise NotGranted("has no grant observe:alpha")
    finally:
        await watching.aclose()


async def change(client: Client) -> None:
    await client.change(AddGroup("alpha-2", ("a",)))
    await client.change(RemoveGroup("alpha-2"))


REQUESTS: dict[str, Callable[[Client], Awaitable[None]]] = {
    SEND: send, READ: read, OBSERVE: look_on, ADMIN: change,
}  # fmt: skip


def connected(running: Served, certs: Path, subject: str) -> Client:
    if subject == "socket":
        return running.connect("a")
    name = "b" if subject == "site:b" else "clients/x"
    return connect(running.address("a"), cert=certs / f"{name}.pem", start_s=20, patience_s=20)


async def is_allowed(client: Client, act: str) -> bool:
    try:
        async with asyncio.timeout(20):
            await REQUESTS[act](client)
    except NotGranted as error:
        if f"has no grant {act}:alpha" not in str(error):
            raise  # another grant than the missing one is named
        return False
    return True


@in_loop
async def test_every_act_is_allowed_to_every_subject_if_and_only_if_it_is_granted(
    tmp_path: Path,
) -> None:
    certs = tmp_path / "certs"
    write_certificates("local", ["a", "b"], certs)
    add_client_certificates("local", ["x"], certs)
    groups = {"alpha": ["a", "b"], "open": ["a", "b"]}
    grants = {"site:a": ["admin", "send"], **{each: ["observe:open"] for each in SUBJECTS}}
    async with served(
        tmp_path, groups, remote=True, tls={"dir": str(certs)}, grants=grants
    ) as running:
        node, permits = running.cluster["a"], site_of(running.cluster["a"]).permits
        await until(lambda: site_of(node).core.layout.grants.lines is not None)
        await (await node.multicast("alpha", b"first")).stable()
        await (await node.multicast("open", b"second")).stable()
        wrong: list[tuple[str, str, str, object]] = []
        for subject in SUBJECTS:
            async with connected(running, certs, subject) as client:
                for given, act in product((*ACTS, ""), ACTS):
                    before = permits.refused.total()
                    await change_grants(node, subject, given)
                    found = await is_allowed(client, act)
                    await change_grants(node, subject, given, back=True)
                    if found != (act in ALLOWS.get(given, ())):
                        wrong.append((subject, given, act, found))
                    if not found and act != OBSERVE and permits.refused.total() <= before:
                        wrong.append((subject, given, act, "not counted"))
        assert wrong == []


async def change_grants(node: Node, subject: str, act: str, *, back: bool = False) -> None:
    if act:
        acts = (f"{act}:alpha*",)
        edit: Edit = Withdraw(subject, acts) if back else Grant(subject, acts)
        await node.change(edit)
