"""SQL of job files: what Spark takes is not refused, and mistakes are told with their place."""

import pytest

from ducklake_core.settings import Problem
from ducklake_streaming.jobs.sql_texts import parse_expression, parse_query

# Each has something of Spark's own that a parser may not know.
QUERIES = [
    "SELECT id, topic, partition, offset, timestamp, key, headers, _record.topic FROM input",
    "FROM input |> WHERE id > 3 |> SELECT id",
    "SELECT * EXCEPT (offset) FROM INPUT -- any case",
    "SELECT id, item FROM input LATERAL VIEW explode(items) t AS item",
    "SELECT i.* FROM input i, LATERAL explode(i.items) AS t(item)",
    "SELECT transform(a, x -> x + 1), filter(a, (x, i) -> i > 0), map('k', 1)['k'] FROM input",
    "SELECT /*+ REPARTITION(2) */ * FROM input DISTRIBUTE BY id SORT BY ts",
    "WITH t AS (SELECT * FROM input) SELECT kind, count(*) FILTER (WHERE id > 1) FROM t GROUP BY ALL",
    "SELECT from_json(cast(value AS string), 'a int, b string').* FROM input",
    "SELECT * FROM input PIVOT (sum(amount) FOR kind IN ('a', 'b'))",
    "SELECT timestamp'2026-01-01', INTERVAL '1' DAY + ts, X'1F', 1L, 1.5BD, r'raw' FROM input WHERE x <=> y",
    "SELECT `odd name`, a DIV b, try_cast(x AS DECIMAL(10, 2)), cast(s AS struct<x:int>) FROM input",
    "SELECT posexplode(a) AS (p, c) FROM input WHERE a LIKE ANY ('x%', 'y%')",
    "SELECT * FROM input LEFT ANTI JOIN (SELECT 1 AS id) USING (id);",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_query_of_spark_is_taken(sql: str) -> None:
    assert parse_query(sql) == sql


@pytest.mark.parametrize(
    "sql",
    ["topic", "'main.' || kind", "CASE WHEN a THEN 'x' ELSE 'y' END", "_record.topic", "`odd name`", "if(a, 'x', key)"],
)
def test_route_is_any_expression(sql: str) -> None:
    assert parse_expression(sql) == sql


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT id\nFROM input\nWHERE (id > 3", r"line 3, column 13: Expecting \)"),
        ("SELECT id FROM other.input", "does not read FROM input, but from 'other.input'"),
        ("SELECT 1", "but from nothing"),
        ("INSERT INTO x SELECT * FROM input", "is no query"),
    ],
)
def test_mistake_is_told_with_its_place(sql: str, told: str) -> None:
    with pytest.raises(Problem, match=told):
        parse_query(sql)
