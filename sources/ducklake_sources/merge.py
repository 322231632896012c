"""A merge by key, as `DeltaTable.merge` is called, as far as an upsert is the same. Runs on the driver."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from ducklake_core import UpsertReport
from ducklake_core.errors import InvalidInput
from ducklake_core.spec.names import fold
from ducklake_sources.lake_frames import LakeFrames

_PAIR = re.compile(r"\s*(?:[A-Za-z_]\w*\s*\.\s*)?(\w+|`[^`]+`)\s*=\s*(?:[A-Za-z_]\w*\s*\.\s*)?(\w+|`[^`]+`)\s*")
_SUPPORTED = (
    "possible are when_matched_update_all() together with when_not_matched_insert_all(), which is an upsert, or "
    "when_matched_delete() alone; for other merges see Lake.upsert, with apply_as_deletes and sequence_by, or MERGE in "
    "DuckDB"
)


class MergeBuilder:
    """What shall become of rows that match and of those that do not; `execute` does it in one snapshot."""

    def __init__(self, frames: LakeFrames, table: str, source: DataFrame, condition: str | Sequence[str]) -> None:
        self._frames = frames
        self._table = table
        self._source = source
        self._keys = _keys(condition)
        self._clauses: set[str] = set()

    def when_matched_update_all(self, condition: None = None) -> MergeBuilder:
        """Give rows that match all values of the source."""
        return self._with("update", condition)

    def when_not_matched_insert_all(self, condition: None = None) -> MergeBuilder:
        """Insert the source's rows that match none."""
        return self._with("insert", condition)

    def when_matched_delete(self, condition: None = None) -> MergeBuilder:
        """Delete rows that match."""
        return self._with("delete", condition)

    def execute(self) -> UpsertReport:
        """Collect the source's rows and merge them; raise InvalidInput when two of them have one key."""
        if self._clauses not in ({"update", "insert"}, {"delete"}):
            raise InvalidInput(f"a merge with {', '.join(sorted(self._clauses)) or 'no clause'}: {_SUPPORTED}")
        rows = self._source.toArrow()
        _refuse_twice(rows, self._keys)
        with self._frames.open() as lake:
            if self._clauses == {"delete"}:
                return lake.delete_keys(self._table, rows, keys=self._keys)
            return lake.upsert(self._table, rows, keys=self._keys)

    def _with(self, clause: str, condition: object) -> MergeBuilder:
        if condition is not None:
            raise InvalidInput(f"a merge with a condition of its own for a clause: {_SUPPORTED}")
        self._clauses.add(clause)
        return self


def _keys(condition: str | Sequence[str]) -> tuple[str, ...]:
    """Return the key columns of names, or of a condition that compares the same columns of both sides."""
    if not isinstance(condition, str):
        return tuple(condition)
    if "=" not in condition:
        return (condition,)
    keys = []
    for part in re.split(r"\s+and\s+", condition.strip(), flags=re.IGNORECASE):
        pair = _PAIR.fullmatch(part)
        if pair is None or fold(pair[1].strip("`")) != fold(pair[2].strip("`")):
            raise InvalidInput(
                f"cannot merge by '{condition}': a key is compared as in 'target.id = source.id', by the same name on "
                "both sides and nothing else; or give the names of the key columns"
            )
        keys.append(pair[1].strip("`"))
    return tuple(keys)


def _refuse_twice(rows: pa.Table, keys: Sequence[str]) -> None:
    """Refuse two rows of one key, of which Spark tells no order: Delta Lake does so, too."""
    by_name = {fold(name): name for name in rows.column_names}
    missing = [key for key in keys if fold(key) not in by_name]
    if missing:
        raise InvalidInput(f"the source of the merge has no column '{missing[0]}'")
    names = [by_name[fold(key)] for key in keys]
    counts = rows.group_by(names).aggregate([([], "count_all")]).column("count_all")
    if len(counts) and pc.max(counts).as_py() > 1:
        raise InvalidInput(f"several rows of the source have the same {', '.join(names)}: leave one of each in it")
