"""What the processes of `df.write.format("ducklake")` do one after the other, without Spark: the lake as DuckDB has it.

`tests/sink/test_format.py` has Spark itself call the same.
"""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core import CommitResult, Lake, Transaction
from ducklake_core.errors import CommitConflict, EpochOutOfOrder, InvalidInput, ObjectExists, SchemaMismatch
from ducklake_sinks.format.writer import BatchWriter, StreamWriter, make_stream_writer, make_writer
from tests.fixtures.catalogs import Catalog
from tests.fixtures.consistency import check_lake, stored_files
from tests.fixtures.oracle import Oracle

SCHEMA = T.StructType([T.StructField("id", T.LongType()), T.StructField("day", T.StringType())])
WIDER = T.StructType([*SCHEMA.fields, T.StructField("n", T.IntegerType())])
MANY = 300  # more than two tasks may return, with `inlineRows` 100
Rows = list[tuple[Any, ...]]


def batches(rows: Rows, schema: T.StructType) -> Iterator[pa.RecordBatch]:
    types = {T.LongType: pa.int64(), T.StringType: pa.string(), T.IntegerType: pa.int32()}
    arrays = [pa.array([row[i] for row in rows], types[type(f.dataType)]) for i, f in enumerate(schema.fields)]
    yield pa.record_batch(arrays, names=schema.names)


def options_of(catalog: Catalog, **options: object) -> dict[str, str]:
    given = {"catalog": catalog.url, "table": "t", "dataPath": catalog.data_path, "inlineRows": 100, **options}
    return {name.lower(): str(value) for name, value in given.items()}  # as Spark spells them


def in_two_tasks(writer: BatchWriter | StreamWriter, rows: Rows, schema: T.StructType) -> list[Any]:
    """Return what two executors send; each has a copy of its own."""
    return [
        pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(writer)).write(batches(some, schema))))  # noqa: S301 # ours
        for some in (rows[::2], rows[1::2])
    ]


def write(
    catalog: Catalog,
    rows: Rows,
    schema: T.StructType = SCHEMA,
    *,
    overwrites: bool = False,
    meanwhile: Callable[[], object] = lambda: None,
    **options: object,
) -> None:
    writer = make_writer(options_of(catalog, **options), schema, overwrites=overwrites)
    messages = in_two_tasks(writer, rows, schema)
    meanwhile()
    committer: BatchWriter = pickle.loads(pickle.dumps(writer))  # noqa: S301 # ours
    try:
        committer.commit(messages)
    except Exception:  # as Spark does
        committer.abort(messages)
        raise


def numbered(count: int, day: str, first: int = 0) -> Rows:
    return [(i, day) for i in range(first, first + count)]


class Lakes:
    """A lake as DuckDB sees it, and how many snapshots there are."""

    def __init__(self, catalog: Catalog, oracle: Oracle) -> None:
        self.catalog = catalog
        self.oracle = oracle

    def rows(self, table: str = "t") -> Rows:
        self.oracle.attach(self.catalog.attach)
        found = self.oracle.query(f"FROM {table} ORDER BY ALL")
        self.oracle.detach()
        return found

    def head(self) -> int:
        with Lake.open(self.catalog.url) as lake:
            return lake.snapshots()[-1].snapshot_id

    def inlined(self) -> int:
        with Lake.open(self.catalog.url) as lake:
            state = lake.inlined_state("t")
            return state.rows - state.ended_rows


@pytest.fixture
def seen(catalog: Catalog, oracle: Oracle) -> Lakes:
    """Give the lake as DuckDB sees it."""
    return Lakes(catalog, oracle)


