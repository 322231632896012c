"""A file has dictionaries of leaves whose values occur again, and of no others."""

import pyarrow as pa

from ducklake_core.files.dictionaries import repetitive_leaves
from ducklake_core.spec.types import build_columns

MANY = 4000


def test_only_leaves_that_repeat_values_are_chosen() -> None:
    rows = pa.table(
        {
            "id": range(MANY),
            "kind": [f"kind {n % 7}" for n in range(MANY)],
            "twice": [n // 2 for n in range(MANY)],
            "nothing": pa.nulls(MANY, pa.float64()),
            "place": pa.array([{"x": float(n), "y": n % 3} for n in range(MANY)]),
            "tags": pa.array([["a", "b"][: n % 3] for n in range(MANY)]),
        }
    )

    found = repetitive_leaves(build_columns(rows.schema), rows)

    assert found == ["kind", "twice", "nothing", "place.y", "tags.list.element"]


def test_of_few_values_nobody_can_tell() -> None:
    rows = pa.table({"id": range(10)})

    assert repetitive_leaves(build_columns(rows.schema), rows) == ["id"]
