"""An interrupt that comes when SQLite has just given us its lock leaves no lock behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ducklake_core import Lake
from ducklake_core.catalog.session import Session


class Interrupted:
    """A driver whose BEGIN works, and is interrupted before anybody knows."""

    def __init__(self, driver: Any) -> None:  # Any: sqlite3's connection
        self._driver = driver

    def execute(self, sql: str) -> None:
        self._driver.execute(sql)
        if sql.startswith("BEGIN"):
            raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:  # Any: see __init__
        return getattr(self._driver, name)


def test_interrupt_at_begin_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/lake.sqlite"
    with Lake.create(url, f"{tmp_path}/data/") as lake, Lake.open(url) as other:
        lake.create_table("t", {"id": "int64"})
        real: Callable[[Session], Any] = Session.driver.fget  # type: ignore[attr-defined] # a property has it
        with monkeypatch.context() as patch:
            patch.setattr(Session, "driver", property(lambda self: Interrupted(real(self))))
            with pytest.raises(KeyboardInterrupt):
                lake.append("t", {"id": [1]})

        other.append("t", {"id": [2]})
        lake.append("t", {"id": [3]})

        assert lake.table("t").read().column("id").to_pylist() == [2, 3]
