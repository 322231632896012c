"""What a filter may say, and what is said of one that may not."""

import pickle

import pyarrow as pa
import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.plan.filter_sql import parse_filter
from ducklake_core.plan.predicates import (
    Comparison,
    Constant,
    FieldRef,
    IsIn,
    Like,
    Not,
    Operator,
    Predicate,
    UnlessNull,
    referenced_columns,
)
from ducklake_core.spec.types import build_columns

COLUMNS = build_columns(
    {
        "Id": "int32",
        "amount": "decimal(9,2)",
        "name": "varchar",
        "day": "date",
        "at": "timestamptz",
        "s": "struct(a int32, b struct(c varchar))",
        "m": "map(varchar, int32)",
        "l": "int32[]",
        "took": "interval",
        "ok": "boolean",
        "x.y": "float64",
    }
)
ID = FieldRef(COLUMNS[0], ("Id",))
NAME = FieldRef(COLUMNS[2], ("name",))


def parse(sql: str) -> Predicate:
    return parse_filter(sql, COLUMNS)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("iD = 3", Comparison(ID, Operator.EQ, pa.scalar(3, pa.int32()))),
        ('3 < "id"', Comparison(ID, Operator.GT, pa.scalar(3, pa.int32()))),
        ("id < 1.5", Comparison(ID, Operator.LE, pa.scalar(1, pa.int32()))),
        ("id >= 1.5", Comparison(ID, Operator.GT, pa.scalar(1, pa.int32()))),
        ("id = 1.5", UnlessNull(ID, outcome=False)),
        ("id < 9999999999", UnlessNull(ID, outcome=True)),
        ("id IN (1, 2.5, NULL)", IsIn(ID, (pa.scalar(1, pa.int32()),), has_null=True)),
        ("id = NULL", Constant(None)),
        ("1 = 2", Constant(value=False)),
        ("name LIKE 'a%'", Like(NAME, "a%")),
        ("name LIKE 'a'", Comparison(NAME, Operator.EQ, pa.scalar("a"))),
        ("name NOT LIKE 'a%'", Not(Like(NAME, "a%"))),
        ("id = '7'::INTEGER", Comparison(ID, Operator.EQ, pa.scalar(7, pa.int32()))),
    ],
)
def test_filters_become_predicates_in_the_type_of_the_column(sql: str, expected: Predicate) -> None:
    assert parse(sql) == expected


def test_a_filter_knows_the_columns_it_needs() -> None:
    predicate = parse("id = 1 AND (s.b.c = 'x' OR NOT s['A'] > 2) AND \"X.Y\" IS NULL AND TRUE")

    assert referenced_columns(predicate) == {"Id", "s", "x.y"}


def test_a_filter_can_be_sent_to_executors() -> None:
    predicate = parse("id IN (1, 2) AND amount > 1.5 AND at < '2024-01-01 00:00:00+00' AND name LIKE '%x'")

    assert pickle.loads(pickle.dumps(predicate)) == predicate  # noqa: S301 # our own bytes


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("id + 1 = 2", "'id + 1' is not supported; supported are comparisons"),
        ("lower(name) = 'x'", "is not supported"),
        ("id = (SELECT 1)", "is not supported"),
        ("id IN (SELECT 1)", "is not supported"),
        ("id IN (name)", "is not supported"),
        ("id::VARCHAR = '1'", "is not supported"),
        ("TRY_CAST('1' AS INTEGER) = id", "is not supported"),
        ("name LIKE 'a%' ESCAPE '$'", "is not supported"),
        ("name ILIKE 'a%'", "is not supported"),
        ("id = 0x10", "is not supported"),
        ("id = 1; DROP TABLE t", "is not supported"),
        ("day = CURRENT_DATE", "is not supported"),
        ("l[1] = 1", "is not supported"),
        ("m['k'] = 1", "column 'm' has no fields: it is of type 'map'"),
        ("name = 5", "cannot compare column 'name' of type 'varchar' with '5'"),
        ("ok = 1", "cannot compare column 'ok' of type 'boolean'"),
        ("day = 'soon'", "'soon', which is no value of that type"),
        ("day > TIMESTAMP '2024-01-01 12:00:00'", "of type 'date' with a 'timestamp'"),
        ("id = 'x'", "no value of that type"),
        ("id = 1e300", "write it without an exponent"),
        ("amount = 1e0", "write it without an exponent"),
        ("id = 300::TINYINT", "300 is no value of type 'int8'"),
        ("took > '1 day'", "can only be tested for NULL"),
        ("s = 1", "can only be tested for NULL"),
        ("id = name", "cannot compare column 'Id' of type 'int32' with 'name' of type 'varchar'"),
        ("id", "'id' is no condition"),
        ("5", "'5' is no condition"),
        ("'a' = 'a'", "compares no column"),
        ("nme = 'x'", "there is no column 'nme'; did you mean 'name'?"),
        ("zzzzz = 'x'", "there is no column 'zzzzz'; there are 'Id', 'amount'"),
        ("s.bb = 'x'", "there is no field of 's' 'bb'; did you mean 'b'?"),
        ("id =", "cannot parse the filter"),
        ("", "cannot parse the filter"),
        ("id = 'x", "cannot parse the filter"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(sql: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(sql)

    assert message in caught.value.message
    assert caught.value.filter == sql
