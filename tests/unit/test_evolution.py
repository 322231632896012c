"""Which changes let a table hold data of another schema."""

import pytest

from ducklake_core.plan.evolution import AddColumn, EvolutionStep, PromoteColumn, plan_evolution
from ducklake_core.spec.types import build_columns, parse_type, type_text


@pytest.mark.parametrize(
    ("old", "new", "steps"),
    [
        ({"a": "int32"}, {"a": "int32"}, ()),
        ({"a": "int32", "b": "int32"}, {"b": "int32", "A": "int32"}, ()),
        ({"a": "int32"}, {"a": "int32", "b c": "varchar"}, (AddColumn('"b c"', "varchar"),)),
        ({"a": "int32"}, {"a": "int64"}, (PromoteColumn('"a"', "int64"),)),
        ({"a": "int64"}, {"a": "int32"}, ()),
        ({"a": "int64"}, {"a": "varchar"}, ()),
        ({"a": "decimal(9,2)"}, {"a": "decimal(12,2)"}, (PromoteColumn('"a"', "decimal(12,2)"),)),
        (
            {"s": "struct(x int32)"},
            {"s": "struct(x int64, y varchar[])"},
            (PromoteColumn('"s"."x"', "int64"), AddColumn('"s"."y"', "varchar[]")),
        ),
        (
            {"l": "struct(x int32)[]"},
            {"l": "struct(x int32, z date)[]"},
            (AddColumn('"l"."element"."z"', "date"),),
        ),
        ({"m": "map(varchar, int32)"}, {"m": "map(varchar, int64)"}, (PromoteColumn('"m"."value"', "int64"),)),
        ({"s": "struct(x int32)"}, {"s": "int32"}, ()),
        ({}, {"n": 'struct("a""b" int32)'}, (AddColumn('"n"', 'struct("a""b" int32)'),)),
    ],
)
def test_steps(old: dict[str, str], new: dict[str, str], steps: tuple[EvolutionStep, ...]) -> None:
    assert plan_evolution(build_columns(old), build_columns(new)) == steps


@pytest.mark.parametrize(
    "text", ["int32", "decimal(9,2)", 'struct("a" int32[], "b.c" map(varchar, struct("x" date)))[]', "map(int64, blob)"]
)
def test_text_of_a_type_is_parsed_again(text: str) -> None:
    [column] = build_columns({"c": text})

    assert type_text(column) == text
    assert parse_type(type_text(column)) == parse_type(text)
