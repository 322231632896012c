"""Appends: the same rows by us and by the extension end in the same places with the same statistics."""

import pyarrow as pa
import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import Pair, attach

CREATE = "CREATE TABLE t (i INTEGER, s VARCHAR)"


def create(lake: Lake) -> None:
    lake.create_table("t", {"i": "int32", "s": "varchar"})


def numbers(count: int) -> dict[str, object]:
    return {"i": pa.array(range(count), pa.int32()), "s": [f"x{i}" for i in range(count)]}


def test_small_inserts_are_inlined_and_large_ones_are_files(pair: Pair) -> None:
    pair.step(create, CREATE)
    pair.insert("t", "VALUES (1, 'a'), (2, NULL)")
    pair.insert("t", "SELECT i, 'x' || i FROM range(10) r(i)")
    pair.insert("t", "SELECT i, 'y' || i FROM range(11) r(i)")
    pair.insert("t", "VALUES (-5, ''), (NULL, 'zz')")
    pair.insert("t", "SELECT NULL, NULL FROM range(30) r(i)")
    pair.insert("t", "SELECT 1, 'none' WHERE false")


def test_rows_of_one_transaction(pair: Pair) -> None:
    def several_tables(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.append("t", numbers(3))
            tx.append("u", {"j": [1, 2]})
            tx.append("t", numbers(2))

    def both_kinds(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.append("t", numbers(3))
            tx.append("t", numbers(30))

    def created_and_filled(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.create_table("v", {"i": "int32", "s": "varchar"})
            tx.append("v", numbers(4))

    def created_and_filled_with_files(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.create_table("w", {"i": "int32", "s": "varchar"})
            tx.append("w", numbers(40))

    some = "SELECT i, 'x' || i FROM range({}) r(i)"
    pair.step(create, CREATE)
    pair.step(lambda lake: lake.create_table("u", {"j": "int64"}), "CREATE TABLE u (j BIGINT)")
    pair.step(
        several_tables,
        f"BEGIN; INSERT INTO t {some.format(3)}; INSERT INTO u VALUES (1), (2); INSERT INTO t {some.format(2)}; COMMIT",
    )
    pair.step(both_kinds, f"BEGIN; INSERT INTO t {some.format(3)}; INSERT INTO t {some.format(30)}; COMMIT")
    pair.step(created_and_filled, f"BEGIN; {CREATE.replace(' t ', ' v ')}; INSERT INTO v {some.format(4)}; COMMIT")
    pair.step(
        created_and_filled_with_files, f"BEGIN; {CREATE.replace(' t ', ' w ')}; INSERT INTO w {some.format(40)}; COMMIT"
    )
    pair.insert("t", "VALUES (9, 'last')")


def test_what_a_commit_says_of_itself(pair: Pair) -> None:
    def spoken(lake: Lake) -> None:
        with lake.transaction(author="Ann", message="it's", extra_info='{"a": 1}') as tx:
            tx.append("t", numbers(1))

    pair.step(create, CREATE)
    pair.step(
        spoken,
        """BEGIN; CALL {lake}.set_commit_message('Ann', 'it''s', extra_info => '{"a": 1}');
        INSERT INTO t VALUES (0, 'x0'); COMMIT""",
    )


def test_without_inlining_everything_is_a_file_until_it_is_allowed_again(pair: Pair) -> None:
    pair.left_out["ducklake_schema_versions"] = "we note a version for an inlined table that an insert makes: see below"
    pair.set_option("data_inlining_row_limit", 0)
    pair.step(create, CREATE)
    pair.insert("t", "VALUES (1, 'a')")
    pair.set_option("data_inlining_row_limit", 5)
    pair.insert("t", "VALUES (2, 'b')")  # makes the inlined table now
    pair.insert("t", "SELECT i, 'c' FROM range(6) r(i)")
    pair.step(lambda lake: lake.add_column("t", "n", "int32"), "ALTER TABLE t ADD COLUMN n INTEGER")
    pair.insert("t", "VALUES (3, 'c', 4)")
    pair.set_option("data_inlining_row_limit", 0)
    pair.insert("t", "VALUES (3, 'c', 4)")
    pair.delete("t", "i = 3")


def test_columns_that_changed_while_inlining_was_off(catalog: Catalog, shared_oracle: Oracle) -> None:
    """The extension fails here: it inserts into the inlined table of before, or cannot read the one it makes."""
    with Lake.create(catalog.url, catalog.data_path) as lake:
        create(lake)
        lake.append("t", numbers(1))
        lake.set_option("data_inlining_row_limit", 0)
        lake.add_column("t", "n", "int32")
        lake.rename_column("t", "s", "text")
        lake.set_option("data_inlining_row_limit", 5)
        lake.append("t", {"i": [7], "text": ["seven"], "n": pa.array([8], pa.int32())})
        lake.create_schema("another version")
        ours = lake.table("t").read().sort_by("i").to_pylist()
    attach(shared_oracle, catalog, "lake")
    shared_oracle.execute("INSERT INTO lake.t VALUES (9, 'nine', 10)")

    theirs = shared_oracle.query("FROM lake.t ORDER BY i")

    assert [tuple(row.values()) for row in ours] == [(0, "x0", None), (7, "seven", 8)]
    assert theirs == [(0, "x0", None), (7, "seven", 8), (9, "nine", 10)]


def test_old_rows_of_both_kinds_after_the_columns_changed(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"i": "int8", "d": "decimal(4,1)", "ts": "date"}),
        "CREATE TABLE t (i TINYINT, d DECIMAL(4,1), ts DATE)",
    )
    pair.insert("t", "VALUES (1, 1.5, DATE '2024-02-29'), (NULL, NULL, NULL)")
    pair.insert("t", "SELECT i, i / 2, DATE '2024-01-01' + i::INTEGER FROM range(20) r(i)")
    for type_, sql in (("int16", "SMALLINT"), ("int64", "BIGINT")):
        pair.promote("t", "i", type_, sql)
        pair.insert("t", "VALUES (300, 2.5, DATE '2023-02-28')")
    pair.promote("t", "d", "decimal(10,2)", "DECIMAL(10,2)")
    pair.insert("t", "VALUES (301, 12345678.25, DATE '2023-02-27')")
    pair.promote("t", "ts", "timestamp", "TIMESTAMP")
    pair.insert("t", "VALUES (302, 0.01, TIMESTAMP '2023-02-27 12:00:00')")
    pair.insert("t", "SELECT i, i, TIMESTAMP '2020-01-01' FROM range(20) r(i)")


SCALARS = {
    "b": ("BOOLEAN", "true", "false"),
    "i": ("SMALLINT", "1", "-32768"),
    "u": ("UINTEGER", "2", "0"),
    "big": ("UBIGINT", "18446744073709551615", "0"),
    "f": ("FLOAT", "1.5::FLOAT", "'-inf'::FLOAT"),
    "g": ("DOUBLE", "2.5::DOUBLE", "'inf'::DOUBLE"),
    "d": ("DECIMAL(9,2)", "3.25", "-9999999.99"),
    "w": ("DECIMAL(38,3)", "4.125", "0"),
    "dt": ("DATE", "'2024-02-29'", "'0001-01-01'"),
    "tm": ("TIME", "'12:34:56.789'", "'00:00:00'"),
    "ts": ("TIMESTAMP", "'2024-02-29 12:34:56.789'", "'0001-01-01'"),
    "tz": ("TIMESTAMPTZ", "'2024-02-29 12:34:56+02'", "'9999-12-31 23:59:59+00'"),
    "s": ("VARCHAR", "'é'", "''"),
    "x": ("BLOB", "'\\x00\\xFF'::BLOB", "''::BLOB"),
    "id": ("UUID", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "'00000000-0000-0000-0000-000000000000'"),
}
ROWS = [
    *(f"({', '.join(facts[index] for facts in SCALARS.values())})" for index in (1, 2)),
    f"({', '.join('NULL' for _ in SCALARS)})",
]


def test_statistics_of_scalars_inlined_and_in_files(pair: Pair) -> None:
    schema = {name: type_ for name, (type_, *_) in SCALARS.items()}
    columns = ", ".join(f"{name} {type_}" for name, type_ in schema.items())
    for table in ("small", "large"):
        pair.step(lambda lake, table=table: lake.create_table(table, schema), f"CREATE TABLE {table} ({columns})")  # type: ignore[misc] # bound now
    pair.insert("small", f"VALUES {ROWS[0]}")
    pair.insert("small", f"VALUES {ROWS[1]}, {ROWS[2]}")
    for rows in (ROWS[:1], ROWS[1:]):
        pair.insert("large", f"SELECT v.* FROM (VALUES {', '.join(rows)}) v, range(20)")
    pair.insert("small", f"SELECT v.* FROM (VALUES {', '.join(ROWS)}) v, range(20)")
    pair.insert("large", f"VALUES {', '.join(ROWS)}")


def test_first_rows_of_only_nulls(pair: Pair) -> None:
    """Strings with a NUL have no bounds in the catalog, so after nulls we do not know; the extension assumes."""
    pair.ignored["min_value"] = pair.ignored["max_value"] = "of strings we keep none after rows without any"
    pair.step(create, CREATE)
    pair.insert("t", "VALUES (NULL, NULL)")
    pair.insert("t", "VALUES (1, NULL)")
    pair.insert("t", "SELECT i, NULL FROM range(20) r(i)")


def test_statistics_of_nan(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"f": "float32", "g": "float64"}), "CREATE TABLE t (f FLOAT, g DOUBLE)"
    )
    pair.insert("t", "VALUES ('nan', 1), (2, 'nan')")
    pair.insert("t", "SELECT i, i FROM range(20) r(i)")
    pair.insert("t", "SELECT 'nan', i FROM range(20) r(i)")
    # Rows after these would make the extension's bounds narrower than its data; ours stay unknown.


