"""Histories that cannot be read: one line each, with the file, the field and the value."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordercast.history.reader import read_history
from ordercast.history.tables import TABLES
from ordercast.history.writer import write_history
from ordercast.model.errors import ConfigError
from support.cases.fuzz import right_history

PART = "part-00000.parquet"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(right_history(random.Random(5)), tmp_path / "h")
    return tmp_path / "h"


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        read_history(folder)
    line = str(caught.value)
    assert "\n" not in line
    assert str(folder) in line
    return line


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    pq.write_table(change(pq.read_table(path)), path)


def test_a_folder_that_is_not_there_or_is_a_file_or_is_empty(tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "none")
    (tmp_path / "file").write_text("")
    assert "is a file" in refusal(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert "is empty" in refusal(tmp_path / "empty")


@pytest.mark.parametrize("table", TABLES)
def test_a_missing_or_empty_table(folder: Path, table: str) -> None:
    (folder / table / PART).unlink()
    assert refusal(folder).startswith(f"{folder / table}: there is no Parquet file")
    (folder / table).rmdir()
    assert refusal(folder).startswith(f"{folder / table}: the table is missing")


REQUIRED = [(t.name, c.name) for t in TABLES.values() for c in t.columns if not c.optional]


@pytest.mark.parametrize(("table", "column"), REQUIRED)
def test_a_missing_column(folder: Path, table: str, column: str) -> None:
    path = folder / table / PART
    rewrite(path, lambda rows: rows.drop_columns([column]))
    line = refusal(folder)
    assert line.startswith(f"{path}: field {column!r}")
    assert "is missing" in line


@pytest.mark.parametrize(("table", "column"), REQUIRED)
def test_a_column_of_another_type(folder: Path, table: str, column: str) -> None:
    path = folder / table / PART

    def as_float(rows: Any) -> Any:
        at = rows.column_names.index(column)
        return rows.set_column(at, column, pa.array([0.5] * len(rows)))

    rewrite(path, as_float)
    line = refusal(folder)
    assert line.startswith(f"{path}: field {column!r}: type double instead of ")


@pytest.mark.parametrize(
    ("table", "column", "kind"),
    [
        ("deliveries", "position", pa.string()),
        ("deliveries", "digest", pa.string()),
        ("deliveries", "epoch", pa.uint64()),
        ("deliveries", "client", pa.binary()),
        ("sent", "request", pa.string()),
        ("sent", "size", pa.int64()),
    ],
)
def test_types_that_would_lose_something(folder: Path, table: str, column: str, kind: Any) -> None:
    path = folder / table / PART

    def as_kind(rows: Any) -> Any:
        at = rows.column_names.index(column)
        return rows.set_column(at, column, rows[column].cast(kind))

    rewrite(path, as_kind)
    assert refusal(folder).startswith(f"{path}: field {column!r}: type {kind} instead of ")


def test_a_null_where_a_value_must_be(folder: Path) -> None:
    path = folder / "deliveries" / PART

    def without_third(rows: Any) -> Any:
        plain = rows.to_pylist()
        plain[2]["seq"] = None
        return pa.Table.from_pylist(plain)

    rewrite(path, without_third)
    assert refusal(folder) == f"{path}: field 'seq': null in row 3"


@pytest.mark.parametrize("keep", [0, 3, 100, -1])
def test_a_truncated_file(folder: Path, keep: int) -> None:
    path = folder / "deliveries" / PART
    path.write_bytes(path.read_bytes()[:keep])
    assert refusal(folder).startswith(f"{path}: cannot be read as Parquet: ")


def test_garbage_anywhere_in_a_file_never_gives_a_traceback(folder: Path) -> None:
    path = folder / "deliveries" / PART
    whole = path.read_bytes()
    rng = random.Random(7)
    lines = []
    for _ in range(200):
        spoilt = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
        path.write_bytes(spoilt)
        try:
            read_history(folder)
        except ConfigError as error:
            lines.append(str(error))
    assert len(lines) > 50
    assert all("\n" not in line for line in lines)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema_version": 2}, "field 'schema_version': 2 is not known (this version reads 1)"),
        ({"schema_version": "1"}, "field 'schema_version': \"1\""),
        ({"schema_version": None}, "field 'schema_version': null"),
        ({"clock": "utv"}, "field 'clock': 'utv' is not a clock (did you mean 'utc'?)"),
        ({"seed": "seven"}, "field 'seed': \"seven\""),
        ({"config": [1]}, "field 'config': [1]"),
    ],
)
def test_a_wrong_field_of_meta(folder: Path, change: dict[str, Any], says: str) -> None:
    path = folder / "meta.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert refusal(folder).startswith(f"{path}: {says}")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[1, 2]", "must be an object, not [1, 2]"),
        ("{}", "field 'schema_version' is missing"),
    ],
)
def test_a_meta_that_is_none(folder: Path, text: str, says: str) -> None:
    path = folder / "meta.json"
    path.write_text(text)
    assert refusal(folder).startswith(f"{path}: {says}")
    path.write_bytes(b"\xff\xfe{}")
    assert refusal(folder).startswith(f"{path}: is not JSON")
    path.unlink()
    assert refusal(folder) == f"{path}: is missing"


def test_meta_may_say_more_and_less(folder: Path) -> None:
    (folder / "meta.json").write_text('{"schema_version": 1, "weather": "fine"}')
    assert read_history(folder).meta.clock == "virtual"


@pytest.mark.parametrize(
    ("table", "column", "value", "says"),
    [
        ("events", "kind", "endd", "field 'kind': 'endd' is not a kind of event (did you mean"),
        ("events", "detail", "?", "field 'detail': '?' is not {\"message\": [origin"),
        ("epochs", "deliver", "save", "field 'deliver': 'save' is not a level (did you mean"),
    ],
)
def test_a_value_that_is_not_known(
    folder: Path, table: str, column: str, value: str, says: str
) -> None:
    path = folder / table / PART

    def with_value(rows: Any) -> Any:
        plain = rows.to_pylist()
        if column == "detail":
            plain[0]["kind"] = "gap"
        plain[0][column] = value
        return pa.Table.from_pylist(plain)

    rewrite(path, with_value)
    line = refusal(folder)
    assert line.startswith(str(folder / table))
    assert says in line


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write a history") as caught:
        write_history(right_history(random.Random(1)), tmp_path / "file" / "h")
    assert "\n" not in str(caught.value)
