"""A question that a healthy lake answers with no rows. Asked within a session.

Questions are texts, unlike all other statements: a finding shows its question, and people paste it into the shell of
their database. They are of the SQL that SQLite and PostgreSQL share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import text

from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.spec.names import quoted

EXAMPLES = 5  # of so many rows a finding tells what is in them


@dataclass(frozen=True, slots=True)
class Question:
    """A SELECT of `table_id`, which is null for what is of no table, then of `columns`.

    Names of catalog tables stand in braces. `example` is one row in words.
    """

    code: str
    columns: tuple[str, ...]
    sql: str
    example: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question found of one table: how often, some examples, and the SQL that shows all."""

    code: str
    table_id: int | None
    count: int
    examples: tuple[str, ...]
    sql: str


def sql_name(database: Database, name: str) -> str:
    """Return a table's name as a question has it: with its schema where the catalog has one of its own."""
    schema = database.url.metadata_schema
    return quoted(schema, name) if schema else quoted(name)


def filled(database: Database, sql: str, **more: object) -> str:
    """Return SQL with the names of catalog tables in place of `{ducklake_…}`, and other values in place of theirs."""
    return sql.format_map(_Names(database, more)).strip()


class _Names(dict[str, Any]):  # Any: whatever is shown
    def __init__(self, database: Database, more: Mapping[str, object]) -> None:
        super().__init__(more)
        self._database = database

    def __missing__(self, key: str) -> str:
        table = getattr(self._database.tables, key, None)  # the format may call it otherwise
        return sql_name(self._database, key if table is None else table.name)


def ask(session: Session, questions: Sequence[Question], **more: object) -> list[Answer]:
    """Ask questions, all in one round trip where the database can do that."""
    texts = [filled(session.database, question.sql, **more) for question in questions]
    asked = [Statement(text(_first_rows(sql, q.columns))) for q, sql in zip(questions, texts, strict=True)]
    found = zip(questions, texts, session.run(asked) if asked else [], strict=True)
    return [answer for question, sql, rows in found for answer in _answers(question, sql, rows)]


def _first_rows(sql: str, columns: Sequence[str]) -> str:
    """Return SQL for the first rows of each table, each with how many there are: few, however much is broken."""
    names = ", ".join(columns)
    counted = (
        f"SELECT table_id, {names}, count(*) OVER (PARTITION BY table_id) AS total, "  # noqa: S608 # names of ours
        f"row_number() OVER (PARTITION BY table_id ORDER BY {names}) AS place FROM ({sql}) AS found"
    )
    return f"SELECT table_id, total, {names} FROM ({counted}) AS counted WHERE place <= {EXAMPLES} ORDER BY 1, place"  # noqa: S608 # likewise


def _answers(question: Question, sql: str, rows: Sequence[Sequence[Any]]) -> Iterator[Answer]:  # Any: catalog values
    for table_id, found in groupby(rows, key=lambda row: row[0]):
        of_table = list(found)
        examples = [question.example.format_map(dict(zip(question.columns, row[2:], strict=True))) for row in of_table]
        shown = sql if table_id is None else f"SELECT * FROM (\n{sql}\n) AS found WHERE table_id = {table_id}"  # noqa: S608 # a number
        yield Answer(question.code, table_id, int(of_table[0][1]), tuple(examples), shown)