def test_strings_with_nul_quotes_and_high_characters(pair: Pair) -> None:
    strings = "'a' || chr(0) || 'b'), (''), ('it''s'), ('\\x41'), ('𝄞'), ('NULL'), ('x' || chr(10))"
    pair.step(lambda lake: lake.create_table("t", {"s": "varchar"}), "CREATE TABLE t (s VARCHAR)")
    pair.insert("t", "VALUES ('plain')")
    pair.insert("t", f"VALUES ({strings}")
    pair.insert("t", "VALUES ('later')")
    pair.insert("t", f"SELECT v.* FROM (VALUES ({strings}) v, range(5)")


NESTED = "l INTEGER[], ll VARCHAR[][], m MAP(VARCHAR, INTEGER), s STRUCT(a INTEGER, b VARCHAR[])"
NESTED_ROWS = (
    "([1, NULL, 3], [['a', NULL], [], NULL], MAP {'k': 1, 'n': NULL}, {'a': 1, 'b': ['x', '']}),"
    " ([], [], MAP {}, {'a': NULL, 'b': NULL}), (NULL, NULL, NULL, NULL),"
    " ([NULL], [[NULL]], MAP {'': 7}, {'a': 5, 'b': []})"
)


def test_nested_values_nulls_and_empty_lists(pair: Pair) -> None:
    pair.ignored |= dict.fromkeys(
        ("l", "ll", "m", "s"), "nested texts without blanks, so that both syntaxes can be told apart"
    )
    schema = {
        "l": "INTEGER[]",
        "ll": "VARCHAR[][]",
        "m": "MAP(VARCHAR, INTEGER)",
        "s": "STRUCT(a INTEGER, b VARCHAR[])",
    }
    pair.step(lambda lake: lake.create_table("t", schema), f"CREATE TABLE t ({NESTED})")
    pair.insert("t", f"VALUES {NESTED_ROWS}")
    pair.insert("t", "VALUES ([7], [['zz']], MAP {'zz': 9}, {'a': -1, 'b': ['_']})")
    pair.insert("t", f"SELECT v.* FROM (VALUES {NESTED_ROWS}) v, range(5)")