def test_each_write_is_one_snapshot_inlined_when_small(catalog: Catalog, seen: Lakes) -> None:
    write(catalog, numbered(4, "a"))
    assert (seen.head(), seen.inlined(), seen.rows()) == (1, 4, numbered(4, "a"))

    write(catalog, numbered(MANY, "b", 100))
    assert (seen.head(), seen.inlined()) == (2, 4)
    assert seen.rows() == numbered(4, "a") + numbered(MANY, "b", 100)

    write(catalog, numbered(MANY, "a"), overwrites=True, replaceWhere="day = 'a'")
    assert (seen.head(), seen.inlined()) == (3, 0)
    assert seen.rows() == sorted(numbered(MANY, "a") + numbered(MANY, "b", 100))

    write(catalog, [(1, "c", 5)], WIDER, mergeSchema="true")
    assert (seen.head(), seen.rows()[2]) == (4, (1, "c", 5))

    write(catalog, [], WIDER, overwrites=True)
    assert (seen.head(), seen.rows()) == (5, [])
    check_lake(catalog, orphans=0)


def test_partitions_that_get_rows_are_replaced(catalog: Catalog, seen: Lakes) -> None:
    write(catalog, numbered(MANY, "a") + numbered(MANY, "b") + [(1, "c")], partitionBy="day, bucket(4, id)")
    write(catalog, [(-1, "c")])

    write(catalog, [(0, "a"), *numbered(MANY, "b", 5000)], overwrites=True, partitionOverwriteMode="dynamic")

    assert seen.head() == 3
    with Lake.open(catalog.url) as lake:
        [of_zero, *_] = [f.partition_values for f in lake.table("t").files()]
        assert len(of_zero) in (0, 2)
    found = seen.rows()
    assert [row for row in found if row[1] == "c"] == [(-1, "c"), (1, "c")]
    assert [row for row in found if row[1] == "b"] == numbered(MANY, "b", 5000)  # all its buckets
    assert 0 < len([row for row in found if row[1] == "a"]) < MANY  # all but the bucket of 0
    assert (0, "a") in found
    check_lake(catalog, orphans=0)
    with pytest.raises(InvalidInput, match="has no partitions"):
        write(catalog, [], overwrites=True, table="u", partitionOverwriteMode="dynamic")


def test_a_version_is_written_once(catalog: Catalog, seen: Lakes) -> None:
    for version, row in ((7, 1), (7, 2), (20, 3), (8, 4)):
        write(
            catalog, [(row, "a"), *numbered(MANY, "b")], txnAppId="nightly", txnVersion=version, overwrites=version > 9
        )

    assert [row for row, day in seen.rows() if day == "a"] == [3]
    assert seen.head() == 2
    # Both had been planned before one of them was committed.
    write(
        catalog,
        numbered(MANY, "c"),
        meanwhile=lambda: write(catalog, numbered(MANY, "d"), txnAppId="nightly", txnVersion=21),
        txnAppId="nightly",
        txnVersion=21,
    )
    assert {day for _, day in seen.rows()} == {"a", "b", "d"}
    check_lake(catalog, orphans=0)


def test_versions_are_counted_for_each_table(catalog: Catalog, seen: Lakes) -> None:
    def once(row: int, table: str, version: int = 1) -> None:
        write(catalog, [(row, "a")], table=table, txnAppId="nightly", txnVersion=version)

    for table in ("t", "main.u", "u"):
        once(1, table)
    assert seen.rows() == seen.rows("u") == [(1, "a")]
    with Lake.open(catalog.url) as lake:
        lake.rename_table("u", "v")  # is the same table
        lake.drop_table("t")
    once(2, "v")
    once(2, "t")  # is another one
    assert (seen.rows("v"), seen.rows()) == ([(1, "a")], [(2, "a")])
    # Two create the table for one version.
    write(
        catalog,
        numbered(MANY, "a"),
        meanwhile=lambda: once(3, "late"),
        table="late",
        txnAppId="nightly",
        txnVersion=1,
    )
    assert seen.rows("late") == [(3, "a")]
    check_lake(catalog, orphans=0)


