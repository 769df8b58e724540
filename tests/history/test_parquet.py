"""Histories as folders of Parquet files: what is written is read, in files as documented."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ordercast.check.report import check_history
from ordercast.history.digest import history_hash
from ordercast.history.reader import read_history
from ordercast.history.rows import Delivered, History, Meta
from ordercast.history.tables import REQUEST, TABLES
from ordercast.history.writer import write_history
from ordercast.model.errors import ConfigError
from support.cases.faults import any_history
from support.cases.fuzz import named, right_history, together


def some_history(seed: int = 5) -> History:
    history = right_history(random.Random(seed))
    history.meta = Meta(code_version="0.1.0", config={"groups": {"g": ["a"]}}, seed=seed)
    return history


def sorted_rows(history: History) -> dict[str, list[str]]:
    return {name: sorted(map(repr, rows)) for name, rows in history.tables().items()}


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 100_000))
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("history") / "h"
    history = any_history(seed)
    write_history(history, folder)
    again = read_history(folder)
    assert sorted_rows(again) == sorted_rows(history)
    assert again.meta == history.meta
    assert history_hash(again) == history_hash(history)
    found, expected = check_history(again, causal=True), check_history(history, causal=True)
    assert found.verdicts == expected.verdicts


def test_runs_digests_and_keys_survive(tmp_path: Path) -> None:
    one, two = named(some_history(1), "r1"), named(some_history(2), "r2")
    history = together([one, two])
    history.deliveries[0] = replace(history.deliveries[0], order_key=b"\x00\xff", digest=-(2**63))
    history.deliveries[1] = replace(history.deliveries[1], digest=None)
    write_history(history, tmp_path / "h")
    assert sorted_rows(read_history(tmp_path / "h")) == sorted_rows(history)


def test_meta_survives(tmp_path: Path) -> None:
    history = some_history()
    write_history(history, tmp_path / "h")
    assert read_history(tmp_path / "h").meta == history.meta
    assert json.loads((tmp_path / "h" / "meta.json").read_text())["schema_version"] == 1


def test_files_are_sorted_compressed_and_have_the_documented_columns(tmp_path: Path) -> None:
    history = some_history()
    assert any(row.client for row in history.sent)
    random.Random(1).shuffle(history.deliveries)
    write_history(history, tmp_path / "h")
    used = ("digest", *REQUEST)
    for name, table in TABLES.items():
        (path,) = (tmp_path / "h" / name).iterdir()
        file = pq.ParquetFile(path)
        expected = [c for c in table.columns if not c.optional or c.name in used]
        assert file.schema_arrow.names == [column.name for column in expected]
        assert [str(kind) for kind in file.schema_arrow.types] == [c.type for c in expected]
        assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    rows = pq.read_table(tmp_path / "h" / "deliveries").to_pylist()
    order = [(row["site"], row["position"]) for row in rows]
    assert order == sorted(order)


def test_columns_of_requests_are_left_out_where_no_client_sent_anything(tmp_path: Path) -> None:
    nobody = dict.fromkeys(REQUEST)
    history = some_history()
    history.sent = [replace(row, **nobody) for row in history.sent]
    history.deliveries = [replace(row, **nobody) for row in history.deliveries]
    write_history(history, tmp_path / "h")
    for name in ("sent", "deliveries"):
        columns = pq.read_schema(tmp_path / "h" / name / "part-00000.parquet").names
        assert not {*REQUEST} & set(columns)
    assert sorted_rows(read_history(tmp_path / "h")) == sorted_rows(history)


def test_nothing_but_the_history_is_left_behind(tmp_path: Path) -> None:
    write_history(some_history(), tmp_path / "h")
    assert [path.name for path in tmp_path.iterdir()] == ["h"]
    names = sorted(path.name for path in (tmp_path / "h").rglob("*"))
    assert names == sorted(["meta.json", *TABLES, *["part-00000.parquet"] * 5])


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    history = some_history()
    history.deliveries.append(replace(history.deliveries[0], site=None))
    with pytest.raises(TypeError):
        write_history(history, tmp_path / "h")
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled_and_a_full_one_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "h"
    folder.mkdir()
    write_history(some_history(1), folder)
    with pytest.raises(ConfigError, match="there is a history already"):
        write_history(some_history(2), folder)
    write_history(some_history(2), folder, replace=True)
    assert sorted_rows(read_history(folder)) == sorted_rows(some_history(2))
    assert [path.name for path in tmp_path.iterdir()] == ["h"]


def test_only_a_history_is_ever_replaced(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    with pytest.raises(ConfigError, match="is not empty"):
        write_history(some_history(), tmp_path / "letters", replace=True)
    with pytest.raises(ConfigError, match="is a file"):
        write_history(some_history(), tmp_path / "letters" / "dear.txt", replace=True)


def test_a_table_may_be_any_number_of_files_at_any_depth(tmp_path: Path) -> None:
    history = some_history()
    write_history(history, tmp_path / "h")
    part = tmp_path / "h" / "deliveries" / "part-00000.parquet"
    rows = pq.read_table(part)
    deeper = part.parent / "more"
    deeper.mkdir()
    pq.write_table(rows.slice(0, 3), deeper / "a.parquet")
    pq.write_table(rows.slice(3), part.parent / "b.parquet")
    part.unlink()
    (part.parent / "_SUCCESS").write_bytes(b"")
    (part.parent / ".b.parquet.crc").write_bytes(b"crc")
    (part.parent / "_temporary").mkdir()
    (part.parent / "_temporary" / "x.parquet").write_bytes(b"half")
    assert sorted_rows(read_history(tmp_path / "h")) == sorted_rows(history)


def test_other_writers_widths_and_extra_columns_are_read(tmp_path: Path) -> None:
    history = some_history()
    write_history(history, tmp_path / "h")
    part = tmp_path / "h" / "deliveries" / "part-00000.parquet"
    rows = pq.read_table(part)
    changed = {
        "site": rows["site"].dictionary_encode(),
        "origin": rows["origin"].cast(pa.large_string()),
        "position": rows["position"].cast(pa.int32()),
        "colour": pa.array(["red"] * len(rows)),
    }
    pq.write_table(pa.table({**{n: rows[n] for n in rows.column_names}, **changed}), part)
    assert sorted_rows(read_history(tmp_path / "h")) == sorted_rows(history)


def test_a_detail_left_null_is_an_empty_one(tmp_path: Path) -> None:
    history = some_history()
    write_history(history, tmp_path / "h")
    part = tmp_path / "h" / "events" / "part-00000.parquet"
    rows = pq.read_table(part).to_pylist()
    plain = [{**row, "detail": None if row["kind"] != "gap" else row["detail"]} for row in rows]
    pq.write_table(pa.Table.from_pylist(plain), part)
    assert sorted_rows(read_history(tmp_path / "h")) == sorted_rows(history)


WITHOUT_PYARROW = """
import sys
sys.modules["pyarrow"] = None
from pathlib import Path
import ordercast.check.report, ordercast.history.reader, ordercast.history.rows
from ordercast.history.digest import history_hash
from ordercast.history.writer import write_history
from ordercast.model.errors import ConfigError
print(history_hash(ordercast.history.rows.History()))
for act in (
    lambda: write_history(ordercast.history.rows.History(), Path("h")),
    lambda: ordercast.history.reader.read_history(Path("h")),
):
    try:
        act()
    except ConfigError as error:
        print(error)
"""


def test_without_pyarrow_all_but_files_works_and_the_extra_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYARROW],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    hashed, *errors = done.stdout.splitlines()
    assert hashed == history_hash(History())
    assert len(errors) == 2
    assert all("the extra 'history'" in error for error in errors)
    assert list(tmp_path.iterdir()) == []


def test_names_are_read_as_one_object_each(tmp_path: Path) -> None:
    history = History()
    history.deliveries = [
        Delivered(f"s{i % 20:02}", i // 20 + 1, 1, 1, "g", "o", 1, i, i) for i in range(20_000)
    ]
    write_history(history, tmp_path / "h")
    again = read_history(tmp_path / "h")
    assert len(again.deliveries) == 20_000
    assert len({id(row.site) for row in again.deliveries}) == 20  # one object per name
