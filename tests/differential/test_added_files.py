"""Files that somebody else wrote: the catalog has the rows that the extension's `ducklake_add_data_files` writes."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from ducklake_core.errors import InvalidInput, NotNullViolation, ObjectNotFound, SchemaMismatch, UnreadableFile
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.pairs import Pair

ROWS = pa.table(
    {
        "ID": pa.array([1, 2, None], pa.int32()),  # narrower than the table's, and in capitals
        "name": ["ä", "b", None],
        "s": pa.array(
            [{"b": "x", "a": 1}, None, {"b": None, "a": 3}], pa.struct([("b", pa.string()), ("a", pa.int32())])
        ),
        "l": pa.array([[1, 2], [], None], pa.list_(pa.int32())),
        "ls": pa.array([[{"y": 1}], [], None], pa.list_(pa.struct([("y", pa.int64())]))),
        "m": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        "ts": pa.array([datetime(2024, 1, 1), datetime(2024, 1, 2, 3, 4, 5, 678000), None], pa.timestamp("ms")),  # noqa: DTZ001
        "tz": pa.array([datetime(2024, 1, 1)] * 3, pa.timestamp("us", "UTC")),  # noqa: DTZ001
        "d": pa.array([Decimal("1.20"), Decimal("-3.45"), None], pa.decimal128(8, 2)),
        "dd": [date(2020, 1, 1), date(1969, 12, 31), None],
        "un": pa.array([0, 2**32 - 1, None], pa.uint32()),
        "u": pa.array([UUID(int=1).bytes, UUID(int=2**127).bytes, None], pa.uuid()),
    }
)
TYPES = {
    "id": "int64",
    "Name": "varchar",
    "s": "struct(a int32, b varchar)",
    "l": "list(int32)",
    "ls": "list(struct(y int64))",
    "m": "map(varchar, int32)",
    "ts": "timestamp",
    "tz": "timestamptz",
    "d": "decimal(10,2)",
    "dd": "date",
    "un": "uint32",
    "u": "uuid",
    "day": "date",
    "k": "int32",
}
CREATE = """CREATE TABLE t (id BIGINT, "Name" VARCHAR, s STRUCT(a INTEGER, b VARCHAR), l INTEGER[],
ls STRUCT(y BIGINT)[], m MAP(VARCHAR, INTEGER), ts TIMESTAMP, tz TIMESTAMPTZ, d DECIMAL(10,2), dd DATE, un UINTEGER,
u UUID, day DATE, k INTEGER)"""


def write(path: Path, rows: pa.Table, **options: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    return str(path)


def add(pair: Pair, table: str, *paths: str, **options: bool) -> None:
    names = ", ".join(f"'{path}'" for path in paths)
    given = "".join(f", {name} => {value}" for name, value in options.items())
    pair.step(
        lambda lake: lake.add_data_files(table, paths, **options),
        f"CALL ducklake_add_data_files('{{lake}}', '{table}', [{names}]{given})",
    )


def test_the_catalog_has_the_same_rows(pair: Pair, tmp_path: Path) -> None:
    day = tmp_path / "k=08" / "day=2024-02-29"
    whole, part = write(day / "a.parquet", ROWS), write(day / "b.parquet", ROWS.slice(1), row_group_size=2)
    other = write(
        tmp_path / "k=9/day=__HIVE_DEFAULT_PARTITION__" / "c.parquet", ROWS.select([3, *range(3), *range(4, 12)])
    )
    empty = write(day / "empty.parquet", ROWS.slice(3))

    pair.step(lambda lake: lake.create_table("t", TYPES), CREATE)
    add(pair, "t", whole, part, empty)
    add(pair, "t", write(day / "again.parquet", ROWS))  # its mapping is there
    add(pair, "t", empty)
    add(pair, "t", write(day / "once more.parquet", ROWS), other)
    pair.step(lambda lake: lake.rename_column("t", "id", "key"), "ALTER TABLE t RENAME COLUMN id TO key")
    pair.delete("t", "key = 1")
    add(pair, "t", write(day / "d.parquet", ROWS.rename_columns(["key", *ROWS.column_names[1:]])))


def test_partitions_come_from_the_path(pair: Pair, tmp_path: Path) -> None:
    rows = pa.table({"i": pa.array([1, 2], pa.int32()), "k": ["in the file", "in the file"]})
    paths = [
        write(tmp_path / f"{name}/a.parquet", rows)
        for name in ("k=a%2Fb/n=07", "k=/n=", "k=x/n=8/n=9", "k=NULL/n=null")
    ]
    paths.append(write(tmp_path / "k=%4EULL/n=1/a.parquet", rows))  # a text

    def create(lake: Lake) -> None:
        lake.create_table("t", {"i": "int32", "k": "varchar", "n": "int32"})
        lake.set_partitioning("t", ["k", "n"])

    pair.step(create, "CREATE TABLE t (i INTEGER, k VARCHAR, n INTEGER); ALTER TABLE t SET PARTITIONED BY (k, n)")
    for path in paths:
        add(pair, "t", path)


def test_a_partition_of_a_part_of_time_is_what_the_rows_have(oracle: Oracle, catalog: Catalog, tmp_path: Path) -> None:
    rows = pa.table({"ts": [datetime(2024, 5, 1), datetime(2024, 5, 31)]})  # noqa: DTZ001
    right = write(tmp_path / "year=2024/month=05/a.parquet", rows)
    wrong = write(tmp_path / "year=2024/month=06/a.parquet", rows)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"ts": "timestamp"}, partition_by=["year(ts)", "month(ts)"])
        lake.add_data_files("t", right)
        with pytest.raises(SchemaMismatch, match="its path says month=06, its rows have"):
            lake.add_data_files("t", wrong)
        with pytest.raises(SchemaMismatch, match="no directory of the path is called 'month=…'"):
            lake.add_data_files("t", write(tmp_path / "year=2024/a.parquet", rows))
        assert lake.table("t").read(filter="ts < '2024-05-02'").num_rows == 1

    # The extension gives both values the index 1.
    values = catalog.query("SELECT partition_key_index, partition_value FROM ducklake_file_partition_value")
    assert sorted(values) == [(0, "2024"), (1, "5")]
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    assert oracle.query("SELECT count(*) FROM t WHERE ts < '2024-05-02'") == [(1,)]


def test_no_statistics_hide_rows_of_added_files(oracle: Oracle, catalog: Catalog, tmp_path: Path) -> None:
    nan, lacking = (
        pa.table({"i": [1], "f": [float("nan")], "s": ["a"], "b": [True], "y": [b"\0"]}),
        pa.table({"i": [2]}),
    )
    paths = [write(tmp_path / "nan.parquet", pa.concat_tables([nan, nan.set_column(1, "f", pa.array([1.5]))]))]
    paths.append(write(tmp_path / "lacking.parquet", lacking))
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"i": "int64", "f": "float64", "s": "varchar", "b": "boolean", "y": "blob"})
        lake.add_data_files("t", paths, allow_missing=True)
        # A footer leaves out NaN. DuckDB goes by it, as in `FROM 'file.parquet'`: there it finds none.
        assert lake.table("t").read(filter="f > 100").num_rows == 1

    oracle.attach(catalog.attach, data_path=catalog.data_path)
    # After its own call it answers 0: it writes no statistics for columns that a file lacks.
    assert oracle.query("SELECT count(*) FROM t WHERE s IS NULL") == [(1,)]
    assert oracle.query("SELECT count(*) FROM t WHERE b AND y = '\\x00'::BLOB") == [(2,)]


@pytest.mark.parametrize(
    ("type_", "stored"),
    [
        ("TIMESTAMPTZ", pa.timestamp("ns", "UTC")),
        ("TIMESTAMP", pa.timestamp("ns")),
        ("TIMESTAMP_MS", pa.timestamp("us")),
        ("TIMESTAMP_S", pa.timestamp("us")),
        ("TIMESTAMP_S", pa.timestamp("ms")),
    ],
    ids=str,
)
def test_finer_times_of_added_files_are_what_the_extension_reads(
    oracle: Oracle, catalog: Catalog, tmp_path: Path, type_: str, stored: pa.DataType
) -> None:
    ticks = [0, 499, 500, 999, 1500, 2499, 2500, 499_999, 500_000, 1_999_999_999, 4 * 10**15]
    values = pa.array([sign * tick for tick in ticks for sign in (1, -1)] + [None], stored)
    path = write(tmp_path / "finer.parquet", pa.table({"id": range(len(values)), "t": values}))
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    oracle.execute(f"CREATE TABLE t (id BIGINT, t {type_}); CALL ducklake_add_data_files('lake', 't', '{path}')")

    with Lake.open(catalog.url) as lake:
        found = lake.table("t").read().sort_by("id").column("t")

    ticks_of = {"s": "epoch(t)::BIGINT", "ms": "epoch_ms(t)", "us": "epoch_us(t)"}[found.type.unit]
    assert [(tick,) for tick in found.cast(pa.int64()).to_pylist()] == oracle.query(
        f"SELECT {ticks_of} FROM t ORDER BY id"
    )


def test_columns_that_are_missing_or_left_over(oracle: Oracle, catalog: Catalog, tmp_path: Path) -> None:
    struct = pa.array([{"a": 1, "z": 2}, None], pa.struct([("a", pa.int32()), ("z", pa.int32())]))
    path = write(tmp_path / "a.parquet", pa.table({"more": [[{"q": 1}]] * 2, "s": struct}))
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"s": "struct(a int32, b varchar)"})
        lake.add_column("t", "j", "int32", default=5)
        lake.add_column("t", "s.c", "int32", default=6)
        with pytest.raises(SchemaMismatch, match=r"its column 'more' is not in the table.*ignore_extra_columns"):
            lake.add_data_files("t", path, allow_missing=True)
        with pytest.raises(SchemaMismatch, match=r"it has no column 's.b': allow_missing=True"):
            lake.add_data_files("t", path, ignore_extra_columns=True)
        lake.add_data_files("t", path, allow_missing=True, ignore_extra_columns=True)
        assert lake.table("t").read().to_pylist() == [{"s": {"a": 1, "b": None, "c": 6}, "j": 5}, {"s": None, "j": 5}]
        assert lake.table("t").read(filter="s.c IS NULL").num_rows == 1

    oracle.attach(catalog.attach, data_path=catalog.data_path)
    assert oracle.query("SELECT s.a, s.b, s.c, j FROM t WHERE j = 5 ORDER BY s.a") == [
        (1, None, 6, 5),
        (None, None, None, 5),
    ]
    assert oracle.query("SELECT count(*) FROM t WHERE s.c IS NULL") == [(1,)]


TYPE_PAIRS = {
    "int8": (pa.int8(), {"int8", "int16", "int64"}),
    "uint8": (pa.uint8(), {"int16", "int64", "uint8"}),
    "int64": (pa.int64(), {"int64"}),
    "float16": (pa.float16(), set()),
    "float32": (pa.float32(), {"float32", "float64"}),
    "date": (pa.date32(), {"date"}),
    "time in milliseconds": (pa.time32("ms"), set()),
    "timestamp": (pa.timestamp("us"), {"timestamp"}),
    "timestamptz": (pa.timestamp("us", "UTC"), {"timestamptz"}),
    "decimal": (pa.decimal128(5, 1), {"decimal(9,2)"}),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), {"varchar"}),
    "blob": (pa.binary(), {"blob"}),
    "list": (pa.list_(pa.int8()), set()),
}
SQL_NAMES = {"int8": "TINYINT", "int16": "SMALLINT", "int64": "BIGINT", "uint8": "UTINYINT"}
SQL_NAMES |= {"float32": "FLOAT", "float64": "DOUBLE", "decimal(9,2)": "DECIMAL(9,2)"}
SQL_NAMES |= {name: name for name in ("varchar", "blob", "date", "time", "timestamp", "timestamptz", "boolean")}


def test_types_that_fit_are_those_of_the_extension_that_lose_nothing(
    oracle: Oracle, catalog: Catalog, tmp_path: Path
) -> None:
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    for name, type_ in SQL_NAMES.items():
        oracle.execute(f'CREATE TABLE "{name}" (a {type_})')
    with Lake.open(catalog.url) as lake:
        for number, (type_, wanted) in enumerate(TYPE_PAIRS.values()):
            path, taken = write(tmp_path / f"{number}.parquet", pa.table({"a": pa.array([None], type_)})), set()
            for name in SQL_NAMES:
                try:
                    lake.add_data_files(f'"{name}"', path)
                except SchemaMismatch as error:
                    assert "its column 'a' has type '" in str(error)  # noqa: PT017 # it is one of many
                    continue
                taken.add(name)
                oracle.execute(f"CALL ducklake_add_data_files('lake', '{name}', '{path}')")
            assert taken == wanted


def test_what_cannot_be_added_is_refused_and_nothing_is(oracle: Oracle, catalog: Catalog, tmp_path: Path) -> None:
    fits = write(tmp_path / "below/fits.parquet", pa.table({"i": [1]}))
    (tmp_path / "text.parquet").write_text("no Parquet at all")
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", pa.schema([pa.field("i", pa.int64(), nullable=False)]))
        before = lake.snapshots()[-1].snapshot_id
        with pytest.raises(NotNullViolation, match="column 'i' forbids nulls"):
            lake.add_data_files(
                "t", [fits, write(tmp_path / "null.parquet", pa.table({"i": pa.array([None], pa.int64())}))]
            )
        with pytest.raises(UnreadableFile, match=r"cannot add file '.*text.parquet'"):
            lake.add_data_files("t", [fits, str(tmp_path / "text.parquet")])
        with pytest.raises(ObjectNotFound, match="there is no file or folder"):
            lake.add_data_files("t", str(tmp_path / "nothing"))
        with pytest.raises(InvalidInput, match="in this machine's file system"):
            lake.add_data_files("t", "s3://bucket/a.parquet")
        with pytest.raises(SchemaMismatch, match=r"'i=x' in the path is no 'int64'"):
            lake.add_data_files("t", write(tmp_path / "i=x/a.parquet", pa.table({"i": [1]})))
        assert lake.snapshots()[-1].snapshot_id == before

        with lake.transaction() as tx:  # rows of an added file are rows like others
            assert tx.add_data_files("t", str(tmp_path / "below")) == 1
            tx.update("t", {"i": 7})
        assert lake.table("t").read().to_pylist() == [{"i": 7}]
    assert Path(fits).exists()
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    assert oracle.query("SELECT i FROM t") == [(7,)]
