"""Which SELECT makes each row of one row of the view, and how columns are added to it."""

import pytest

from ducklake_streaming.jobs.row_wise_sql import parse_row_wise

ROW_WISE = [
    "SELECT * FROM input",
    "select id, upper(name) as name from Input where id > 1",
    "SELECT extract(year FROM ts) AS y, trim(BOTH 'x' FROM s) AS s\n-- FROM nowhere\nFROM input i WHERE s <> 'FROM x'",
    "SELECT CASE WHEN a THEN struct(a, b) END AS c FROM `input`",
]
OTHERS = [
    "SELECT count(*) FROM input",
    "SELECT DISTINCT id FROM input",
    "SELECT id FROM input LIMIT 1",
    "SELECT id FROM input ORDER BY id",
    "SELECT id, row_number() OVER (ORDER BY id) FROM input",
    "SELECT a.id FROM input a JOIN input b ON a.id = b.id",
    "SELECT id FROM input UNION ALL SELECT id FROM input",
    "SELECT id FROM (SELECT id FROM input)",
    "WITH x AS (SELECT * FROM input) SELECT * FROM x",
    "SELECT id FROM input WHERE id IN (SELECT max(id) FROM input)",
    "SELECT id FROM input LATERAL VIEW explode(items) AS item",
    "SELECT id FROM other.input",
    "SELECT id FROM orders",
    "SELECT id FROM input TABLESAMPLE (5 PERCENT)",
    "SELECT 1",
    "DELETE FROM input",
    "no SQL",
]


@pytest.mark.parametrize("sql", ROW_WISE)
def test_select_of_the_view_alone_is_row_wise_and_takes_columns(sql: str) -> None:
    found = parse_row_wise(sql)

    assert found is not None
    assert found.with_columns([]) == sql
    added = found.with_columns(["topic AS t", "1 AS one"])
    assert added.replace(", topic AS t, 1 AS one ", "") == sql
    again = parse_row_wise(added)
    assert again is not None
    assert again.position > found.position


@pytest.mark.parametrize("sql", OTHERS)
def test_what_takes_rows_together_or_stops_early_is_not(sql: str) -> None:
    assert parse_row_wise(sql) is None
