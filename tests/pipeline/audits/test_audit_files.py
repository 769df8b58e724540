"""What a task of the audit reads of a folder's files."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ordercast.history.tables import TABLES
from ordercast.model.errors import ConfigError
from ordercast.pipeline.audits import files
from ordercast.pipeline.audits.files import RowGroup, bundle, check_file
from support.cases.large import steady
from support.judges.parts import arrow_table


def written(path: Path) -> pa.Table:
    """Deliveries in several row groups, in other widths than ours, with columns nobody reads."""
    table = arrow_table("deliveries", steady(100).deliveries).drop_columns(["run"])
    narrow = table.set_column(
        table.column_names.index("attempt"), "attempt", table.column("attempt").cast(pa.int16())
    )
    other = narrow.set_column(
        narrow.column_names.index("site"), "site", narrow.column("site").dictionary_encode()
    )
    other = other.append_column("order_key", pa.nulls(len(other), pa.binary()))
    pq.write_table(other, path, row_group_size=70)
    return table


def test_row_groups_give_all_rows_once_with_our_types(tmp_path: Path) -> None:
    expected = written(tmp_path / "x.parquet")
    names, groups = check_file(tmp_path / "x.parquet", TABLES["deliveries"])
    assert "order_key" in names
    assert [group.rows for group in groups] == [70, 70, 70, 70, 20]
    pieces = [piece for group in groups for piece in group.tables(50)]
    assert max(piece.num_rows for piece in pieces) <= 50
    whole = pa.concat_tables(pieces)
    assert whole.equals(expected.cast(whole.schema).select(whole.column_names))
    assert whole.schema.field("attempt").type == pa.int64()
    assert whole.schema.field("site").type == pa.string()
    assert "order_key" not in whole.column_names


def test_a_task_reads_as_many_row_groups_as_it_has_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "ROWS_PER_TASK", 100)
    sizes = [60, 40, 1, 250, 30, 30, 40]
    groups = [RowGroup("x", "sent", number, rows) for number, rows in enumerate(sizes)]
    found = [[group.rows for group in own] for own in bundle(groups)]
    assert found == [[60, 40], [1], [250], [30, 30, 40]]
    assert bundle([]) == []


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    written(tmp_path / "x.parquet")
    _, groups = check_file(tmp_path / "x.parquet", TABLES["deliveries"])
    (tmp_path / "x.parquet").unlink()
    with pytest.raises(ConfigError, match=r"x\.parquet: cannot be read as Parquet: "):
        list(groups[0].tables(10))
