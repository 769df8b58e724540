"""docs/history.md tells of the columns and kinds that the code has, and of no others."""

import re
from pathlib import Path

import pytest

from ordercast.history.rows import KINDS, Meta
from ordercast.history.tables import TABLES, Table

PAGE = (Path(__file__).parents[2] / "docs" / "history.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"\n#+ ", PAGE.split(f"# {title}\n", 1)[1], maxsplit=1)[0]


def cells(text: str, header: str) -> list[list[str]]:
    """The rows of the table with this header: the first two cells of each."""
    lines = [*text.split(f"{header}\n", 1)[1].splitlines()[1:], ""]
    rows = [line.strip("| ").split("|") for line in lines[: lines.index("")]]
    return [[cell.strip() for cell in row[:2]] for row in rows]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_the_page_lists_the_columns_of_each_table_with_their_types(table: Table) -> None:
    documented = []
    for names, types in cells(section(table.name), "| column | type | |"):
        found = re.findall(r"`(\w+)`", names)
        kinds = types.split(", ")
        documented += list(zip(found, kinds if len(kinds) > 1 else kinds * len(found), strict=True))
    assert documented == [(c.name, c.type + "?" * c.optional) for c in table.columns]


def test_the_page_lists_the_kinds_of_events() -> None:
    header = "| kind | means | `position`, `attempt`, `epoch` | `detail` |"
    assert [kind.strip("`") for kind, _ in cells(section("events"), header)] == list(KINDS)


def test_the_page_lists_the_fields_of_meta() -> None:
    fields = [field.strip("`") for field, _ in cells(section("meta.json"), "| field | |")]
    assert tuple(fields) == Meta.__struct_fields__
