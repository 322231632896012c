"""Reads an Iceberg table by its own files: metadata in JSON, manifests in Avro. Runs on the driver; no Spark.

What Parquet files alone do not tell is refused by name: delete files, formats from version 3 on.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from fastavro import reader as avro_reader

from ducklake_core.errors import InvalidInput, ObjectNotFound, UnreadableFile
from ducklake_core.files.storage import Storage
from ducklake_core.spec.paths import hide_password
from ducklake_core.tables_of_others.foreign_table import ForeignFile, ForeignTable
from ducklake_core.tables_of_others.iceberg_schema import iceberg_columns, iceberg_fields, mapped_fields

Record = Mapping[str, Any]  # Any: what JSON and Avro hold

_METADATA = re.compile(r"v?(\d+)(?:-[0-9a-fA-F-]+)?(?:\.gz)?\.metadata\.json")
_LAST_FORMAT = 2
_NO_SNAPSHOT = -1  # what older writers call none
_DELETED = 2  # the status of an entry whose file is gone


def read_iceberg_table(storage: Storage, path: str, full_path: Callable[[str], str]) -> ForeignTable:
    """Return the current snapshot of a table, by its folder or its metadata file; raise InvalidInput for what is odd.

    `full_path` makes the paths that the metadata have those of the storage.
    """
    name = path if path.endswith(".metadata.json") else _newest_metadata(storage, path.rstrip("/"))
    metadata = _metadata(storage, name)
    if metadata["format-version"] > _LAST_FORMAT:
        raise InvalidInput(f"cannot take over an Iceberg table of format {metadata['format-version']}: copy its rows")
    schema = _schema(metadata)
    columns, required = iceberg_columns(schema)
    snapshot_id = metadata.get("current-snapshot-id")
    files: list[ForeignFile] = []
    if snapshot_id not in (None, _NO_SNAPSHOT):
        files = _live_files(storage, metadata, _snapshot(metadata, snapshot_id, name), full_path)
    names = mapped_fields(json.loads((metadata.get("properties") or {}).get("schema.name-mapping.default") or "[]"))
    return ForeignTable(snapshot_id or 0, columns, required, (), tuple(files), iceberg_fields(schema), names)


def _metadata(storage: Storage, path: str) -> Record:
    try:
        found: Record = json.loads(_read(storage, path))
    except ValueError as error:
        raise UnreadableFile(f"cannot read metadata '{hide_password(path)}': {error}", path=path) from error
    return found


def _snapshot(metadata: Record, snapshot_id: int, path: str) -> Record:
    for one in metadata.get("snapshots") or ():
        if one["snapshot-id"] == snapshot_id:
            return dict(one)
    raise UnreadableFile(f"metadata '{hide_password(path)}' lacks its current snapshot {snapshot_id}", path=path)


def _newest_metadata(storage: Storage, folder: str) -> str:
    found = {name: int(m[1]) for name in storage.files_in(f"{folder}/metadata") if (m := _METADATA.fullmatch(name))}
    newest = [name for name, version in found.items() if version == max(found.values())]
    if not newest:
        raise ObjectNotFound(f"there is no Iceberg table: '{hide_password(folder)}/metadata' has no metadata")
    if len(newest) > 1 or ".gz." in newest[0]:
        raise InvalidInput(
            f"'{hide_password(folder)}/metadata' does not tell which metadata is the table's: {', '.join(newest)}; "
            "give the path of the file that the table's catalog names"
        )
    return f"{folder}/metadata/{newest[0]}"


def _schema(metadata: Record) -> Record:
    by_id: dict[int, Record] = {one["schema-id"]: one for one in metadata.get("schemas") or ()}
    found: Record = by_id.get(metadata.get("current-schema-id", 0)) or metadata["schema"]
    return found


def _live_files(
    storage: Storage, metadata: Record, snapshot: Record, full_path: Callable[[str], str]
) -> list[ForeignFile]:
    if "manifest-list" not in snapshot:
        raise InvalidInput("cannot take over an Iceberg table whose snapshot has no manifest list")
    files: list[ForeignFile] = []
    for manifest in _records(storage, full_path(snapshot["manifest-list"])):
        entries = _records(storage, full_path(manifest["manifest_path"]))
        own_ids = _identity_ids(metadata, manifest.get("partition_spec_id"))
        files += [_file(entry["data_file"], own_ids) for entry in entries if entry["status"] != _DELETED]
    return files


def _identity_ids(metadata: Record, spec_id: int | None) -> frozenset[int]:
    """Return the ids of columns whose whole values are partition values: files of other writers may lack them."""
    specs = metadata.get("partition-specs") or [{"fields": metadata.get("partition-spec") or ()}]
    fields = [one for spec in specs if spec_id in (None, spec.get("spec-id", spec_id)) for one in spec["fields"]]
    return frozenset(int(one["source-id"]) for one in fields if one["transform"] == "identity")


def _file(file: Record, own_ids: frozenset[int]) -> ForeignFile:
    path = file["file_path"]
    if file.get("content") or 0:
        raise InvalidInput(
            f"cannot take over an Iceberg table with delete files, such as '{hide_password(path)}': let Iceberg write "
            "the data files without deleted rows first, by rewrite_data_files",
            path=path,
        )
    if str(file["file_format"]).upper() != "PARQUET":
        raise InvalidInput(f"cannot take over file '{hide_password(path)}': it is no Parquet file", path=path)
    return ForeignFile(path, record_count=int(file["record_count"]), own_ids=own_ids)


def _records(storage: Storage, path: str) -> list[Record]:
    try:
        return [dict(record) for record in avro_reader(io.BytesIO(_read(storage, path)))]  # type: ignore[arg-type]
    except (ValueError, EOFError, KeyError) as error:
        raise UnreadableFile(f"cannot read manifest '{hide_password(path)}': {error}", path=path) from error


def _read(storage: Storage, path: str) -> bytes:
    with storage.open_input(path) as source:
        content: bytes = source.read()
    return content
