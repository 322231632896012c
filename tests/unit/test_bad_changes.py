"""Changes that cannot be applied are found one by one; those that can be are not taken for bad."""

from typing import Any

import pyarrow as pa
import pytest

from ducklake_core.errors import SchemaMismatch
from ducklake_core.spec.types import build_columns
from ducklake_sinks.bad_changes import fitting_changes
from ducklake_sinks.change_rules import IS_DELETE, ChangeRules
from ducklake_sinks.dead_letters import BadRow

COLUMNS = build_columns(pa.schema([("id", pa.int32()), pa.field("v", pa.string(), nullable=False)]))
RULES = ChangeRules(("id",), ("lsn",), except_columns=("op", "LSN"))


def change(id_: int | None, v: str | None, *, is_delete: bool = False, lsn: int | None = 1) -> dict[str, Any]:
    return {"id": id_, "v": v, "lsn": lsn, "op": "x", IS_DELETE: is_delete}


def parted(rules: ChangeRules, *changes: dict[str, Any]) -> tuple[list[int], list[BadRow]]:
    schema = pa.schema(
        [("id", pa.int64()), ("v", pa.string()), ("lsn", pa.int64()), ("op", pa.string()), (IS_DELETE, pa.bool_())]
    )
    good, bad = fitting_changes(pa.Table.from_pylist(list(changes), schema), COLUMNS, "main.t", rules)
    return good["id"].to_pylist(), bad


def test_each_bad_change_has_its_reason_and_shows_nothing_of_ours() -> None:
    good, bad = parted(
        RULES, change(1, "a"), change(None, "b"), change(3, "c", lsn=None), change(4, None), change(1 << 40, "e")
    )

    assert good == [1]
    assert [one.row["v"] for one in bad] == ["b", "c", None, "e"]
    assert not any(IS_DELETE in one.row for one in bad)
    reasons = [one.reason for one in bad]
    assert reasons[:2] == ["a null in the key column 'id'", "a null in the sequence column 'lsn'"]
    assert "'v'" in reasons[2]
    assert "'main.t.id'" in reasons[3]


def test_delete_needs_a_key_that_fits_and_nothing_else() -> None:
    good, bad = parted(RULES, change(1, None, is_delete=True), change(1 << 40, None, is_delete=True))

    assert good == [1]
    assert [one.row["id"] for one in bad] == [1 << 40]


def test_rows_that_are_keys_alone_lack_nothing() -> None:
    rows = pa.table({"id": [1, 2]})

    good, bad = fitting_changes(rows, COLUMNS, "main.t", ChangeRules(("id",), deletes_all=True))

    assert (good["id"].to_pylist(), bad) == ([1, 2], [])


def test_null_that_leaves_a_value_is_no_bad_row() -> None:
    ignoring = ChangeRules(("id",), except_columns=("op", "lsn"), ignore_null_updates=True)

    assert parted(ignoring, change(1, None)) == ([1], [])


def test_key_that_is_no_text_is_a_bad_row_of_a_delete_too() -> None:
    broken = pa.StringArray.from_buffers(1, pa.py_buffer(b"\x00\x00\x00\x00\x01\x00\x00\x00"), pa.py_buffer(b"\xff"))
    rows = pa.table([broken, pa.array([True])], names=["k", IS_DELETE])

    good, bad = fitting_changes(rows, build_columns(pa.schema([("k", pa.string())])), "main.t", ChangeRules(("k",)))

    assert good.num_rows == 0
    assert "no UTF-8" in bad[0].reason


def test_sequence_must_fit_where_versions_begin() -> None:
    columns = build_columns({"id": "int32", "v": "varchar", "__START_AT": "int32", "__END_AT": "int32"})
    rules = ChangeRules(("id",), ("lsn",), except_columns=("op", "lsn"), stored_as_scd_type=2)
    rows = pa.table({"id": [1, 2], "v": ["a", "b"], "LSN": [1, 1 << 40], "op": ["u", "u"]})

    good, bad = fitting_changes(rows, columns, "main.t", rules)

    assert good["id"].to_pylist() == [1]
    assert "'main.t.lsn'" in bad[0].reason


def test_column_that_is_missing_is_named() -> None:
    with pytest.raises(SchemaMismatch, match="lack the sequence column 'lsn'"):
        fitting_changes(pa.table({"id": [1]}), COLUMNS, "main.t", RULES)