def test_a_lists_empty_side_is_one_null_slot_in_a_file(pair: Pair) -> None:
    pair.step(lambda lake: lake.create_table("t", {"l": "int32[]"}), "CREATE TABLE t (l INTEGER[])")
    pair.insert("t", "SELECT [] FROM range(20)")
    pair.insert("t", "SELECT NULL FROM range(20)")
    pair.insert("t", "SELECT [1, 2] FROM range(20)")


PARTITIONED = (
    "SELECT i, 'n' || (i % 3), TIMESTAMP '2024-01-31 22:00:00' + INTERVAL (i) HOUR, i % 2 = 0 FROM range(40) r(i)"
)


@pytest.mark.parametrize(
    "keys",
    [
        ["name"],
        ["year(ts)", "month(ts)"],
        ["day(ts)", "name"],
        ["bucket(3, id)"],
        ["flag", "bucket(2, name)"],
        ["hour(ts)"],
    ],
    ids=" ".join,
)
def test_large_inserts_into_partitions(pair: Pair, keys: list[str]) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"id": "int32", "name": "varchar", "ts": "timestamp", "flag": "boolean"}),
        "CREATE TABLE t (id INTEGER, name VARCHAR, ts TIMESTAMP, flag BOOLEAN)",
    )
    pair.step(lambda lake: lake.set_partitioning("t", keys), f"ALTER TABLE t SET PARTITIONED BY ({', '.join(keys)})")
    pair.partitioned = True
    pair.insert("t", "VALUES (1, 'a', NULL, NULL)")
    pair.insert("t", PARTITIONED)
    pair.insert("t", "SELECT NULL, NULL, NULL, NULL FROM range(20)")
    pair.step(lambda lake: lake.set_partitioning("t", []), "ALTER TABLE t RESET PARTITIONED BY")
    pair.insert("t", PARTITIONED)


