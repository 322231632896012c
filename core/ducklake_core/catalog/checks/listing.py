"""Which files the doctor looks at: all of them page by page, or a sample that is the same each time.

A sample is half of the newest files and half of all others: those whose ids a fixed shuffle puts first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sqlalchemy import text

from ducklake_core.catalog.checks.question import filled, sql_name
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Row, Session, Statement
from ducklake_core.spec.paths import join_path

PAGE = 1_000
_SHUFFLED = "({id} % 1000003) * 7919 % 1000003"


@dataclass(frozen=True, slots=True)
class RegisteredFile:
    """A data file or delete file, live or ended, as the catalog knows it."""

    file_id: int
    table_id: int
    path: str  # full
    size_bytes: int | None


def read_directories(session: Session, data_path: str) -> dict[int, str]:
    """Return the directory of each table, of those that were dropped as well."""
    sql = """
SELECT t.table_id, s.path, s.path_is_relative, t.path, t.path_is_relative FROM {ducklake_table} t
JOIN {ducklake_schema} s ON s.schema_id = t.schema_id
"""
    found, rows = {}, session.query(text(filled(session.database, sql)))
    for table_id, schema_path, schema_is_relative, path, is_relative in rows:
        schema = join_path(data_path, schema_path or "", is_relative=_is_true(schema_is_relative))
        found[table_id] = join_path(schema, path or "", is_relative=_is_true(is_relative))
    return found


def registered_pages(database: Database, data_path: str, sample: int | None) -> Iterator[list[RegisteredFile]]:
    """Yield all files that the catalog knows, ended ones as well, page by page; `sample`: so many of them at most."""
    directories = database.ask(lambda session: read_directories(session, data_path))
    for kind in ("data", "delete"):
        columns = f"{kind}_file_id, table_id, path, path_is_relative, file_size_bytes"
        sql = f"SELECT {columns} FROM {{ducklake_{kind}_file}}"  # noqa: S608 # names of ours
        for rows in _pages(database, sql, f"{kind}_file_id", None if sample is None else sample // 2):
            yield [
                RegisteredFile(file_id, table_id, _full(directories, table_id, path, relative), size)
                for file_id, table_id, path, relative, size in rows
                if path is not None and table_id in directories
            ]


def live_pages(database: Database, sample: int | None) -> Iterator[tuple[int, list[int]]]:
    """Yield each table with ids of its live data files, page by page; all pages of a table follow each other.

    `sample`: so many at most; and the data files of as many delete files, for there are things to be seen.
    """
    if sample is not None:
        yield from database.ask(lambda session: _sampled(session, sample)).items()
        return
    sql = "SELECT DISTINCT table_id FROM {ducklake_data_file} WHERE end_snapshot IS NULL ORDER BY table_id"
    for [table_id] in database.ask(lambda session: session.query(text(filled(session.database, sql)))):
        for file_ids in pages_of_table(database, table_id):
            yield table_id, file_ids


def pages_of_table(database: Database, table_id: int) -> Iterator[list[int]]:
    """Yield the ids of the live data files of a table, page by page."""
    sql = f"SELECT data_file_id FROM {{ducklake_data_file}} WHERE end_snapshot IS NULL AND table_id = {table_id}"  # noqa: S608 # a number
    for rows in _pages(database, sql, "data_file_id", None):
        yield [file_id for [file_id] in rows]


def find_with_both(session: Session, deletes: Iterable[tuple[int, str]], limit: int) -> dict[int, list[int]]:
    """Return live data files that have inlined deletes and a delete file, a few of each table."""
    sql = """
SELECT DISTINCT m.file_id FROM {deletes} m JOIN {ducklake_delete_file} x ON x.data_file_id = m.file_id
JOIN {ducklake_data_file} d ON d.data_file_id = m.file_id
WHERE x.end_snapshot IS NULL AND d.end_snapshot IS NULL ORDER BY m.file_id DESC LIMIT {limit}
"""
    found = {}
    for table_id, name in deletes:
        asked = filled(session.database, sql, deletes=sql_name(session.database, name), limit=limit)
        found[table_id] = [file_id for [file_id] in session.query(text(asked))]
    return found


def find_registered(session: Session, file_ids: Iterable[int]) -> set[int]:
    """Return which of some data or delete files the catalog still has."""
    ids = ", ".join(map(str, file_ids)) or "NULL"
    sql = """
SELECT data_file_id FROM {ducklake_data_file} WHERE data_file_id IN ({ids})
UNION ALL SELECT delete_file_id FROM {ducklake_delete_file} WHERE delete_file_id IN ({ids})
"""
    return {file_id for [file_id] in session.query(text(filled(session.database, sql, ids=ids)))}


def read_footer_sizes(session: Session, file_ids: Iterable[int]) -> dict[int, int | None]:
    """Return what the catalog says of the footers of some data files."""
    ids = ", ".join(map(str, file_ids)) or "NULL"
    sql = "SELECT data_file_id, footer_size FROM {ducklake_data_file} WHERE data_file_id IN ({ids})"
    return dict(tuple(row) for row in session.query(text(filled(session.database, sql, ids=ids))))


def _sampled(session: Session, sample: int) -> dict[int, list[int]]:
    files = "SELECT table_id, data_file_id FROM {ducklake_data_file} WHERE end_snapshot IS NULL"
    deletes = """
SELECT d.table_id, d.data_file_id FROM {ducklake_delete_file} x
JOIN {ducklake_data_file} d ON d.data_file_id = x.data_file_id WHERE x.end_snapshot IS NULL AND d.end_snapshot IS NULL
"""
    asked = [
        sql
        for one, key in ((files, "data_file_id"), (deletes, "x.delete_file_id"))
        for sql in _halves(one, key, sample)
    ]
    found = defaultdict[int, set[int]](set)
    for rows in session.run([Statement(text(filled(session.database, sql))) for sql in asked]):
        for table_id, file_id in rows:
            found[table_id].add(file_id)
    return {table_id: sorted(ids) for table_id, ids in sorted(found.items())}


def _pages(database: Database, sql: str, key: str, sample: int | None) -> Iterator[list[Row]]:
    """Yield the rows of a SELECT by their first column, which is `key`."""
    if sample is not None:
        halves = database.ask(
            lambda s: s.run([Statement(text(filled(s.database, one))) for one in _halves(sql, key, sample)])
        )
        yield list({row[0]: row for rows in halves for row in rows}.values())
        return
    last, word = -1, "AND" if "WHERE" in sql else "WHERE"
    while True:
        page = f"{sql} {word} {key} > {last} ORDER BY {key} LIMIT {PAGE}"
        rows = database.ask(lambda s, page=page: s.query(text(filled(s.database, page))))  # type: ignore[misc] # it is called at once
        if rows:
            yield rows
            last = rows[-1][0]
        if len(rows) < PAGE:
            return


def _halves(sql: str, key: str, sample: int) -> tuple[str, str]:
    """Return SQL for the newest rows, and for others that are anywhere."""
    half = max(1, sample // 2)
    return f"{sql} ORDER BY {key} DESC LIMIT {half}", f"{sql} ORDER BY {_SHUFFLED.format(id=key)} LIMIT {half}"


def _full(directories: dict[int, str], table_id: int, path: str, is_relative: object) -> str:
    return join_path(directories[table_id], path, is_relative=_is_true(is_relative))


def _is_true(flag: object) -> bool:
    return flag is None or bool(flag)
