"""Schemas, tables and columns: each change of a definition writes the rows that the extension writes."""

from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from tests.fixtures.by_hand import duckdb_name
from tests.fixtures.catalogs import PostgresCatalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import Pair, attach, differences, dump, normalized, quote
from tests.fixtures.postgres import PostgresDatabase

SCALARS = (
    *("boolean", "int8", "int16", "int32", "int64", "int128", "uint8", "uint16", "uint32", "uint64", "uint128"),
    *("float32", "float64", "decimal(4,1)", "decimal(18,3)", "decimal(38,10)", "time", "timetz", "date", "timestamp"),
    *("timestamp_s", "timestamp_ms", "timestamp_ns", "timestamptz", "interval", "varchar", "json", "blob", "uuid"),
)
NESTED = {
    "l": "INTEGER[]",
    "ll": "VARCHAR[][]",
    "m": "MAP(VARCHAR, INTEGER)",
    "s": "STRUCT(a INTEGER, b VARCHAR)",
    "deep": 'STRUCT(l STRUCT(m MAP(VARCHAR, STRUCT(x INTEGER[], "y z" DECIMAL(9,2))))[], t TIMESTAMP)',
    "ml": "MAP(INTEGER, MAP(VARCHAR, DOUBLE[]))[]",
}
ODD_NAMES = {
    "quote": 'a"b',
    "single quote": "it's",
    "dot": "a.b",
    "blank": " a b ",
    "unicode": "größe 🦆",
    "case": "MixedCase",
    "comma": "a,b",
    "keyword": "select",
    "percent": "100%s %(x)s",
    "colon": "a:b :c",
    "backslash": "a\\b",
    "63 bytes": "n" * 63,
}
# PostgreSQL cuts longer names: rows of such columns are never inlined there.
LONG_NAMES = {"70 bytes": "n" * 70, "wide": "ü" * 40}


def test_schemas_come_and_go(pair: Pair) -> None:
    pair.step(lambda lake: lake.create_schema("s"), "CREATE SCHEMA s")
    pair.step(lambda lake: lake.create_table("s.t", {"i": "int32"}), "CREATE TABLE s.t (i INTEGER)")
    pair.step(lambda lake: lake.create_table("s.u", {"i": "int32"}), "CREATE TABLE s.u (i INTEGER)")
    pair.insert("s.t", "VALUES (1)")
    pair.step(lambda lake: lake.drop_schema("s", cascade=True), "DROP SCHEMA s CASCADE")
    pair.step(lambda lake: lake.create_schema("S"), 'CREATE SCHEMA "S"')
    pair.step(lambda lake: lake.drop_schema("S"), 'DROP SCHEMA "S"')
    pair.step(_schema_and_table, "BEGIN; CREATE SCHEMA two; CREATE TABLE two.t (i INTEGER); COMMIT")
    pair.step(_a_schema_for_another, "BEGIN; DROP SCHEMA two CASCADE; CREATE SCHEMA three; COMMIT")


def _schema_and_table(lake: Lake) -> None:
    # One of each: the extension numbers several new schemas of a transaction in the order of a hash table.
    with lake.transaction() as tx:
        tx.create_schema("two")
        tx.create_table("two.t", {"i": "int32"})


