"""Reads a table at one snapshot as a batch: plans slices where Spark plans, reads them on executors.

What travels to executors is the reader without its table, and a partition with a slice, which says all that is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from ducklake_core.errors import CatalogForbidden, CatalogUnavailable
from ducklake_core.model import Column
from ducklake_core.plan.predicates import Predicate, conjunction
from ducklake_core.read.slices import Slice, read_slice
from ducklake_sources.executor_hint import executor_hint
from ducklake_sources.filters import to_predicate
from ducklake_sources.spark_schema import SparkBatches

if TYPE_CHECKING:
    from ducklake_core import Table

_SENT_ROWS = 16_384  # in one message to Spark, which works on it while the next one is read


class SlicePartition(InputPartition):
    """What one task reads. Its repr has no keys and no passwords."""

    def __init__(self, one: Slice) -> None:
        super().__init__(None)
        self.slice = one

    def __repr__(self) -> str:
        return f"SlicePartition({self.slice!r})"


class TableReader(DataSourceReader):
    """Reads some columns of the rows that pass a filter."""

    def __init__(self, table: Table, columns: Sequence[Column], predicate: Predicate | None = None) -> None:
        self.table: Table | None = table
        self.columns = tuple(columns)
        self.predicate = predicate

    def __getstate__(self) -> dict[str, Any]:  # Any: fixed by the pickle protocol
        return {**self.__dict__, "table": None}  # executors need no catalog

    def partitions(self) -> Sequence[InputPartition]:
        """Share the rows out. Runs where Spark plans."""
        if self.table is None:
            raise AssertionError("planned on an executor")
        names = [column.name for column in self.columns]
        with closing(self.table) as table:  # nobody tells a reader when it is not needed any more
            return [SlicePartition(one) for one in table.slices(names, self.predicate)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one slice. Runs on executors."""
        if isinstance(partition, SlicePartition):  # else Spark's own, for a table without rows
            yield from slice_rows(partition.slice, self.columns)


class FilteringTableReader(TableReader):
    """Reads the rows that pass the filters of a query, too: files that cannot have any are not opened.

    Spark accepts it only with `spark.sql.python.filterPushdown.enabled=true`, and has a fault (4.1 to 4.3): it keeps
    what was planned with the filters of one query for the next query of the same DataFrame without filters. So it is
    used only by those who ask for it.
    """

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 # Spark's name
        """Take the filters that can be decided exactly, and return the others for Spark to apply."""
        if self.table is None:
            raise AssertionError("planned on an executor")
        found = [(one, to_predicate(one, self.table.version.columns)) for one in filters]
        predicates = [predicate for _, predicate in found if predicate is not None]
        predicates += [] if self.predicate is None else [self.predicate]
        self.predicate = conjunction(*predicates) if predicates else None
        return [one for one, predicate in found if predicate is None]


def slice_rows(one: Slice, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice as Spark demands them. Runs on executors."""
    batches = SparkBatches.of(columns)
    try:
        for record_batch in read_slice(one):
            converted = batches.convert(record_batch)
            for first in range(0, converted.num_rows, _SENT_ROWS):
                yield converted.slice(first, _SENT_ROWS)
    except (CatalogUnavailable, CatalogForbidden) as error:
        raise type(error)(f"{error.message}{executor_hint(error)}", **error.facts) from error
