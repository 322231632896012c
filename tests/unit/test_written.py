"""Files that no snapshot names yet: a failure removes all that can be removed, and is the error to be seen."""

import logging
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core.errors import UnreadableFile, UnwritableFile
from ducklake_core.files.parquet_writer import FileLayout, write_data_files, write_record_batches
from ducklake_core.files.storage import Storage
from ducklake_core.files.written import WrittenFiles
from ducklake_core.spec.types import build_columns
from ducklake_core.spec.write_options import WriteOptions


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage.of(f"{tmp_path}/")


@pytest.fixture
def layout(tmp_path: Path) -> FileLayout:
    """Give a layout of which every row group is a file."""
    return FileLayout(
        f"{tmp_path}/", build_columns({"i": "int64"}), options=WriteOptions(row_group_rows=1, target_file_bytes=20)
    )


@pytest.fixture
def first_stays(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the first removal fail; give all that were tried."""
    tried: list[str] = []
    remove = Storage.remove

    def fail_once(self: Storage, path: str) -> None:
        tried.append(path)
        if len(tried) == 1:
            raise UnreadableFile(f"cannot delete '{path}'")
        remove(self, path)

    monkeypatch.setattr(Storage, "remove", fail_once)
    return tried


def touch(storage: Storage, *names: str) -> list[str]:
    paths = [storage.root + name for name in names]
    for path in paths:
        with storage.open_output(path) as sink:
            sink.write(b"x")
    return paths


def test_failure_removes_files_and_directories(storage: Storage, tmp_path: Path) -> None:
    paths = touch(storage, "a", "b", "directory/c")

    written = WrittenFiles(storage, paths[:1])
    written.add(paths[1], f"{tmp_path}/directory/")
    with pytest.raises(KeyError), written:
        raise KeyError

    assert list(tmp_path.iterdir()) == []


def test_files_of_a_block_that_ends_well_stay(storage: Storage) -> None:
    paths = touch(storage, "a")

    with WrittenFiles(storage, paths):
        pass

    assert storage.exists(paths[0])


def test_files_that_a_snapshot_may_name_stay_whatever_comes(storage: Storage) -> None:
    paths = touch(storage, "a")

    written = WrittenFiles(storage, paths)
    written.keep()
    with pytest.raises(KeyError), written:
        raise KeyError

    assert storage.exists(paths[0])


def test_file_that_cannot_be_removed_is_logged_and_hides_nothing(
    storage: Storage, first_stays: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    paths = touch(storage, "a", "b", "c")

    with pytest.raises(KeyError), WrittenFiles(storage, paths):
        raise KeyError

    [left] = [path for path in paths if storage.exists(path)]
    assert left == first_stays[0]
    assert [record.getMessage().split(" error=")[0] for record in caplog.records] == [f"file_not_removed path={left}"]


def test_file_that_is_gone_already_is_no_news(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        WrittenFiles(storage, [f"{storage.root}gone", f"{storage.root}gone/"]).remove()

    assert caplog.records == []


@pytest.mark.parametrize(
    "write",
    [
        write_data_files,
        lambda storage, layout, rows: write_record_batches(
            storage, layout, rows.to_batches(max_chunksize=1), buffer_bytes=1
        ),
    ],
    ids=["one table", "record batches"],
)
def test_disk_that_is_full_is_the_error_though_removing_fails(
    storage: Storage,
    layout: FileLayout,
    first_stays: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    write: Callable[[Storage, FileLayout, pa.Table], object],
) -> None:
    opened: list[str] = []
    open_output = Storage.open_output

    def fail_at_fourth(self: Storage, path: str) -> object:
        opened.append(path)
        if len(opened) == 4:
            raise UnwritableFile("no space left on device")
        return open_output(self, path)

    monkeypatch.setattr(Storage, "open_output", fail_at_fourth)
    rows = pa.table({"i": pa.array(range(4), pa.int64())})

    with pytest.raises(UnwritableFile, match="no space left on device"):
        write(storage, layout, rows)

    assert [str(path) for path in tmp_path.rglob("*.parquet")] == first_stays[:1]


def test_write_that_fails_is_the_error_though_its_half_cannot_be_removed(
    storage: Storage, first_stays: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bool:
        raise UnreadableFile("cannot even look")

    monkeypatch.setattr(Storage, "exists", fail)

    def write_half() -> None:
        with storage.open_output(f"{storage.root}half") as sink:
            sink.write(b"half")
            raise OSError("no space left on device")

    with pytest.raises(UnwritableFile, match="no space left on device"):
        write_half()

    assert first_stays == [f"{storage.root}half"]