def _a_schema_for_another(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.drop_schema("two", cascade=True)
        tx.create_schema("three")


def test_odd_names_of_schemas_and_tables(pair: Pair) -> None:
    for name in [*ODD_NAMES.values(), *LONG_NAMES.values()]:
        odd = quote(name)
        pair.step(lambda lake, name=name: lake.create_schema(name), f"CREATE SCHEMA {odd}")  # type: ignore[misc] # bound now
        pair.step(
            lambda lake, odd=odd: lake.create_table(f"{odd}.{odd}", {"i": "int32"}),  # type: ignore[misc] # bound now
            f"CREATE TABLE {odd}.{odd} (i INTEGER)",
        )
        pair.insert(f"{odd}.{odd}", "VALUES (1), (NULL)")
        pair.step(
            lambda lake, name=name: lake.drop_schema(name, cascade=True),  # type: ignore[misc] # bound now
            f"DROP SCHEMA {odd} CASCADE",
        )


@pytest.mark.parametrize("names", [ODD_NAMES, LONG_NAMES], ids=["short", "long"])
def test_odd_names_of_columns(pair: Pair, names: dict[str, str]) -> None:
    columns = ", ".join(f"{quote(name)} INTEGER" for name in names.values())
    pair.step(
        lambda lake: lake.create_table("t", dict.fromkeys(names.values(), "int32")), f"CREATE TABLE t ({columns})"
    )
    pair.insert("t", f"VALUES ({', '.join(str(n) for n in range(len(names)))})")
    pair.insert("t", f"SELECT {', '.join('i' for _ in names)} FROM range(12) r(i)")
    for name in list(names.values())[:-1][:3]:
        pair.step(
            lambda lake, name=name: lake.rename_column("t", quote(name), name + " 2"),  # type: ignore[misc] # bound now
            f"ALTER TABLE t RENAME COLUMN {quote(name)} TO {quote(name + ' 2')}",
        )
    pair.insert("t", f"VALUES ({', '.join('NULL' for _ in names)})")
    pair.delete("t", f"{quote(list(names.values())[-1])} = 3")


def test_every_scalar_type(pair: Pair) -> None:
    schema = {f"c{index}": type_ for index, type_ in enumerate(SCALARS)}
    columns = ", ".join(f"c{index} {duckdb_name(type_)}" for index, type_ in enumerate(SCALARS))
    pair.step(lambda lake: lake.create_table("t", schema), f"CREATE TABLE t ({columns})")


def test_nested_types_at_depth(pair: Pair) -> None:
    columns = ", ".join(f"{name} {type_}" for name, type_ in NESTED.items())
    pair.step(lambda lake: lake.create_table("t", NESTED), f"CREATE TABLE t ({columns})")


@pytest.mark.parametrize("type_", ["VARIANT", "GEOMETRY", "GEOMETRY[]", "STRUCT(g GEOMETRY)"])
def test_types_that_cannot_be_inlined_get_no_inlined_table(pair: Pair, type_: str) -> None:
    pair.step(lambda lake: lake.create_table("t", {"i": "int32", "c": type_}), f"CREATE TABLE t (i INTEGER, c {type_})")


@pytest.mark.parametrize("name", ["row_id", "BEGIN_SNAPSHOT", "end_snapshot"])
def test_names_of_the_inlined_tables_own_columns(pair: Pair, name: str) -> None:
    pair.set_option("data_inlining_row_limit", 0)  # else the extension refuses the name; we go without inlining
    pair.step(lambda lake: lake.create_table("t", {name: "int32"}), f"CREATE TABLE t ({name} INTEGER)")
    pair.step(lambda lake: lake.add_column("t", "x", "int32"), "ALTER TABLE t ADD COLUMN x INTEGER")


def test_defaults_and_not_null(pair: Pair) -> None:
    defaults = {"i": 7, "s": "it's", "d": Decimal("1.5"), "b": True, "day": date(2024, 2, 29)}
    pair.step(
        lambda lake: lake.create_table(
            "t", {"i": "int32", "s": "varchar", "d": "decimal(5,2)", "b": "boolean", "day": "date"}, defaults=defaults
        ),
        "CREATE TABLE t (i INTEGER DEFAULT 7, s VARCHAR DEFAULT 'it''s', d DECIMAL(5,2) DEFAULT 1.50,"
        " b BOOLEAN DEFAULT 'true', day DATE DEFAULT '2024-02-29')",
    )
    pair.insert("t", "VALUES (1, 'a', 2.25, false, DATE '2000-01-01')")
    pair.step(lambda lake: lake.set_default("t", "i", 8), "ALTER TABLE t ALTER COLUMN i SET DEFAULT 8")
    pair.step(lambda lake: lake.set_default("t", "s", None), "ALTER TABLE t ALTER COLUMN s DROP DEFAULT")
    pair.step(lambda lake: lake.set_not_null("t", "i"), "ALTER TABLE t ALTER COLUMN i SET NOT NULL")
    pair.insert("t", "VALUES (2, 'b', NULL, NULL, NULL)")
    pair.step(lambda lake: lake.drop_not_null("t", "i"), "ALTER TABLE t ALTER COLUMN i DROP NOT NULL")
    pair.step(lambda lake: lake.append("t", {"s": ["only"]}, fill_missing=True), "INSERT INTO t (s) VALUES ('only')")
    pair.step(
        lambda lake: lake.add_column("t", "added", "varchar", "x'y"),
        "ALTER TABLE t ADD COLUMN added VARCHAR DEFAULT 'x''y'",
    )
    pair.step(
        lambda lake: lake.add_column("t", "empty", "varchar", ""), "ALTER TABLE t ADD COLUMN empty VARCHAR DEFAULT ''"
    )


def test_comments_are_set_changed_and_dropped(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"i": "int32", "s": "varchar"}), "CREATE TABLE t (i INTEGER, s VARCHAR)"
    )
    pair.step(lambda lake: lake.set_comment("t", "it's"), "COMMENT ON TABLE t IS 'it''s'")
    pair.step(lambda lake: lake.set_comment("t", "changed"), "COMMENT ON TABLE t IS 'changed'")
    pair.step(lambda lake: lake.set_comment("t", "col", "i"), "COMMENT ON COLUMN t.i IS 'col'")
    pair.step(lambda lake: lake.set_comment("t", "col 2", "i"), "COMMENT ON COLUMN t.i IS 'col 2'")
    pair.step(lambda lake: lake.set_comment("t", None, "i"), "COMMENT ON COLUMN t.i IS NULL")
    pair.step(lambda lake: lake.set_comment("t", None), "COMMENT ON TABLE t IS NULL")
    pair.step(lambda lake: lake.set_comment("t", "again"), "COMMENT ON TABLE t IS 'again'")
    pair.step(lambda lake: lake.set_comment("t", "s again", "s"), "COMMENT ON COLUMN t.s IS 's again'")
    pair.step(lambda lake: lake.rename_column("t", "s", "r"), "ALTER TABLE t RENAME COLUMN s TO r")
    pair.step(lambda lake: lake.rename_table("t", "u"), "ALTER TABLE t RENAME TO u")
    pair.step(lambda lake: lake.drop_table("u"), "DROP TABLE u")


