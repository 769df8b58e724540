"""What a user of the library sees: the public names and no others, and every call explained."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ordercast
from ordercast import blocking, pipeline, studies
from ordercast.net.client.followers import NamedClientBatches, NamedClientDeliveries
from ordercast.net.client.readers import ClientBatches, ClientDeliveries
from ordercast.net.client.requests import ClientReceipt
from ordercast.net.site.named_stream import NamedBatchReader, NamedDeliveries
from ordercast.net.site.stream import Batches, Deliveries
from support.harness.loops import in_loop

ROOT = Path(__file__).parents[2]
RUNTIME_PAGE = ROOT / "docs" / "runtime.md"

ACTIVE: list[type] = [
    ordercast.Node, ordercast.Client, ordercast.Receipt, ordercast.Replica, ordercast.LocalCluster,
    blocking.BlockingNode, blocking.BlockingReceipt, ClientReceipt, Batches, Deliveries,
    ClientBatches, ClientDeliveries, NamedBatchReader, NamedDeliveries, NamedClientBatches,
    NamedClientDeliveries, ordercast.GroupTable,
]  # fmt: skip
FACES = [getattr(face, name) for face in (pipeline, studies) for name in face.__all__]
ACTIVE += [found for found in FACES if inspect.isclass(found)]
EXPORTED: list[type] = [
    found for name in ordercast.__all__ if inspect.isclass(found := getattr(ordercast, name))
]
ERRORS = [found.__name__ for found in EXPORTED if issubclass(found, ordercast.Error)]


def calls(cls: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties, also those of its bases."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if not name.startswith("_") and (
            inspect.isfunction(member) or isinstance(member, property)
        ):
            yield name, member


def described(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def test_the_package_shows_its_public_names_and_nothing_else() -> None:
    assert dir(ordercast) == sorted(ordercast.__all__)
    assert {"Away", "Client", "LocalCluster", "NotFlushed"} <= set(ordercast.__all__)


@pytest.mark.parametrize("cls", dict.fromkeys([*EXPORTED, *ACTIVE]), ids=described)
def test_every_public_call_is_explained(cls: type) -> None:
    assert cls.__doc__, "no docstring"
    silent = [name for name, member in calls(cls) if not member.__doc__]
    assert silent == []


@pytest.mark.parametrize("cls", ACTIVE, ids=described)
def test_every_call_says_what_it_raises(cls: type) -> None:
    silent = [
        name
        for name, member in calls(cls)
        if inspect.isfunction(member) and "raise" not in (member.__doc__ or "").lower()
    ]
    assert silent == []


@pytest.mark.parametrize(
    "call",
    [
        ordercast.connect, ordercast.local_cluster, blocking.open,
        *(found for found in FACES if inspect.isfunction(found)),
    ],
)  # fmt: skip
def test_functions_say_what_they_raise(call: Any) -> None:
    assert "raises" in call.__doc__.lower()


@pytest.mark.parametrize("cls", dict.fromkeys([*EXPORTED, *ACTIVE]), ids=described)
def test_docstrings_name_only_errors_that_there_are_and_pages_that_are_here(cls: type) -> None:
    for name, member in [("", cls), *calls(cls)]:
        text = member.__doc__ or ""
        for error in re.findall(r"[Rr]aises (?:an )?([A-Z]\w+)", text):
            assert error in ERRORS, f"{name}: {error}"
        for page in re.findall(r"docs/[\w-]+\.md", text):
            assert (ROOT / page).exists(), page


@in_loop
async def test_a_node_shows_what_the_page_of_the_runtime_lists() -> None:
    page = RUNTIME_PAGE.read_text()
    listed = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`\n]+`", page))))
    async with ordercast.local_cluster({"alpha": ["a"]}) as cluster:
        for shown in (cluster["a"], cluster):
            public = {name for name in dir(shown) if not name.startswith("_")}
            assert public <= listed, sorted(public - listed)
    client = {name for name, _ in calls(ordercast.Client)}
    assert client <= listed, sorted(client - listed)