def before_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let another do something when the next commit has been prepared."""
    commit = Transaction.commit

    def act_and_commit(self: Transaction) -> CommitResult:
        monkeypatch.setattr(Transaction, "commit", commit)
        act()
        return commit(self)

    monkeypatch.setattr(Transaction, "commit", act_and_commit)


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, MANY), ({"replaceWhere": "day = 'a'"}, 1), ({"partitionOverwriteMode": "dynamic"}, MANY)],
    ids=["all", "where", "dynamic"],
)
def test_of_two_overwrites_at_once_the_rows_of_one_stay(
    catalog: Catalog, seen: Lakes, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], count: int
) -> None:
    """Neither finds a row to delete."""
    write(catalog, [(-1, "z")] if options else [], partitionBy="day")
    before_commit(monkeypatch, lambda: write(catalog, numbered(count, "a", 5000), overwrites=True, **options))

    write(catalog, numbered(count, "a"), overwrites=True, **options)

    assert seen.rows() == ([(-1, "z")] if options else []) + numbered(count, "a")
    check_lake(catalog, orphans=0)


def test_a_table_that_is_there_is_left_alone(catalog: Catalog, seen: Lakes) -> None:
    write(catalog, [(1, "a")], ifTableExists="error")
    write(catalog, [(2, "a")], ifTableExists="ignore")
    with pytest.raises(ObjectExists, match="table 't' exists already: nothing was written"):
        write(catalog, [(3, "a")], ifTableExists="error")
    with pytest.raises(ObjectExists):
        write(
            catalog,
            numbered(MANY, "c"),
            table="late",
            ifTableExists="error",
            meanwhile=lambda: write(catalog, [(1, "a")], table="late"),
        )

    assert seen.rows() == seen.rows("late") == [(1, "a")]
    check_lake(catalog, orphans=0)


def test_a_table_that_is_altered_while_tasks_write_gets_nothing(catalog: Catalog, seen: Lakes) -> None:
    write(catalog, [(1, "a")])

    def alter() -> None:
        with Lake.open(catalog.url) as lake:
            lake.add_column("t", "n", "int64")

    with pytest.raises(CommitConflict, match="altered or dropped by another while its rows were written"):
        write(catalog, numbered(MANY, "b"), meanwhile=alter, mergeSchema="true")

    assert seen.rows() == [(1, "a", None)]
    assert stored_files(catalog) == set()

    def make_anew() -> None:
        with Lake.open(catalog.url) as lake:
            lake.drop_table("t")
            lake.create_table("t", {"id": "int64", "day": "varchar", "n": "int64"})

    with pytest.raises(CommitConflict, match="altered or dropped by another while its rows were written"):
        write(catalog, numbered(MANY, "b"), meanwhile=make_anew, mergeSchema="true")

    assert seen.rows() == []
    assert stored_files(catalog) == set()


def test_what_fails_leaves_nothing(catalog: Catalog, seen: Lakes) -> None:
    write(catalog, [(1, "a")])

    with pytest.raises(InvalidInput, match="do not match the filter"):
        write(catalog, numbered(MANY, "b"), overwrites=True, replaceWhere="id < 40")
    with pytest.raises(SchemaMismatch, match="merge_schema"):
        write(catalog, [(1, "c", 5)], WIDER)
    writer = make_writer(options_of(catalog), SCHEMA, overwrites=False)
    messages = in_two_tasks(writer, numbered(MANY, "b"), SCHEMA)
    assert len(stored_files(catalog)) == 2
    writer.abort(messages)  # of a commit that failed: a snapshot may name them
    assert len(stored_files(catalog)) == 2
    writer.abort([messages[0], None, messages[1]])  # of a task that failed: no commit was tried

    assert seen.rows() == [(1, "a")]
    assert stored_files(catalog) == set()


def test_bad_rows_are_kept_aside(catalog: Catalog, seen: Lakes) -> None:
    with Lake.create(catalog.url, catalog.data_path) as lake:
        lake.create_table("t", {"id": "int64", "day": "varchar"})
        lake.set_not_null("t", "day")

    write(catalog, [(1, "a"), (2, None)], onBadRow="quarantine")

    assert seen.rows() == [(1, "a")]
    with Lake.open(catalog.url) as lake:
        assert lake.table("t_dead_letters").count() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replaceWhere": "id = 1"}, "replaceWhere needs mode('overwrite')"),
        ({"ifTableExists": "ignore"}, "ifTableExists needs mode('append')"),
        ({"txnAppId": "a"}, "txnAppId and txnVersion need each other"),
        ({"txnAppId": "a", "txnVersion": "x"}, "txnVersion is 'x', but must be a number, 0 or more"),
        ({"flush": "1"}, "'flush' is for DuckLakeSink alone"),
        ({"mergeSchema": "maybe"}, "mergeSchema is 'maybe', but must be 'true' or 'false'"),
        ({"colour": "red"}, "there is no option 'colour'"),
        ({"checkpointLocation": "/tmp/x"}, "checkpointLocation is for writeStream"),  # noqa: S108 # never used
        ({"table": 'a"b'}, "table"),
        ({"table": '"odd name"'}, "create it by Lake.create_table first"),
        ({"path": "/x"}, "save() takes no path here"),
    ],
)
@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_mistakes_are_told(catalog: Catalog, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_writer(options_of(catalog, **options), SCHEMA, overwrites="ifTableExists" in options)

    assert message.lower() in str(caught.value).lower()


def checkpoint(folder: Path, query_id: str) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "metadata").write_text(f'{{"id":"{query_id}"}}')
    return folder.as_uri()


def stream(catalog: Catalog, rows: Rows, batch_id: int, location: str, **options: object) -> None:
    """Write a batch as Spark does: the process that commits makes a writer of its own."""
    given = options_of(catalog, stream="orders", checkpointLocation=location, **options)
    messages = in_two_tasks(make_stream_writer(given, SCHEMA, overwrites=False), rows, SCHEMA)
    make_stream_writer(given, SCHEMA, overwrites=False).commit(messages, batch_id)


def test_each_batch_of_a_stream_is_written_once(catalog: Catalog, seen: Lakes, tmp_path: Path) -> None:
    location = checkpoint(tmp_path / "checkpoint", "one")
    stream(catalog, [(1, "a")], 0, location)
    stream(catalog, numbered(MANY, "b"), 1, location)
    stream(catalog, numbered(MANY, "b"), 1, location)  # repeated
    stream(catalog, [], 2, location)

    assert seen.head() == 2
    assert seen.rows() == sorted([(1, "a"), *numbered(MANY, "b")])
    with Lake.open(catalog.url) as lake:
        entry = lake.ledger_entry("orders")
        assert entry is not None
        assert (entry.stream, entry.query_id, entry.batch_id) == ("orders", "one", 2)
    check_lake(catalog, orphans=0)


def test_a_new_checkpoint_under_an_old_name_is_refused(catalog: Catalog, seen: Lakes, tmp_path: Path) -> None:
    """Its batches have the numbers of others: skipped as repeated ones they would be lost."""
    stream(catalog, [(1, "a")], 0, checkpoint(tmp_path / "checkpoint", "one"))

    with pytest.raises(EpochOutOfOrder, match="the checkpoint was deleted or belongs to another query"):
        stream(catalog, numbered(MANY, "b"), 0, checkpoint(tmp_path / "checkpoint", "two"))
    with pytest.raises(InvalidInput, match="cannot read which query has the checkpoint"):
        stream(catalog, numbered(MANY, "b"), 0, str(tmp_path / "nowhere"))

    assert seen.rows() == [(1, "a")]
    assert stored_files(catalog) == set()


def test_no_password_goes_to_executors_when_the_catalog_refers_to_it(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKE_ADDRESS", catalog.url)

    writer = make_writer({**options_of(catalog), "catalog": "${env:LAKE_ADDRESS}"}, SCHEMA, overwrites=False)

    assert catalog.url.encode() not in pickle.dumps(writer)