def test_columns_are_added_dropped_renamed_and_promoted(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"i": "int32", "f": "float32", "s": "varchar"}),
        "CREATE TABLE t (i INTEGER, f FLOAT, s VARCHAR)",
    )
    pair.insert("t", "VALUES (1, 1.5, 'a'), (NULL, NULL, NULL)")
    pair.insert("t", "SELECT i, i / 2, 'big' FROM range(20) r(i)")
    pair.step(lambda lake: lake.add_column("t", "n", "int64", 5), "ALTER TABLE t ADD COLUMN n BIGINT DEFAULT 5")
    pair.insert("t", "VALUES (2, 2.5, 'b', 6)")
    pair.promote("t", "i", "int64", "BIGINT")
    pair.insert("t", "VALUES (5000000000, 3.5, 'c', 7)")
    pair.step(lambda lake: lake.rename_column("t", "s", "text"), "ALTER TABLE t RENAME COLUMN s TO text")
    pair.insert("t", "SELECT i, i, 'more', i FROM range(20) r(i)")
    pair.step(lambda lake: lake.drop_column("t", "text"), "ALTER TABLE t DROP COLUMN text")
    pair.insert("t", "VALUES (8, 0.1, 9)")
    pair.step(lambda lake: lake.add_column("t", "text", "int32"), "ALTER TABLE t ADD COLUMN text INTEGER")
    pair.insert("t", "VALUES (8, 0.1, 9, 10)")
    pair.insert("t", "SELECT i, i, i, i FROM range(20) r(i)")


def test_a_float_becomes_a_double(pair: Pair) -> None:
    pair.step(lambda lake: lake.create_table("t", {"f": "float32"}), "CREATE TABLE t (f FLOAT)")
    pair.insert("t", "VALUES (0.1), (NULL)")
    pair.insert("t", "SELECT i / 3 FROM range(20) r(i)")
    # The texts of bounds are the shortest ones of a float, which are other doubles: we state them anew.
    pair.ignored["min_value"] = pair.ignored["max_value"] = "ours bound the doubles"
    pair.promote("t", "f", "float64", "DOUBLE")
    pair.insert("t", "VALUES (0.1), ('nan')")


