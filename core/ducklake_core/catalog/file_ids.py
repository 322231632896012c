"""What an id of a file was given to. Data files and delete files of all tables have their ids of one counter."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import BigInteger, Select, bindparam, select

from ducklake_core.catalog.reader import read_head
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.model import DataFileId, TableId
from ducklake_core.spec.tables import CatalogTables


def may_have_had(session: Session, table_id: TableId, data_file_id: DataFileId) -> bool:
    """Tell whether a table may have had a data file that a listing of it lacks.

    A merge and an expiry leave no trace of it in the end, so that an id of which the catalog knows nothing counts as
    one of the table's. Not so one that nobody was given yet, or that a delete file or another table's data file has.
    """
    if not 0 <= data_file_id < read_head(session).next_file_id:
        return False
    parameters = {"file_id": data_file_id, "table_id": table_id}
    return not any(session.run([Statement(asked, parameters) for asked in _of_others(session.tables)]))


@cache
def _of_others(t: CatalogTables) -> tuple[Select[Any], Select[Any]]:
    """The data files of other tables, and the delete files, that have an id."""
    d, x, file_id = t.ducklake_data_file, t.ducklake_delete_file, bindparam("file_id", type_=BigInteger)
    is_others = d.c.table_id != bindparam("table_id", type_=BigInteger)
    return (
        select(d.c.table_id).where(d.c.data_file_id == file_id, is_others),
        select(x.c.table_id).where(x.c.delete_file_id == file_id),
    )
