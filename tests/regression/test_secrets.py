"""Errors of the database show statements, but not what travels in them: keys of encrypted files do."""

from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from ducklake_core import Lake
from ducklake_core.catalog.session import Statement


def test_an_error_of_sqlite_shows_no_parameter(tmp_path: Path) -> None:
    statement = Statement(text("INSERT INTO ducklake_no_such_table VALUES (:key)"), {"key": "secret"})
    with (
        Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", f"{tmp_path}/data") as lake,
        lake.database.write() as session,
        pytest.raises(SQLAlchemyError) as caught,
    ):
        session.run([statement])

    assert "secret" not in str(caught.value)
