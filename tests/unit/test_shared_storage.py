"""Files that executors have written where the driver does not find them are refused; else their rows would be lost."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ducklake_core.errors import CatalogForbidden, CatalogUnavailable, DuckLakeError, UnreadableFile, UnwritableFile
from ducklake_core.files.storage import Storage
from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.model import NewDataFile
from ducklake_sinks import shared_storage
from ducklake_sinks.native_files import PROTOCOL_SETTING, S3_PROTOCOL, takes_files_by_spark
from ducklake_sinks.shared_storage import CountedRows, refuse_unshared_files
from ducklake_sources.executor_hint import executor_hint


def new_file(path: str, size: int, rows: int = 1) -> NewDataFile:
    return NewDataFile(
        path, path_is_relative=True, record_count=rows, file_size_bytes=size, footer_size=1, column_stats=()
    )


def test_files_that_are_there_are_taken(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"four")

    refuse_unshared_files(Storage.of(f"{tmp_path}/"), f"{tmp_path}/", [new_file("a.parquet", 4)])


@pytest.mark.parametrize("content", [None, b"another"], ids=["missing", "of another size"])
def test_files_that_only_executors_have_are_refused(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "a.parquet").write_bytes(content)

    with pytest.raises(UnwritableFile, match=r"do not share data path .*/': .*a\.parquet.* Mount the same folder"):
        refuse_unshared_files(Storage.of(f"{tmp_path}/"), f"{tmp_path}/", [new_file("a.parquet", 4)])


def test_object_stores_are_the_same_from_everywhere_and_not_asked() -> None:
    refuse_unshared_files(Storage.of("memory://lake/"), "memory://lake/", [new_file("a.parquet", 4)])


class Frame:
    """As much of a frame as is counted: `rows` are what its tasks hand to Spark's writer."""

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def observe(self, observation: Any, _: object) -> "Frame":  # Any: stands for Spark's
        observation.get = {"rows": self.rows}
        return self


@pytest.fixture
def _observed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Spark's functions do without a Spark."""
    monkeypatch.setattr(shared_storage, "Observation", SimpleNamespace)
    counted = SimpleNamespace(alias=lambda _: None)
    monkeypatch.setattr(shared_storage, "F", SimpleNamespace(count=lambda _: counted, lit=lambda _: None))


@pytest.mark.usefixtures("_observed")
@pytest.mark.parametrize(
    ("written", "found", "is_refused"), [(10, 10, False), (10, 7, True), (10, 0, True), (0, 0, False)]
)
def test_rows_that_spark_has_written_elsewhere_are_refused(written: int, found: int, *, is_refused: bool) -> None:
    counted = CountedRows(Frame(written))  # type: ignore[arg-type] # see the class
    files = [new_file("a.parquet", 4, found)] if found else []

    if not is_refused:
        counted.refuse_unshared_rows(Storage.of("/lake/"), files)
        return
    with pytest.raises(UnwritableFile, match=f"of {written} rows that Spark's tasks have written, {found} are there"):
        counted.refuse_unshared_rows(Storage.of("/lake/"), files)


@pytest.mark.usefixtures("_observed")
def test_rows_that_spark_has_written_to_another_store_are_refused() -> None:
    storage = Storage("s3://bucket/lake/")
    counted = CountedRows(Frame(10))  # type: ignore[arg-type] # see the class

    with pytest.raises(UnwritableFile, match=r"of 10 rows .*, 0 are there. Let spark.hadoop.fs.s3a.endpoint lead"):
        counted.refuse_unshared_rows(storage, [])


@pytest.mark.parametrize(
    ("protocol", "url", "options", "expected"),
    [
        (S3_PROTOCOL, "s3://bucket/lake/", {}, True),
        (S3_PROTOCOL, "s3a://bucket/lake/", {}, True),
        (S3_PROTOCOL, "s3://bucket/lake/", {"sse": "AES256"}, False),
        (S3_PROTOCOL, "gs://bucket/lake/", {}, False),
        ("by renames", "s3://bucket/lake/", {}, False),
        ("by renames", "/lake/", {}, True),
    ],
)
def test_spark_writes_to_s3_where_nothing_is_renamed_and_no_header_is_asked_for(
    protocol: str, url: str, options: dict[str, str], *, expected: bool
) -> None:
    session: Any = SimpleNamespace(conf=SimpleNamespace(get={PROTOCOL_SETTING: protocol}.__getitem__))  # Any: see above

    assert takes_files_by_spark(session, Storage(url, StorageOptions(**options))) is expected  # type: ignore[arg-type] # texts


@pytest.mark.parametrize(
    ("error", "helps"),
    [(CatalogUnavailable("away"), True), (CatalogForbidden("no"), True), (UnreadableFile("gone"), False)],
    ids=["unavailable", "forbidden", "file"],
)
def test_executor_without_a_catalog_says_why_it_asked(error: DuckLakeError, *, helps: bool) -> None:
    assert ("flush the table" in executor_hint(error)) is helps
