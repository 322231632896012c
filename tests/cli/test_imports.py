"""The commands `import`: folders of Parquet files and Delta tables become tables of a lake, without a copy."""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core import Lake
from ducklake_streaming.cli import main
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle

SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": "id", "type": "long", "nullable": False, "metadata": {}},
        {"name": "day", "type": "date", "nullable": True, "metadata": {}},
        {"name": "city", "type": "string", "nullable": True, "metadata": {}},
        {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
        {"name": "tags", "type": {"type": "array", "elementType": "string", "containsNull": True}, "nullable": True},
        {"name": "added", "type": "decimal(9,2)", "nullable": True, "metadata": {}},
        {"name": "s", "type": {"type": "struct", "fields": [{"name": "timestamptz", "type": "timestamp"}]}},
    ],
}
PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


class DeltaTable:
    """A Delta table, made by hand as the protocol says."""

    def __init__(self, folder: Path, *, int96: bool = False) -> None:
        self.folder, self.int96, self.version = folder, int96, -1
        (folder / "_delta_log").mkdir(parents=True)

    def commit(self, *actions: dict[str, Any]) -> None:
        self.version += 1
        self.write("\n".join(json.dumps(action, ensure_ascii=False) for action in actions))

    def write(self, lines: str) -> None:
        (self.folder / "_delta_log" / f"{self.version:020d}.json").write_text(lines)

    def checkpoint(self, *actions: dict[str, Any]) -> None:
        """Write a checkpoint of the newest version, and remove what it stands for."""
        keys = ("protocol", "metaData", "add", "sidecar")
        rows = [{key: action.get(key) for key in keys} for action in actions]
        for row in rows:
            for one in filter(None, row.values()):
                for name in ("partitionValues", "configuration"):
                    if name in one:
                        one[name] = list(one[name].items())
        types = pa.map_(pa.string(), pa.string())
        add = pa.struct({"path": pa.string(), "partitionValues": types, "size": pa.int64(), "stats": pa.string()})
        metadata = pa.struct({"schemaString": pa.string(), "partitionColumns": pa.list_(pa.string())})
        protocol = pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()})
        sidecar = pa.struct({"path": pa.string()})
        schema = pa.schema({"protocol": protocol, "metaData": metadata, "add": add, "sidecar": sidecar})
        log = self.folder / "_delta_log"
        pq.write_table(pa.Table.from_pylist(rows, schema), log / f"{self.version:020d}.checkpoint.parquet")
        for commit in log.glob("*.json"):
            commit.unlink()

    def metadata(self, **configuration: str) -> dict[str, Any]:
        return {
            "metaData": {
                "id": "x",
                "format": {"provider": "parquet"},
                "schemaString": json.dumps(SCHEMA),
                "partitionColumns": ["day", "city"],
                "configuration": configuration,
            }
        }

    def add(
        self, directory: str, name: str, day: str | None, city: str | None, *ids: int, has_times: bool = True
    ) -> dict[str, Any]:
        rows = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "at": pa.array([datetime(2024, 1, 1)] * len(ids), pa.timestamp("us", None if self.int96 else "UTC")),  # noqa: DTZ001
                "tags": [["x"]] * len(ids),
            }
        )
        path = f"{directory}/{name}.parquet"
        (self.folder / directory).mkdir(parents=True, exist_ok=True)
        rows = rows if has_times else rows.drop_columns(["at"])
        pq.write_table(rows, self.folder / path, use_deprecated_int96_timestamps=self.int96)
        stats = json.dumps({"numRecords": len(ids)})
        values = {"day": day, "city": city}
        return {"add": {"path": quote(path, safe="/="), "partitionValues": values, "size": 1, "stats": stats}}


