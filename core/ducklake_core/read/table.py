"""A table at one snapshot, for reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session
from ducklake_core.files.storage import Storage
from ducklake_core.model import Column, DataFile, Snapshot, TableVersion
from ducklake_core.plan.definition import find_column
from ducklake_core.plan.predicates import Predicate
from ducklake_core.read.listing import Listing, ask_catalog, check_retained, list_files, list_table
from ducklake_core.read.request import RowRequest
from ducklake_core.read.rows import count_rows, read_rows
from ducklake_core.read.sharing import DEFAULT_LIMITS, SliceLimits
from ducklake_core.read.slice_plan import plan_slices
from ducklake_core.read.slices import Slice
from ducklake_core.spec.types import arrow_schema


class Table:
    """What `Lake.table` returns: reads always see the same snapshot."""

    def __init__(self, database: Database, storage: Storage, version: TableVersion, snapshot: Snapshot) -> None:
        self._database = database
        self._storage = storage
        self.version = version
        self.snapshot = snapshot

    @property
    def name(self) -> str:
        return self.version.qualified_name

    @property
    def schema(self) -> pa.Schema:
        return arrow_schema(self.version.columns)

    def read(self, columns: Sequence[str] | None = None, filter: str | None = None) -> pa.Table:  # noqa: A002 # the word users know
        """Return the rows, of all columns or some, that match a filter such as `id > 3 AND name = 'x'`.

        Raises ObjectNotFound when the snapshot has expired since the table was opened.
        """
        request = self._request(self.projection(columns), self._predicate(filter))
        return read_rows(self._storage, self._list(request), request)

    def count(self, filter: str | None = None) -> int:  # noqa: A002 # the word users know
        """Return the number of rows that match; without a filter no data file is read if that can be helped."""
        request = self._request((), self._predicate(filter))
        return count_rows(self._storage, self._list(request), request)

    def slices(
        self,
        columns: Sequence[str] | None = None,
        predicate: Predicate | None = None,
        limits: SliceLimits = DEFAULT_LIMITS,
        *,
        with_row_ids: bool = False,
        with_positions: bool = False,
    ) -> list[Slice]:
        """Share the reading out: each row that matches is in exactly one slice; `slices.read_slice` reads one.

        Slices pickle and can be read by other processes, elsewhere. `with_row_ids` and `with_positions` add columns
        (`read.request`). Raises ObjectNotFound when the snapshot has expired since the table was opened.
        """
        request = self._request(self.projection(columns), predicate)
        request = replace(request, with_row_ids=with_row_ids, with_positions=with_positions)
        return plan_slices(self._database, self._storage, self.version, self.snapshot, request, limits)

    def close(self) -> None:
        """Close connections that reads have left open, those of its lake included; both can be used again."""
        self._database.close()

    def files(self) -> tuple[DataFile, ...]:
        """Return the data files live at the snapshot."""

        def ask(session: Session, known: TableVersion) -> list[DataFile]:
            check_retained(session, known, self.snapshot)
            return list_files(session, known, self.snapshot.snapshot_id, None)

        return tuple(ask_catalog(self._database, self.version, ask))

    def _list(self, request: RowRequest) -> Listing:
        return list_table(self._database, self.version, request, self.snapshot)

    def _request(self, columns: Sequence[Column], predicate: Predicate | None) -> RowRequest:
        return RowRequest.of(self.version, self.snapshot.snapshot_id, columns, predicate)

    def projection(self, columns: Sequence[str] | None) -> tuple[Column, ...]:
        """Return the columns of some names, of all by default."""
        if columns is None:
            return self.version.columns
        return tuple(find_column(self.version, [name]) for name in columns)

    def _predicate(self, text: str | None) -> Predicate | None:
        if text is None:
            return None
        from ducklake_core.plan.filter_sql import parse_filter  # noqa: PLC0415 # its parser takes long to import

        return parse_filter(text, self.version.columns)
