"""Each type has one kind, which its columns know."""

import pickle
from dataclasses import replace

import pytest

from ducklake_core.model import Column, ColumnId
from ducklake_core.spec.kinds import DecimalParameters, Kind, decimal_parameters, kind_of
from ducklake_core.spec.types import SCALARS


@pytest.mark.parametrize("type_", SCALARS)
def test_each_type_but_those_of_duckdb_alone_has_a_kind_that_says_what_it_is(type_: str) -> None:
    assert (kind_of(type_) is Kind.OPAQUE) == (type_ in ("variant", "unknown"))


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        ("decimal(9,2)", Kind.DECIMAL),
        ("decimal", Kind.OPAQUE),
        ("json", Kind.TEXT),
        ("timetz", Kind.TIMETZ),
        ("uint128", Kind.INTEGER),
        ("timestamp_ns", Kind.TIMESTAMP),
        ("struct", Kind.STRUCT),
        ("no type", Kind.OPAQUE),
    ],
)
def test_kind_of_a_type_text(type_: str, kind: Kind) -> None:
    assert kind_of(type_) is kind


def test_column_has_the_kind_of_its_type_also_when_changed_or_sent() -> None:
    column = Column(ColumnId(1), "c", "int32")

    changed = replace(column, type="varchar")

    assert (column.kind, changed.kind) == (Kind.INTEGER, Kind.TEXT)
    assert pickle.loads(pickle.dumps(changed)).kind is Kind.TEXT  # noqa: S301 # our own bytes


@pytest.mark.parametrize(("precision", "scale", "whole", "fits"), [(18, 4, 14, True), (19, 19, 0, False)])
def test_decimal_tells_its_digits(precision: int, scale: int, whole: int, fits: bool) -> None:  # noqa: FBT001 # a row
    found = decimal_parameters(f"decimal({precision},{scale})")

    assert found == DecimalParameters(precision, scale)
    assert (found.whole_digits, found.fits_int64) == (whole, fits)