@pytest.fixture
def lake(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    """Give a lake that the environment names."""
    monkeypatch.setenv("DUCKLAKE_CATALOG", catalog.url)
    with Lake.create(catalog.url, catalog.data_path) as lake:
        yield lake


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("has_checkpoint", [False, True], ids=["commits", "checkpoint"])
def test_a_delta_table_becomes_a_table_with_the_same_rows(
    lake: Lake,
    catalog: Catalog,
    oracle: Oracle,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    has_checkpoint: bool,  # noqa: FBT001 # of pytest
) -> None:
    delta = DeltaTable(tmp_path / "id=77" / "delta", int96=not has_checkpoint)  # above the table: no value of it
    slash = delta.add("day=2024-01-01/city=a%2Fb", "one", "2024-01-01", "a/b", 1, 2)
    nulls = delta.add("day=2024-01-02/city=__HIVE_DEFAULT_PARTITION__", "two", "2024-01-02", None, 3, has_times=False)
    gone = delta.add("day=2024-01-03/city=c", "gone", "2024-01-03", "c", 99)
    late = delta.add("day=2024-01-03/city=c", "late", "2024-01-03", "c", 4)
    delta.commit({"commitInfo": {"text": "a\u2028b"}}, PROTOCOL, delta.metadata(), nulls, gone)
    delta.commit(slash, {"remove": {"path": gone["add"]["path"], "dataChange": True}})
    if has_checkpoint:
        delta.checkpoint(PROTOCOL, delta.metadata(), nulls, slash)
    delta.commit(late)

    row = shown(capsys, "import", "delta", str(delta.folder), "old.orders")

    assert (row["files"], row["rows"], row["counted_files"]) == (3, 4, 3)
    found = lake.table("old.orders").read().sort_by("id")
    assert found.select(["id", "city"]).to_pylist() == [
        {"id": 1, "city": "a/b"},
        {"id": 2, "city": "a/b"},
        {"id": 3, "city": None},
        {"id": 4, "city": "c"},
    ]
    types = {node.name: node.type for column in lake.table("old.orders").version.columns for node in column.walk()}
    assert types["at"] == ("timestamptz" if has_checkpoint else "timestamp")  # INT96 tells no zone; it is UTC
    assert types["timestamptz"] == types["at"]
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    answer = oracle.query(
        'SELECT id, day::VARCHAR, city, "at"::TIMESTAMP, tags, added FROM old.orders ORDER BY id LIMIT 1'
    )
    assert answer == [(1, "2024-01-01", "a/b", datetime(2024, 1, 1), ["x"], None)]  # noqa: DTZ001
    assert oracle.query("SELECT count(*) FROM old.orders WHERE day = '2024-01-03'") == [(1,)]
    assert oracle.query("SELECT count(*) FROM old.orders WHERE added IS NULL") == [(4,)]


def test_a_delta_table_that_files_alone_do_not_tell_is_refused(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refusal(*actions: dict[str, Any], torn: bool = False, has_checkpoint: bool = False) -> str:
        delta = DeltaTable(tmp_path / f"delta{len(list(tmp_path.iterdir()))}")
        delta.commit(*actions)
        if torn:
            delta.write('{"protocol": {"minRe')
        if has_checkpoint:
            delta.checkpoint(*actions)
        assert main(["import", "delta", str(delta.folder), "t"]) != 0
        return capsys.readouterr().err

    delta = DeltaTable(tmp_path / "delta")
    add = delta.add("day=2024-01-01/city=a", "one", "2024-01-01", "a", 1)
    vector = {"add": {**add["add"], "deletionVector": {"storageType": "u"}}}
    full = f"{delta.folder}/day=2024-01-01/city=a/one.parquet"
    elsewhere = {"add": {**add["add"], "path": full, "partitionValues": {"day": "2024-01-01", "city": "b"}}}
    too_many = {"add": {**add["add"], "path": full, "stats": '{"numRecords": 7}'}}
    features = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["rowSecrets"]}}

    gone = {"remove": {"path": add["add"]["path"]}}  # the same file without its vector
    assert "a deletion vector hides some of its rows" in refusal(PROTOCOL, delta.metadata(), vector, gone)
    mapped = delta.metadata(**{"delta.columnMapping.mode": "name"})
    assert "column mapping by name" in refusal(PROTOCOL, mapped, add)
    assert "features rowSecrets" in refusal(features, delta.metadata(), add)
    assert "its 'city' is 'b' by the log, and its path does not say so" in refusal(
        PROTOCOL, delta.metadata(), elsewhere
    )
    assert "has 7 rows by its log, but 1 in its files" in refusal(PROTOCOL, delta.metadata(), too_many)
    sidecar = {"sidecar": {"path": "x.parquet"}}
    assert "lists its files in sidecars" in refusal(PROTOCOL, delta.metadata(), sidecar, has_checkpoint=True)
    text = delta.add("day=2024-01-01/city=NULL", "null", "2024-01-01", "NULL", 1)  # DuckDB reads null there
    assert "its 'city' is 'NULL' by the log" in refusal(PROTOCOL, delta.metadata(), text)
    assert "has no action 'protocol'" in refusal(delta.metadata())
    assert "has no action 'metaData'" in refusal(PROTOCOL)
    assert re.search(r"cannot read commit '.*/_delta_log/0{20}\.json'", refusal(torn=True))
    (tmp_path / "none").mkdir()
    assert main(["import", "delta", str(tmp_path / "none"), "t"]) != 0
    assert "there is no Delta table" in capsys.readouterr().err
    assert lake.tables() == []


