"""What the footer of a data file tells without its rows: how many there are, and what they say of themselves.

Runs on the driver. Only the end of the file is read.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ducklake_core.errors import UnreadableFile
from ducklake_core.files.field_match import field_id
from ducklake_core.files.parquet_reader import decryption_of, explain
from ducklake_core.files.storage import Storage
from ducklake_core.model import DataFile
from ducklake_core.spec.paths import hide_password
from ducklake_core.spec.types import ROW_ID_FIELD, SNAPSHOT_ID_FIELD


@dataclass(frozen=True, slots=True)
class Footer:
    """Of a data file. `last_row_id` None: it has no row ids inside, or does not tell the last one."""

    record_count: int
    footer_bytes: int
    has_row_ids: bool
    has_snapshot_ids: bool
    last_row_id: int | None = None


def read_footer(storage: Storage, file: DataFile) -> Footer:
    """Read the footer of a data file; raise UnreadableFile when that cannot be done."""
    try:
        with storage.open_input(file.path) as source:
            footer_bytes = _footer_bytes(source)
            parquet = pq.ParquetFile(source, decryption_properties=decryption_of(file.encryption_key))
            ids = {field_id(found): found.name for found in parquet.schema_arrow}
            last = _last_value(parquet, ids[ROW_ID_FIELD]) if ROW_ID_FIELD in ids else None
            has = ROW_ID_FIELD in ids, SNAPSHOT_ID_FIELD in ids
            return Footer(parquet.metadata.num_rows, footer_bytes, *has, last)
    except (pa.ArrowException, OSError, UnreadableFile) as error:
        raise UnreadableFile(
            f"data file {file.data_file_id} '{hide_password(file.path)}': {explain(error)}", path=file.path
        ) from error


def _footer_bytes(source: pa.NativeFile) -> int:
    source.seek(max(0, source.size() - 8))
    return int.from_bytes(source.read(4), "little")


def _last_value(parquet: pq.ParquetFile, name: str) -> int | None:
    """Return the greatest value of an internal column, None where a row group does not tell."""
    paths = [parquet.schema.column(index).path for index in range(len(parquet.schema.names))]
    groups = [parquet.metadata.row_group(group) for group in range(parquet.num_row_groups)]
    found = [group.column(paths.index(name)).statistics for group in groups]
    if not found or not all(one is not None and one.has_min_max for one in found):
        return None
    return max(int(one.max) for one in found)
