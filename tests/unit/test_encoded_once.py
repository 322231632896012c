"""What a database takes rows as is made once for them, and goes with them."""

import gc
import weakref

import pyarrow as pa

from ducklake_core.catalog.inlined_store import encoded_once
from ducklake_core.model import Column, ColumnId
from ducklake_core.plan.inlined_rows import InlinedRows

COLUMNS = (Column(ColumnId(1), "id", "int64"),)


def test_rows_are_encoded_once_and_others_for_themselves() -> None:
    encoded: list[int] = []

    @encoded_once
    def encode(rows: InlinedRows) -> list[int]:
        encoded.append(rows.rows.num_rows)
        return [value.as_py() for value in rows.rows["id"]]

    some, others = (InlinedRows(pa.table({"id": ids}), COLUMNS) for ids in ([1, 2], [1, 2]))

    assert encode(some) is encode(some)
    assert encode(others) == [1, 2]
    assert encoded == [2, 2]


def test_what_was_encoded_goes_with_its_rows() -> None:
    class Encoded:
        """Something that can be referred to weakly."""

    encode = encoded_once(lambda _: Encoded())
    rows = InlinedRows(pa.table({"id": [1]}), COLUMNS)
    kept = weakref.ref(encode(rows))
    assert kept() is not None

    del rows
    gc.collect()

    assert kept() is None
