"""A line of CSV is decoded whole, or it has an error."""

import pytest
from pyspark.sql import SparkSession

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.csv_records import CsvDecoder
from ducklake_streaming.jobs.spark_ddl import parse_ddl
from tests.fixtures.records import record_frame

pytestmark = pytest.mark.slow

GOOD: list[tuple[bytes | None, tuple[int | None, str | None, str | None]]] = [
    (b"1,a,1.50", (1, "a", "1.50")),
    (b"1,a,1.50\r\n", (1, "a", "1.50")),
    (b'1,"a""b,\nc",', (1, 'a"b,\nc', None)),
    (b',"",', (None, "", None)),
    (b",,", (None, None, None)),
    (b'"2", a ,1e2', (2, " a ", "100.00")),
    ("3,é,0".encode(), (3, "é", "0.00")),
]
BAD: list[tuple[bytes | None, str]] = [
    (None, "tombstone"),
    (b"", "has not 3 fields"),
    (b"1,a", "has not 3 fields"),
    (b"1,a,1,2", "has not 3 fields"),
    (b'1,"a,1', "quotes are broken"),
    (b'1,"a"b,1', "quotes are broken"),
    (b'1,a"b,1', "quotes are broken"),
    (b"1,a,1\n2,b,2", "quotes are broken"),
    (b"1,a\nb,1", "quotes are broken"),
    (b"1,\xff,1", "no UTF-8"),
    (b"x,a,1", "field 'id' is no bigint"),
    (b"1.0,a,1", "field 'id' is no bigint"),
    (b"9223372036854775808,a,1", "field 'id' is no bigint"),
    (b"1,a,1.505", "field 'n' is no decimal(9,2)"),
    (b'1,a,"1,5"', "field 'n' is no decimal(9,2)"),
]


def test_good_lines_are_decoded_and_bad_ones_say_why(spark: SparkSession) -> None:
    decoder = CsvDecoder(parse_ddl("id bigint, s string, n decimal(9,2)"))
    values = [value for value, _ in GOOD] + [value for value, _ in BAD]

    decoded = decoder.decode(record_frame(spark, values)).select("partition", "offset", "_error", "_decoded").collect()

    rows = sorted(decoded, key=lambda row: (row.offset, row.partition))
    assert [row._error for row in rows[: len(GOOD)]] == [None] * len(GOOD)
    found = [(one.id, one.s, None if one.n is None else str(one.n)) for one in (row._decoded for row in rows)]
    assert found[: len(GOOD)] == [expected for _, expected in GOOD]
    told = [(row._error, why) for row, (_, why) in zip(rows[len(GOOD) :], BAD, strict=True)]
    assert [pair for pair in told if pair[0] is None or pair[1] not in pair[0]] == []


def test_each_type_has_texts_that_are_none_of_it(spark: SparkSession) -> None:
    good = ["1.5", "2026-01-01", "2026-01-01T00:00:00Z", "TRUE", "-5", "7"]
    bad = ["1e999", "2026", "12:30", "yes", "200", ""]
    decoder = CsvDecoder(parse_ddl("d double, day date, at timestamp, b boolean, t tinyint, id bigint NOT NULL"))
    lines = [good, *([*good[:n], bad[n], *good[n + 1 :]] for n in range(len(good)))]

    decoded = decoder.decode(record_frame(spark, [",".join(line).encode() for line in lines]))

    rows = sorted(
        decoded.select("partition", "offset", "_error").collect(), key=lambda row: (row.offset, row.partition)
    )
    names = ["d", "day", "at", "b", "t", "id"]
    assert [None if row._error is None else row._error.split("'")[1] for row in rows] == [None, *names]


def test_nested_columns_are_refused() -> None:
    with pytest.raises(InvalidInput, match="cannot have columns list array<int>"):
        CsvDecoder(parse_ddl("id bigint, list array<int>"))
