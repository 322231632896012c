"""An interrupt that comes when SQLite has just given us its lock leaves no lock behind."""

from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_core.catalog.dbapi.session import DbapiSession


def begin_then_interrupt(self: DbapiSession, sql: str) -> None:
    """Let BEGIN work, and interrupt before anybody knows."""
    self.driver.execute(sql)
    if sql.startswith("BEGIN"):
        raise KeyboardInterrupt


def test_interrupt_at_begin_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/lake.sqlite"
    with Lake.create(url, f"{tmp_path}/data/") as lake, Lake.open(url) as other:
        lake.create_table("t", {"id": "int64"})
        with monkeypatch.context() as patch:
            patch.setattr(DbapiSession, "_execute", begin_then_interrupt)
            with pytest.raises(KeyboardInterrupt):
                lake.append("t", {"id": [1]})

        other.append("t", {"id": [2]})
        lake.append("t", {"id": [3]})

        assert lake.table("t").read().column("id").to_pylist() == [2, 3]
