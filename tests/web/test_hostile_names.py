"""A history may come from anywhere, with any names: the page shows them as text."""

from collections.abc import Iterator
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from ordercast.cli.dashboard import parse_line
from ordercast.history.rows import History
from ordercast.sim.trace.assembly import trace_of_history
from ordercast.web.access import Access
from ordercast.web.app import Dashboard
from support.cases.known import known_cases
from support.harness.served_page import ServedPage, served

NAMES = {
    "a": "<img src=x onerror=alert(1)>",
    "b": "]]></text><script>alert(2)</script>",
    "alpha": "\"&amp;'><svg onload=alert(3)>",
    "x": "javascript:alert(4)",
    "c": "<img src=y onerror=alert(5)>",
}

PARTS = {
    "svg", "g", "path", "rect", "circle", "line", "polygon", "polyline", "text", "tspan", "title",
    "style", "defs", "marker", "clipPath",
}  # fmt: skip


def hostile(history: History) -> History:
    """The same history under other names."""
    found = History()
    for table in ("sent", "deliveries", "groups", "epochs", "events"):
        rows = getattr(history, table)
        for row in rows:
            old = {name: getattr(row, name) for name in row.__struct_fields__}
            new = {key: NAMES.get(value, value) for key, value in old.items() if key != "kind"}
            if table == "epochs":
                new |= {"protocol": NAMES["a"], "reason": NAMES["b"]}
            getattr(found, table).append(replace(row, **new))
    return found


@pytest.fixture(scope="module")
def page() -> Iterator[ServedPage]:
    case = next(c for c in known_cases("pairwise_order") if c.expected.get("pairwise_order"))
    history = hostile(case.history)
    assert {row.site for row in history.deliveries} >= {NAMES["a"], NAMES["b"]}
    shown = Dashboard(NAMES["a"], Access(local=True, secure=False, token=""), parse_line)
    shown.runs.add(trace_of_history(history, f"history {NAMES['b']}"), history, keep=True)
    with served(shown) as found:
        yield found


def texts(svg: str) -> str:
    """All text of a drawing, which must be drawn of harmless parts alone."""
    tree = ElementTree.fromstring(svg)
    for element in tree.iter():
        kind = element.tag.rpartition("}")[2]
        assert kind in PARTS, kind
        assert not [name for name in element.attrib if name.startswith("on") or "href" in name]
    return "".join(tree.itertext())


def test_drawings_have_the_names_as_text(page: ServedPage) -> None:
    picture = page.get("/api/replay/1/picture?start=0&stop=1000000&width=900").json()
    assert NAMES["a"] in texts(picture["svg"])
    forest = page.get("/api/replay/1/forest?at=0").json()["svg"]
    assert NAMES["b"] in texts(forest)
    witnesses = page.get("/api/replay/1/witnesses?causal=0").json()
    (found,) = [one for one in witnesses["pictures"] if one["check"] == "pairwise_order"]
    assert NAMES["c"] in texts(found["svg"])


def test_answers_with_names_are_no_documents(page: ServedPage) -> None:
    for path in ("/api/replay", "/api/replay/1", "/api/replay/1/state?at=0"):
        found = page.get(path)
        assert found.headers["content-type"] == "application/json"
        assert NAMES["a"] in str(found.json()) or NAMES["b"] in str(found.json())
    document = page.get("/replay").body.decode()
    assert NAMES["a"] not in document
    assert "&lt;img src=x" in document