def test_a_folder_of_parquet_files_becomes_a_table_and_more_of_it_is_added(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "files"
    for directory, ids in (("n=1/day=2024-01-01", [1, 2]), ("n=2/day=2024-01-02", [3]), ("n=3/_temporary", [9])):
        (folder / directory).mkdir(parents=True)
        pq.write_table(pa.table({"id": ids, "city": ["x"] * len(ids)}), folder / directory / "a.parquet")

    row = shown(capsys, "import", "parquet", str(folder), "t")
    again = shown(capsys, "import", "parquet", str(folder / "n=2"), "t")

    assert (row["files"], row["rows"]) == (2, 3)
    assert again["rows"] == 1
    table = lake.table("t")
    assert {c.name: c.type for c in table.version.columns} == {
        "id": "int64",
        "city": "varchar",
        "n": "int64",
        "day": "date",
    }
    assert sorted(table.read(filter="day = '2024-01-02' AND n = 2").column("id").to_pylist()) == [3, 3]

    def refusal(path: Path) -> str:
        assert main(["import", "parquet", str(path), "other"]) != 0
        return capsys.readouterr().err

    assert "there is no file or folder" in refusal(tmp_path / "nothing")
    pq.write_table(pa.table({"id": [1]}), folder / "n=1" / "b.parquet")
    assert "only some paths tell 'day=…'" in refusal(folder)
    for log, remedy in (
        ("_delta_log/0.json", "import delta"),
        ("_spark_metadata/0", "read it with Spark"),
        ("metadata/v1.metadata.json", "import iceberg"),
    ):
        path = tmp_path / remedy / log
        path.parent.mkdir(parents=True)
        path.touch()
        assert re.search(f"not every file is a part: .*{remedy}", refusal(tmp_path / remedy))


class IcebergTable:
    """An Iceberg table, made by hand as the specification says, as far as a reader looks."""

    FIELDS = (
        {"id": 1, "name": "id", "type": "long", "required": True},
        {"id": 2, "name": "s", "required": False, "type": {"type": "struct", "fields": [
            {"id": 4, "name": "x", "type": "int", "required": False}]}},
        {"id": 3, "name": "at", "type": "timestamptz", "required": False},
        {"id": 5, "name": "l", "required": False, "type": {"type": "list", "element-id": 6, "element": {
            "type": "struct", "fields": [{"id": 7, "name": "y", "type": "int", "required": False}]}}},
    )  # fmt: skip

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "metadata").mkdir(parents=True)
        (folder / "data" / "id=77").mkdir(parents=True)  # no hive directory: the value is in the file

    def entry(
        self,
        name: str,
        ids: list[int],
        status: int = 1,
        content: int = 0,
        struct_id: int = 2,
        in_list: tuple[str, int] = ("y", 7),
        *,
        has_ids: bool = True,
    ) -> dict[str, Any]:
        def field(name: str, type_: pa.DataType, number: int) -> pa.Field:
            return pa.field(name, type_, metadata={"PARQUET:field_id": str(number)} if has_ids else None)

        inner = pa.struct([field("x", pa.int32(), 4)])
        list_ = pa.list_(field("element", pa.struct([field(in_list[0], pa.int32(), in_list[1])]), 6))
        fields = [field("id", pa.int64(), 1), field("s", inner, struct_id), field("l", list_, 5)]
        values = [ids, [{"x": i} for i in ids], [[{in_list[0]: i}] for i in ids]]
        arrays = [pa.array(one, of.type) for one, of in zip(values, fields, strict=True)]
        rows = pa.table(arrays, schema=pa.schema(fields))
        path = self.folder / "data" / "id=77" / f"{name}.parquet"
        pq.write_table(rows, path)
        file = {"content": content, "file_path": f"file://{path}", "file_format": "PARQUET", "record_count": len(ids)}
        return {"status": status, "data_file": file}

    def commit(self, *entries: dict[str, Any], version: int = 2, **more: object) -> None:
        names = {"content": "int", "file_path": "string", "file_format": "string", "record_count": "long"}
        file = {"type": "record", "name": "r2", "fields": [{"name": n, "type": t} for n, t in names.items()]}
        entry = {"type": "record", "name": "manifest_entry", "fields": [{"name": "status", "type": "int"}]}
        entry["fields"] = [*entry["fields"], {"name": "data_file", "type": file}]
        listed = {"type": "record", "name": "manifest_file", "fields": [{"name": "manifest_path", "type": "string"}]}
        manifest, manifests = self.folder / "metadata/m0.avro", self.folder / "metadata/snap.avro"
        for path, schema, rows in (
            (manifest, entry, list(entries)),
            (manifests, listed, [{"manifest_path": f"file:{manifest}"}]),
        ):
            with path.open("wb") as sink:
                fastavro.writer(sink, fastavro.parse_schema(schema), rows, codec="deflate")
        metadata = {
            "format-version": version,
            "current-schema-id": 1,
            "schemas": [{"schema-id": 0, "fields": []}, {"schema-id": 1, "fields": self.FIELDS}],
            "current-snapshot-id": 9,
            "snapshots": [{"snapshot-id": 9, "manifest-list": f"file://{manifests}"}],
        } | {name.replace("_", "-"): value for name, value in more.items()}
        number = len(list((self.folder / "metadata").glob("*.json")))
        (self.folder / "metadata" / f"{number:05d}-aa.metadata.json").write_text(json.dumps(metadata))