def test_struct_fields_are_added_dropped_renamed_and_promoted(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table(
            "t", {"i": "int32", "s": "struct(a int32, b varchar)", "l": "struct(x int32)[]"}
        ),
        "CREATE TABLE t (i INTEGER, s STRUCT(a INTEGER, b VARCHAR), l STRUCT(x INTEGER)[])",
    )
    pair.ignored |= dict.fromkeys(("s", "l"), "the extension inlines structs as SQL, which it may fail to read back")
    pair.insert(
        "t", "VALUES (1, {'a': 1, 'b': 'x'}, [{'x': 1}, NULL]), (2, NULL, NULL), (3, {'a': NULL, 'b': NULL}, [])"
    )
    pair.insert("t", "SELECT i, {'a': i, 'b': 'y'}, [{'x': i}] FROM range(20) r(i)")
    pair.step(lambda lake: lake.add_column("t", "s.c", "int64"), "ALTER TABLE t ADD COLUMN s.c BIGINT")
    pair.insert("t", "VALUES (4, {'a': 1, 'b': 'x', 'c': 7}, [])")
    pair.step(lambda lake: lake.rename_column("t", "s.b", "bb"), "ALTER TABLE t RENAME COLUMN s.b TO bb")
    pair.insert("t", "SELECT i, {'a': i, 'bb': 'y', 'c': i}, [{'x': i}] FROM range(20) r(i)")
    pair.step(lambda lake: lake.drop_column("t", "s.a"), "ALTER TABLE t DROP COLUMN s.a")
    pair.insert("t", "VALUES (5, {'bb': 'x', 'c': 8}, [])")


def test_a_table_is_renamed_with_all_its_rows(pair: Pair) -> None:
    pair.step(lambda lake: lake.create_table("t", {"i": "int32"}), "CREATE TABLE t (i INTEGER)")
    pair.insert("t", "VALUES (1), (2)")
    pair.insert("t", "SELECT i FROM range(50) r(i)")
    pair.delete("t", "i > 20")
    pair.step(lambda lake: lake.rename_table("t", "U v"), 'ALTER TABLE t RENAME TO "U v"')
    pair.insert('"U v"', "VALUES (3)")
    pair.step(lambda lake: lake.create_table("t", {"j": "varchar"}), "CREATE TABLE t (j VARCHAR)")
    pair.insert("t", "VALUES ('other')")


def test_a_table_is_dropped_with_all_its_rows(pair: Pair) -> None:
    # The extension has no statement for all of it; in one transaction it adds `altered_table` to its changes.
    pair.ignored["changes_made"] = "we say just that the table was created"
    pair.step(
        lambda lake: lake.create_table("t", {"i": "int32"}, partition_by=["i"], sorted_by=["i"], comment="c"),
        "BEGIN; CREATE TABLE t (i INTEGER); ALTER TABLE t SET PARTITIONED BY (i); ALTER TABLE t SET SORTED BY (i ASC);"
        " COMMENT ON TABLE t IS 'c'; COMMIT",
    )
    pair.insert("t", "VALUES (1), (2)")
    pair.insert("t", "SELECT 1 FROM range(50)")
    pair.insert("t", "SELECT 2 FROM range(50)")
    pair.delete("t", "i = 1")
    pair.step(lambda lake: lake.drop_table("t"), "DROP TABLE t")
    pair.step(lambda lake: lake.create_table("t", {"i": "int64"}), "CREATE TABLE t (i BIGINT)")
    pair.insert("t", "VALUES (1), (2)")


def test_drop_and_create_of_one_name_in_one_transaction(pair: Pair) -> None:
    def again(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.drop_table("t")
            tx.create_table("t", {"s": "varchar"})
            tx.append("t", {"s": ["new"]})

    pair.step(lambda lake: lake.create_table("t", {"i": "int32"}), "CREATE TABLE t (i INTEGER)")
    pair.insert("t", "VALUES (1), (2)")
    pair.step(again, "BEGIN; DROP TABLE t; CREATE TABLE t (s VARCHAR); INSERT INTO t VALUES ('new'); COMMIT")


def test_several_changes_of_one_table_in_one_transaction(pair: Pair) -> None:
    def change(lake: Lake) -> None:
        with lake.transaction() as tx:
            tx.add_column("t", "b", "int32")
            tx.rename_column("t", "a", "aa")
            tx.set_default("t", "b", 3)

    pair.step(lambda lake: lake.create_table("t", {"a": "int32"}), "CREATE TABLE t (a INTEGER)")
    pair.step(
        change,
        "BEGIN; ALTER TABLE t ADD COLUMN b INTEGER; ALTER TABLE t RENAME COLUMN a TO aa;"
        " ALTER TABLE t ALTER COLUMN b SET DEFAULT 3; COMMIT",
    )
    pair.insert("t", "VALUES (1, 2)")


TRANSFORMS = {
    "identity": ["id"],
    "year": ["year(ts)"],
    "calendar": ["year(ts)", "month(ts)", "day(ts)", "hour(ts)"],
    "bucket": ["bucket(4, id)"],
    "several": ["name", "bucket(3, name)", "day(d)"],
}


@pytest.mark.parametrize("keys", TRANSFORMS.values(), ids=TRANSFORMS)
def test_partitioning_is_set_changed_and_reset(pair: Pair, keys: list[str]) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"id": "int32", "name": "varchar", "ts": "timestamp", "d": "date"}),
        "CREATE TABLE t (id INTEGER, name VARCHAR, ts TIMESTAMP, d DATE)",
    )
    pair.step(lambda lake: lake.set_partitioning("t", keys), f"ALTER TABLE t SET PARTITIONED BY ({', '.join(keys)})")
    pair.insert("t", "VALUES (1, 'a', TIMESTAMP '2024-02-29 12:34:56', DATE '2024-02-29')")
    pair.step(lambda lake: lake.set_partitioning("t", ["name"]), "ALTER TABLE t SET PARTITIONED BY (name)")
    pair.step(lambda lake: lake.set_partitioning("t", []), "ALTER TABLE t RESET PARTITIONED BY")
    pair.step(lambda lake: lake.set_partitioning("t", keys), f"ALTER TABLE t SET PARTITIONED BY ({', '.join(keys)})")


