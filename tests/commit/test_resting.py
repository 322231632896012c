"""Definitions that were checked against rows: rows that came since forbid them."""

from collections.abc import Iterator

import pytest

from ducklake_core import Lake
from ducklake_core.errors import CommitConflict, InvalidInput
from tests.fixtures.catalogs import Catalog


@pytest.fixture
def lakes(catalog: Catalog) -> Iterator[tuple[Lake, Lake]]:
    mine = Lake.create(catalog.url, catalog.data_path)
    mine.create_table("t", {"a": "int32", "x": "float32"})
    mine.append("t", [{"a": 1, "x": 0.5}])
    other = Lake.open(catalog.url)
    yield mine, other
    mine.close()
    other.close()


def test_nulls_are_not_forbidden_beside_an_insert(lakes: tuple[Lake, Lake]) -> None:
    mine, other = lakes
    tx = mine.transaction()
    tx.set_not_null("t", "a")

    head = other.append("t", [{"a": None, "x": 1.0}])

    assert head is not None
    with pytest.raises(CommitConflict, match=f"had rows inserted in snapshot {head.snapshot_id}"):
        tx.commit()
    assert other.table("t").schema.field("a").nullable


def test_bounds_are_not_restated_beside_an_insert(lakes: tuple[Lake, Lake]) -> None:
    mine, other = lakes
    tx = mine.transaction()
    tx.promote_column("t", "x", "float64")

    other.append("t", [{"a": 2, "x": 0.25}])

    with pytest.raises(CommitConflict, match="had rows inserted"):
        tx.commit()


def test_other_alterations_go_on_beside_an_insert(lakes: tuple[Lake, Lake]) -> None:
    mine, other = lakes
    tx = mine.transaction()
    tx.add_column("t", "b", "int64")

    other.append("t", [{"a": 2, "x": 0.25}])
    tx.commit()

    assert other.table("t").count() == 2
    assert other.table("t").schema.names == ["a", "x", "b"]


def test_nulls_are_not_forbidden_where_there_are_some(lakes: tuple[Lake, Lake]) -> None:
    mine, _ = lakes
    mine.append("t", [{"a": None, "x": 1.0}])

    with pytest.raises(InvalidInput, match=r"'a' of 'main.t' has 1 null"):
        mine.set_not_null("t", "a")
