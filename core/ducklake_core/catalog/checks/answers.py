"""Asks the questions of `lake_questions` and `inlined_questions`; one that cannot be asked is an answer, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlalchemy import text

from ducklake_core.catalog.checks.inlined_questions import DELETE_QUESTIONS, ROW_QUESTIONS
from ducklake_core.catalog.checks.inventory import Inventory, union_of_rows
from ducklake_core.catalog.checks.lake_questions import LAKE_QUESTIONS, LEDGER_AHEAD
from ducklake_core.catalog.checks.question import Answer, Question, ask, filled, sql_name
from ducklake_core.catalog.checks.shown import VERSION
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.session import Session
from ducklake_core.errors import CatalogTableMissing, TerminalError


def read_versions(database: Database) -> list[str]:
    """Return what the catalog says of its format, once if all is well, whether we know such a format or not."""
    sql = filled(database, VERSION.replace("*", "value"))
    return [value for [value] in database.ask(lambda session: session.query(text(sql)), checks_version=False)]


def ask_lake(database: Database, *, has_ledger: bool) -> Iterator[Answer]:
    """Yield what is found in the lake as a whole."""
    yield from _asked(database, [*LAKE_QUESTIONS, *([LEDGER_AHEAD] if has_ledger else [])])


def ask_inlined(database: Database, inventory: Inventory) -> Iterator[Answer]:
    """Yield what is found in the tables of inlined rows and deletes."""
    for table_id, name in inventory.deletes_by_table.items():
        yield from _asked(database, DELETE_QUESTIONS, table_id=table_id, deletes=sql_name(database, name))
    live = {table_id: names for table_id, names in inventory.rows_by_table.items() if table_id in inventory.live_ids}
    for table_id, names in live.items():
        yield from _asked(database, ROW_QUESTIONS, table_id=table_id, rows=union_of_rows(database, names))


def _asked(database: Database, questions: Sequence[Question], **more: object) -> Iterator[Answer]:
    """Ask all at once; where one of them fails, one by one."""
    try:
        yield from database.ask(_asks(questions, more))
    except TerminalError:
        for question in questions:
            yield from _asked_alone(database, question, more)


def _asked_alone(database: Database, question: Question, more: dict[str, object]) -> Iterator[Answer]:
    try:
        yield from database.ask(_asks([question], more))
    except CatalogTableMissing:
        return  # a flush has dropped a table of inlined rows meanwhile
    except TerminalError as error:
        sql = filled(database, question.sql, **more)
        yield Answer("unreadable-catalog", None, 1, (f"'{question.code}' cannot be looked for: {error}",), sql)


def _asks(questions: Sequence[Question], more: dict[str, object]) -> Callable[[Session], list[Answer]]:
    return lambda session: ask(session, questions, **more)
