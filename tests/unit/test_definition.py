"""Changes of a table's definition, as values."""

from uuid import UUID

import pytest

from ducklake_core.errors import InvalidInput, ObjectExists, ObjectNotFound
from ducklake_core.model import SchemaId, TableId, TableVersion
from ducklake_core.plan import definition
from ducklake_core.plan.definition_rows import has_new_shape, has_new_version
from ducklake_core.spec.types import build_columns


@pytest.fixture
def table() -> TableVersion:
    columns = build_columns(
        {"id": "int32", "st": "struct(a int32, b varchar)", "l": "struct(x int32)[]", "ts": "timestamp"}
    )
    return TableVersion(
        table_id=TableId(1),
        table_uuid=UUID(int=1),
        schema_id=SchemaId(0),
        schema_name="main",
        name="t",
        path="t/",
        path_is_relative=True,
        directory="/lake/main/t/",
        columns=columns,
        next_column_id=10,
    )


def test_ids_are_given_depth_first_and_never_again(table: TableVersion) -> None:
    ids = {node.name: node.column_id for node in table.nodes().values()}
    assert ids == {"id": 1, "st": 2, "a": 3, "b": 4, "l": 5, "element": 6, "x": 7, "ts": 8}

    changed = definition.add_column(definition.drop_column(table, "ts"), "n", "struct(p int8, q int8)")

    added = changed.column("n")
    assert added is not None
    assert [node.column_id for node in added.walk()] == [10, 11, 12]
    assert changed.next_column_id == 13


def test_fields_inside_lists_and_structs_are_reached_by_path(table: TableVersion) -> None:
    changed = definition.rename_column(definition.promote_column(table, "l.element.x", "int64"), "L.ELEMENT.X", "y")

    assert definition.find_column(changed, ["l", "element", "y"]).type == "int64"
    assert definition.add_column(table, "l.element.z", "int8").nodes()[10].name == "z"  # type: ignore[index] # a column id


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (lambda t: definition.add_column(t, "ID", "int8"), ObjectExists, "ID"),
        (lambda t: definition.add_column(t, "st.A", "int8"), ObjectExists, "A"),
        (lambda t: definition.add_column(t, "id.x", "int8"), InvalidInput, "int32"),
        (lambda t: definition.add_column(t, "x", "int33"), InvalidInput, "int33"),
        (lambda t: definition.add_column(t, "x", "int8", nulls_allowed=False), InvalidInput, "default"),
        (lambda t: definition.drop_column(t, "idd"), ObjectNotFound, "did you mean 'id'"),
        (lambda t: definition.drop_column(t, "l.element"), InvalidInput, "last one"),
        (lambda t: definition.rename_column(t, "l.element", "e"), InvalidInput, "part of a list"),
        (lambda t: definition.rename_column(t, "id", "TS"), ObjectExists, "TS"),
        (lambda t: definition.promote_column(t, "id", "int16"), InvalidInput, "from int32 to int16"),
        (lambda t: definition.promote_column(t, "id", "varchar"), InvalidInput, "lose no value"),
        (lambda t: definition.promote_column(t, "st", "int32"), InvalidInput, "struct"),
        (lambda t: definition.set_default(t, "st", {"a": 1}), InvalidInput, "struct"),
        (lambda t: definition.set_nulls_allowed(t, "st.a", allowed=False), InvalidInput, "nested"),
        (lambda t: definition.set_comment(t, "x", "st.a"), InvalidInput, "nested"),
        (lambda t: definition.set_partitioning(t, ["day(id)"], -1), InvalidInput, "id"),
        (lambda t: definition.set_sort_order(t, ["nope DESC"], -1), ObjectNotFound, "nope"),
        (lambda t: definition.set_sort_order(t, ["st.a"], -1), InvalidInput, "only columns"),
    ],
)
def test_impossible_changes_are_refused_by_name(table: TableVersion, change: object, error: type, match: str) -> None:
    with pytest.raises(error, match=match):
        change(table)  # type: ignore[operator] # a function of the list above


def test_columns_in_use_by_partitioning_or_sort_order_stay(table: TableVersion) -> None:
    used = definition.set_sort_order(definition.set_partitioning(table, ["day(ts)"], -1), ["id DESC"], -2)

    with pytest.raises(InvalidInput, match="partitions"):
        definition.drop_column(used, "ts")
    with pytest.raises(InvalidInput, match="sorts"):
        definition.drop_column(used, "id")


def test_a_renamed_column_is_renamed_in_the_sort_order(table: TableVersion) -> None:
    ordered = definition.set_sort_order(table, ["id DESC NULLS FIRST", "ts"], -1)

    renamed = definition.rename_column(ordered, "id", "Key 1")

    assert renamed.sort_order is not None
    assert [k.expression for k in renamed.sort_order.keys] == ['"Key 1"', "ts"]
    assert renamed.sort_order.keys[0].descending
    assert renamed.sort_order.keys[0].nulls_first


def test_only_columns_name_and_partitioning_make_a_new_inlined_table(table: TableVersion) -> None:
    assert has_new_shape(table, definition.rename_column(table, "st.a", "aa"))
    assert has_new_shape(table, definition.set_partitioning(table, ["id"], -1))
    for same in (
        definition.set_default(table, "id", 5),
        definition.set_nulls_allowed(table, "id", allowed=False),
        definition.set_comment(table, "hello"),
        definition.set_sort_order(table, ["id"], -1),
    ):
        assert not has_new_shape(table, same)


def test_comments_and_sort_order_make_no_schema_version(table: TableVersion) -> None:
    assert has_new_version(table, definition.set_default(table, "id", 5))
    assert not has_new_version(table, definition.set_comment(table, "hello", "id"))
    assert not has_new_version(table, definition.set_sort_order(table, ["id"], -1))
