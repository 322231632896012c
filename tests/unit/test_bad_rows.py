"""Rows that a table cannot hold are found one by one; the others are kept."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from ducklake_core.errors import SchemaMismatch
from ducklake_core.spec.types import build_columns
from ducklake_sinks.bad_rows import fitting_rows, plain_rows
from ducklake_sinks.dead_letters import BadRow, BatchInfo, dead_letters

COLUMNS = build_columns({"id": "int32", "u": "uuid"})
UUID = "00000000-0000-0000-0000-000000000001"


def split(data: pa.Table) -> tuple[pa.Table, list[BadRow]]:
    return fitting_rows(data, COLUMNS, "t", fill_missing=False, quarantines=True)


def test_bad_rows_are_singled_out() -> None:
    ids = [1, 2**40, 3, 4, 5, -(2**40), 7]
    data = pa.table({"id": pa.array(ids, pa.int64()), "u": [UUID] * 6 + ["no uuid"]})

    good, bad = split(data)

    assert sorted(good.column("id").to_pylist()) == [1, 3, 4, 5]
    assert [one.row["id"] for one in bad] == [2**40, -(2**40), 7]
    assert "t.id" in bad[0].reason
    assert "t.u" in bad[2].reason


def test_good_rows_alone_stay_as_they_are() -> None:
    good, bad = split(pa.table({"id": pa.array([1, 2], pa.int32()), "u": [UUID] * 2}))

    assert (good.num_rows, bad) == (2, [])


def test_all_rows_may_be_bad() -> None:
    good, bad = split(pa.table({"id": pa.array([2**40] * 3), "u": [UUID] * 3}))

    assert (good.num_rows, len(bad)) == (0, 3)
    assert good.schema.names == ["id", "u"]


def test_column_of_another_kind_is_no_bad_row() -> None:
    with pytest.raises(SchemaMismatch, match=r"t\.id"):
        split(pa.table({"id": ["x"], "u": [UUID]}))


def test_letter_has_the_row_as_json() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    data = pa.Table.from_pylist([{"id": 1, "b": b"\0\xff", "at": at, "l": [{"x": "é"}]}])
    [row] = plain_rows(data)

    letters = dead_letters(BatchInfo("s", 7, at), "main.t", [BadRow(row, "why")])

    [letter] = letters.to_pylist()
    assert (letter["stream"], letter["batch_id"], letter["table_name"], letter["reason"]) == ("s", 7, "main.t", "why")
    assert json.loads(letter["row"]) == {"id": 1, "b": "AP8=", "at": str(at), "l": [{"x": "é"}]}


def test_row_that_python_cannot_hold_is_kept_all_the_same() -> None:
    data = pa.table(
        {
            "late": pa.array([2**62], pa.int64()).cast(pa.timestamp("us")),
            "broken": pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers()),
            "nan": [float("nan")],
            "inf": [[float("-inf")]],
        }
    )

    [row] = plain_rows(data)

    assert row["nan"] == "nan"
    assert row["inf"] == ["-inf"]
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["late"]
    assert row["broken"] == "0xff"
