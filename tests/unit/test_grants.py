"""Which GRANT helps, from what PostgreSQL says and what was asked of it."""

from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

from ducklake_core.catalog.postgres.grants import ROLES, grant_that_helps


@pytest.mark.parametrize(
    ("said", "statement", "helps"),
    [
        ("permission denied for table t", "SELECT * FROM t", "GRANT SELECT ON TABLE t"),
        ("permission denied for table t", "COPY (SELECT 1) TO STDOUT", "GRANT SELECT ON TABLE t"),
        ("permission denied for table t", "COPY t FROM STDIN", "GRANT INSERT ON TABLE t"),
        ("permission denied for table t", "INSERT INTO t SELECT 1", "GRANT INSERT ON TABLE t"),
        ("permission denied for table t", "UPDATE t SET i = 1", "GRANT UPDATE ON TABLE t"),
        ("permission denied for table t", "DELETE FROM t", "GRANT DELETE ON TABLE t"),
        ("permission denied for table t", "LOCK TABLE t", "GRANT DELETE ON TABLE t"),
        ("permission denied for table t", None, "GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE t"),
        ("permission denied for schema s", "\nCREATE TABLE s.t (i int)", "GRANT CREATE ON SCHEMA s"),
        ("permission denied for schema s", "SELECT * FROM s.t", "GRANT USAGE ON SCHEMA s"),
        ("permission denied for database d", "CREATE SCHEMA s", "GRANT CREATE ON DATABASE d"),
        ("must be owner of table t", "DROP TABLE t", "only the role that has made t may drop it"),
        ("keine Berechtigung für Tabelle t", "SELECT * FROM t", "a reader needs SELECT on all its tables"),
    ],
)
def test_the_grant_follows_from_object_and_statement(said: str, statement: str | None, helps: str) -> None:
    error = psycopg.errors.InsufficientPrivilege(said)
    if statement is not None:
        error.add_note(statement)
    shown = SimpleNamespace(diag=SimpleNamespace(message_primary=said), __notes__=getattr(error, "__notes__", []))

    found = grant_that_helps(cast("psycopg.Error", shown))

    assert found.startswith(helps)
    assert ROLES in found
