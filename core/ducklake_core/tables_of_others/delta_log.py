"""Reads the log of a Delta Lake table: JSON commits on top of the last checkpoint. Runs on the driver; no Spark.

What Parquet files alone do not tell is refused by name: deletion vectors, column mapping, features that we do not know.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.errors import InvalidInput, ObjectNotFound, UnreadableFile
from ducklake_core.files.storage import Storage
from ducklake_core.spec.paths import hide_password
from ducklake_core.tables_of_others.delta_schema import delta_columns
from ducklake_core.tables_of_others.foreign_table import ForeignFile, ForeignTable

Action = Mapping[str, Any]  # Any: what JSON holds

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10}))?\.parquet")
_KINDS = ("add", "remove", "metaData", "protocol", "sidecar")
# Features of readers that change nothing about whole files whose deletion vectors and mappings are looked at anyway.
_HARMLESS = frozenset(
    {"columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint"}
    | {"vacuumProtocolCheck"}
)
_LAST_PLAIN_READER = 3


@dataclass(slots=True)
class _State:
    """What a table is after some actions."""

    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)
    added: dict[tuple[object, ...], Action] = field(default_factory=dict)

    def apply(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if action.get("protocol"):
                self.protocol = action["protocol"]
            if action.get("metaData"):
                self.metadata = action["metaData"]
            if action.get("remove"):
                self.added.pop(_key(action["remove"]), None)
            if action.get("add"):
                self.added[_key(action["add"])] = action["add"]


def _key(file: Action) -> tuple[object, ...]:
    """Return what a file is known by: one commit may add it with a deletion vector and remove it without."""
    vector = file.get("deletionVector") or {}
    return unquote(file["path"]), *(vector.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))


def read_delta_table(storage: Storage, path: str) -> ForeignTable:
    """Return the newest version of a Delta table; raise InvalidInput for what cannot be taken over as it is.

    Raises ObjectNotFound where there is no log, UnreadableFile for one that has gaps.
    """
    folder = path.rstrip("/")
    version, state = _replay(storage, f"{folder}/_delta_log")
    for name, found in (("protocol", state.protocol), ("metaData", state.metadata)):
        if not found:
            raise UnreadableFile(f"the log '{hide_password(folder)}/_delta_log' has no action '{name}'", path=folder)
    _check_protocol(state.protocol)
    _check_metadata(state.metadata)
    partition_by = tuple(state.metadata.get("partitionColumns") or ())
    columns, required = delta_columns(json.loads(state.metadata["schemaString"]))
    files = tuple(_file(folder, action) for action in state.added.values())
    return ForeignTable(version, columns, required, partition_by, files)


def _replay(storage: Storage, log: str) -> tuple[int, _State]:
    names = storage.files_in(log)
    commits = {int(m[1]): name for name in names if (m := _COMMIT.fullmatch(name))}
    first, parts = _last_checkpoint(names)
    if not commits and not parts:
        raise ObjectNotFound(f"there is no Delta table: '{hide_password(log)}' has no commits", path=log)
    newest, state = max([*commits, first]), _State()
    for name in parts:
        state.apply(_checkpoint_actions(storage, f"{log}/{name}"))
    for version in range(first + 1, newest + 1):
        if version not in commits:
            raise UnreadableFile(
                f"the log '{hide_password(log)}' has no commit {version}, and no checkpoint as Parquet after it",
                path=log,
            )
        state.apply(_commit_actions(storage, f"{log}/{commits[version]}"))
    return newest, state


def _last_checkpoint(names: Sequence[str]) -> tuple[int, list[str]]:
    """Return the version and the files of the newest checkpoint that is whole; -1 and none where there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if m := _CHECKPOINT.fullmatch(name):
            found.setdefault((int(m[1]), int(m[3] or 1)), []).append(name)
    whole = {version: parts for (version, count), parts in sorted(found.items()) if len(parts) == count}
    return max(whole.items(), default=(-1, []))


def _commit_actions(storage: Storage, path: str) -> list[Action]:
    with storage.open_input(path) as source:
        content: bytes = source.read()
    try:
        return [json.loads(line) for line in content.decode().split("\n") if line.strip()]
    except ValueError as error:
        raise UnreadableFile(f"cannot read commit '{hide_password(path)}': {error}", path=path) from error


def _checkpoint_actions(storage: Storage, path: str) -> list[Action]:
    try:
        with storage.open_input(path) as source:
            parquet = pq.ParquetFile(source)
            names = [name for name in parquet.schema_arrow.names if name in _KINDS]
            rows: list[Action] = parquet.read(columns=names).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UnreadableFile(f"cannot read checkpoint '{hide_password(path)}': {error}", path=path) from error
    if any(row.get("sidecar") for row in rows):
        raise InvalidInput(
            f"cannot take over a Delta table whose checkpoint '{hide_password(path)}' lists its files in sidecars: set "
            "the table's property delta.checkpointPolicy to 'classic', and let Delta write a checkpoint first",
            path=path,
        )
    return rows


def _check_protocol(protocol: Action) -> None:
    reader = protocol.get("minReaderVersion") or 1
    unknown = sorted(set(protocol.get("readerFeatures") or ()) - _HARMLESS)
    if reader > _LAST_PLAIN_READER or unknown:
        what = f"features {', '.join(unknown)}" if unknown else f"reader version {reader}"
        raise InvalidInput(f"cannot take over a Delta table with {what}: copy its rows with Spark instead")


def _check_metadata(metadata: Action) -> None:
    configuration = dict(metadata.get("configuration") or {})
    mode = configuration.get("delta.columnMapping.mode") or "none"
    if mode != "none":
        raise InvalidInput(
            f"cannot take over a Delta table with column mapping by {mode}: its files call columns otherwise than the "
            "table does; copy its rows with Spark instead"
        )
    provider = (metadata.get("format") or {}).get("provider") or "parquet"
    if provider != "parquet":
        raise InvalidInput(f"cannot take over a Delta table of {provider} files")


def _file(folder: str, action: Action) -> ForeignFile:
    path = unquote(action["path"])
    if action.get("deletionVector"):
        raise InvalidInput(
            f"cannot take over file '{path}': a deletion vector hides some of its rows. Let Delta write the files "
            "without them first: REORG TABLE … APPLY (PURGE)",
            path=path,
        )
    values = {name: value or None for name, value in dict(action.get("partitionValues") or {}).items()}
    is_full = path.startswith("/") or re.match(r"[a-z0-9]+:/", path) is not None
    return ForeignFile(path if is_full else f"{folder}/{path}", values, _record_count(action.get("stats")))


def _record_count(stats: str | None) -> int | None:
    count = json.loads(stats).get("numRecords") if stats else None
    return None if count is None else int(count)