def test_date_makes_the_partitions_of_year_month_and_day(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"id": "int32", "T s": "timestamp"}),
        'CREATE TABLE t (id INTEGER, "T s" TIMESTAMP)',
    )
    pair.step(
        lambda lake: lake.set_partitioning("t", [' DATE ( "t S" ) ', "bucket(2, id)"]),
        'ALTER TABLE t SET PARTITIONED BY (year("T s"), month("T s"), day("T s"), bucket(2, id))',
    )
    pair.partitioned = True
    pair.insert("t", "SELECT i, TIMESTAMP '2024-01-10' + INTERVAL (i % 3) MONTH FROM range(40) r(i)")


def test_odd_partition_values_make_the_same_directories(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"Na me": "varchar", "i": "int32"}),
        'CREATE TABLE t ("Na me" VARCHAR, i INTEGER)',
    )
    pair.step(lambda lake: lake.set_partitioning("t", ['"Na me"']), 'ALTER TABLE t SET PARTITIONED BY ("Na me")')
    for value in ("a/b c=d", "ü%", "", "..", "it's"):
        text = value.replace("'", "''")
        pair.insert("t", f"SELECT '{text}', i FROM range(12) r(i)")


def test_large_inserts_into_a_sorted_table(pair: Pair) -> None:
    pair.step(create, CREATE)
    pair.step(lambda lake: lake.set_sort_order("t", ["s DESC", "i"]), "ALTER TABLE t SET SORTED BY (s DESC, i ASC)")
    pair.insert("t", "SELECT (i * 7) % 30, 'x' || (i % 4) FROM range(30) r(i)")
    pair.insert("t", "VALUES (2, 'b'), (1, 'a')")


def test_several_row_groups(pair: Pair) -> None:
    pair.set_option("parquet_row_group_size", 2048)
    pair.step(create, CREATE)
    pair.insert("t", "SELECT i, 'x' || i FROM range(10000) r(i)")
    # A row group of only nulls makes the extension forget the bounds of the whole file; we keep them.
    pair.ignored["min_value"] = pair.ignored["max_value"] = "ours are known"
    pair.insert("t", "SELECT i, NULL FROM range(10000) r(i)")


def test_an_open_session_of_duckdb_sees_our_rows_at_once(pair: Pair, shared_oracle: Oracle) -> None:
    lake = pair.lakes["lake_b"]
    shared_oracle.execute("USE lake_b; CREATE TABLE lake_b.c (i INTEGER); INSERT INTO lake_b.c VALUES (1)")
    assert shared_oracle.query("SELECT max(i), min(i), count(*) FROM lake_b.c") == [(1, 1, 1)]

    lake.append("c", {"i": pa.array([500, -500], pa.int32())})
    seen = shared_oracle.query("SELECT i FROM lake_b.c ORDER BY i")
    lake.append("c", {"i": pa.array(range(1000, 1100), pa.int32())})
    highest = shared_oracle.query("SELECT max(i), min(i), count(*) FROM lake_b.c WHERE i > 400")

    assert seen == [(-500,), (1,), (500,)]
    assert highest == [(1099, 500, 101)]
    pair.failed = True  # the lakes were not meant to be alike