def test_sort_order_is_set_changed_and_reset_and_follows_a_rename(pair: Pair) -> None:
    pair.step(
        lambda lake: lake.create_table("t", {"id": "int32", "Name": "varchar"}),
        'CREATE TABLE t (id INTEGER, "Name" VARCHAR)',
    )
    pair.step(lambda lake: lake.set_sort_order("t", ["id"]), "ALTER TABLE t SET SORTED BY (id)")
    pair.step(
        lambda lake: lake.set_sort_order("t", ['"Name" DESC NULLS FIRST', "id"]),
        'ALTER TABLE t SET SORTED BY ("Name" DESC NULLS FIRST, id ASC)',
    )
    pair.step(lambda lake: lake.rename_column("t", "id", "id 2"), 'ALTER TABLE t RENAME COLUMN id TO "id 2"')
    pair.step(lambda lake: lake.rename_column("t", "Name", "plain"), 'ALTER TABLE t RENAME COLUMN "Name" TO plain')
    pair.step(lambda lake: lake.set_sort_order("t", []), "ALTER TABLE t RESET SORTED BY")
    pair.step(lambda lake: lake.set_sort_order("t", ["plain DESC"]), "ALTER TABLE t SET SORTED BY (plain DESC)")


def test_options_in_three_scopes_and_replaced(pair: Pair) -> None:
    pair.step(lambda lake: lake.create_schema("s"), "CREATE SCHEMA s")
    pair.step(lambda lake: lake.create_table("s.t", {"i": "int32"}), "CREATE TABLE s.t (i INTEGER)")
    pair.set_option("parquet_compression", "zstd")
    pair.set_option("parquet_compression", "snappy", schema="s")
    pair.set_option("parquet_compression", "gzip", schema="s", table="t")
    pair.set_option("parquet_compression", "lz4")
    pair.set_option("data_inlining_row_limit", 20, schema="s", table="t")
    pair.set_option("data_inlining_row_limit", 0, schema="s", table="t")
    pair.set_option("target_file_size", "10MB")
    pair.set_option("parquet_version", 2)
    pair.set_option("hive_file_pattern", False)  # noqa: FBT003 # an option's value
    pair.set_option("rewrite_delete_threshold", 0.5)
    pair.set_option("parquet_row_group_size", 1000)
    pair.insert("s.t", "VALUES (1)")


def test_a_metadata_schema_of_postgresql(
    postgres_database: PostgresDatabase, shared_oracle: Oracle, tmp_path: Path
) -> None:
    ours, theirs = (
        PostgresCatalog(postgres_database, f"{tmp_path}/{s}/", schema=f"{s} Lake") for s in ("our", "their")
    )
    attach(shared_oracle, theirs, "lake", {"metadata_schema": theirs.schema})
    shared_oracle.execute("CREATE TABLE lake.t (i INTEGER); INSERT INTO lake.t VALUES (7)")

    with Lake.create(ours.url, ours.data_path, metadata_schema=ours.schema) as lake:
        lake.create_table("t", {"i": "int32"})
        lake.append("t", {"i": pa.array([7], pa.int32())})

    assert differences(normalized(dump(ours), {}), normalized(dump(theirs), {})) == {}