def test_an_iceberg_table_becomes_a_table_with_the_same_rows_unless_files_alone_do_not_tell_them(
    lake: Lake, catalog: Catalog, oracle: Oracle, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = IcebergTable(tmp_path / "iceberg")
    live, gone = table.entry("a", [1, 2]), table.entry("b", [3], status=2)
    of_hive = table.entry("of hive", [3], has_ids=False)
    names = [{"field-id": 1, "names": ["id"]}, {"field-id": 5, "names": ["l"], "fields": [
        {"field-id": 6, "names": ["element"], "fields": [{"field-id": 7, "names": ["y"]}]}]},
        {"field-id": 2, "names": ["s"], "fields": [{"field-id": 4, "names": ["w", "x"]}]}]  # fmt: skip

    def refusal(*entries: dict[str, Any], version: int = 2, **more: object) -> str:
        table.commit(*entries, version=version, **more)
        assert main(["import", "iceberg", str(table.folder), "t"]) != 0
        return capsys.readouterr().err

    assert "delete files" in refusal(live, table.entry("deletes", [1], content=1))
    assert "column 's', which is another one in the table now" in refusal(live, table.entry("c", [4], struct_id=9))
    for changed in (("z", 7), ("y", 8)):
        assert f"column 'l.element.{changed[0]}', which is" in refusal(table.entry("d", [4], in_list=changed))
    assert "the file has no field ids" in refusal(of_hive)
    by_at = [{"spec-id": 0, "fields": [{"name": "at", "transform": "identity", "source-id": 3}]}]
    assert "without column 'at', by which the table is partitioned" in refusal(live, partition_specs=by_at)
    assert "lacks its current snapshot 8" in refusal(live, current_snapshot_id=8)
    assert "format 3" in refusal(live, version=3)
    assert "has 5 rows by its log, but 2 in its files" in refusal(
        {**live, "data_file": {**live["data_file"], "record_count": 5}}
    )
    table.commit(live, gone, of_hive, properties={"schema.name-mapping.default": json.dumps(names)})
    row = shown(capsys, "import", "iceberg", str(table.folder), "t")

    assert (row["files"], row["rows"]) == (2, 3)
    rows = [{"id": i, "s": {"x": i}, "at": None, "l": [{"y": i}]} for i in (1, 2, 3)]
    assert lake.table("t").read().to_pylist() == rows
    oracle.attach(catalog.attach, data_path=catalog.data_path)
    assert oracle.query('SELECT id, s.x, "at" FROM t WHERE id < 70 AND "at" IS NULL ORDER BY id') == [
        (1, 1, None),
        (2, 2, None),
        (3, 3, None),
    ]
