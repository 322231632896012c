"""A lake whose files are on S3: a real server that checks signatures, and DuckDB beside us on the same bucket."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import UnwritableFile
from ducklake_core.files.storage import Storage
from tests.fixtures.catalogs import Catalog
from tests.fixtures.oracle import Oracle
from tests.fixtures.s3 import KEY, READER_KEY, READER_SECRET, SECRET, S3Bucket

LISTING = ("ListObjects", "ListMultipartUploads")


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"row {n}" for n in numbers]})


def test_lake_on_s3_lives_its_life_beside_duckdb(s3: S3Bucket, catalog: Catalog, oracle: Oracle) -> None:
    with Lake.create(catalog.url, s3.url) as lake:
        lake.create_table("t", rows(0).schema)
        lake.append("t", rows(1, 2))
        lake.flush_inlined("t")
        lake.set_option("data_inlining_row_limit", 0)
        for number in (3, 4, 5, 6):
            lake.append("t", rows(number))
        lake.delete("t", "id = 3")
        s3.attach(oracle, catalog.attach)
        assert sorted(oracle.query("SELECT id FROM t")) == [(1,), (2,), (4,), (5,), (6,)]
        oracle.execute("INSERT INTO t VALUES (7, 'row 7')")

        assert lake.table("t").read().sort_by("id") == rows(1, 2, 4, 5, 6, 7)
        changes = lake.changes("t", 0, lake.table("t").snapshot.snapshot_id)
        assert sorted(changes.column("id").to_pylist()) == [1, 2, 3, 3, 4, 5, 6, 7]

        lake.rewrite_data_files("t", delete_threshold=0)
        lake.merge_adjacent_files("t")
        lake.expire_snapshots(older_than=timedelta(0))
        with lake.storage.open_output(f"{lake.data_path}main/t/orphan.parquet") as sink:
            sink.write(b"of a run that was killed")
        lake.cleanup_old_files(cleanup_all=True)
        orphans = lake.delete_orphaned_files(cleanup_all=True, dry_run=False)

        assert [Path(path).name for path in orphans.paths] == ["orphan.parquet"]
        assert len(s3.objects()) == 1
        assert lake.table("t").read().sort_by("id") == rows(1, 2, 4, 5, 6, 7)
        assert sorted(oracle.query("SELECT id, name FROM t")) == [(n, f"row {n}") for n in (1, 2, 4, 5, 6, 7)]
        assert lake.doctor(full=True) == []


def test_neither_writes_nor_reads_list(s3: S3Bucket, catalog: Catalog) -> None:
    with Lake.create(catalog.url, s3.url) as lake:
        lake.create_table("t", rows(0).schema)
        lake.set_option("data_inlining_row_limit", 1)
        s3.proxy.forget()

        lake.append("t", rows(1))
        lake.append("t", rows(*range(2, 100)))
        lake.flush_inlined("t")
        lake.delete("t", "id = 50")
        lake.table("t").read()
        lake.changes("t", 0, lake.table("t").snapshot.snapshot_id)
        lake.merge_adjacent_files("t")

        assert not set(s3.proxy.acts()) & set(LISTING)
        assert "PutObject" in s3.proxy.acts()


@pytest.mark.usefixtures("s3")
def test_missing_bucket_is_refused_with_its_name_and_what_helps() -> None:
    with pytest.raises(UnwritableFile, match="there is no bucket 'nobody-has-it', which must be created first"):
        Storage.of("s3://nobody-has-it/lake/").check_writable()


def test_bucket_that_may_only_be_read_is_refused_without_a_secret(
    s3: S3Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", READER_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", READER_SECRET)

    with pytest.raises(UnwritableFile, match=rf"may not write to bucket '{s3.name}': it needs s3:PutObject") as error:
        Storage.of(s3.url).check_writable()

    assert READER_SECRET not in str(error.value)


def test_wrong_secret_is_refused_and_not_shown(s3: S3Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "pw-wrong")

    with pytest.raises(UnwritableFile, match=rf"bucket '{s3.name}' does not know the credentials") as error:
        Storage.of(s3.url).check_writable()

    assert "pw-wrong" not in str(error.value)


def test_credentials_of_a_profile_are_taken(s3: S3Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    profiles = tmp_path / "credentials"
    profiles.write_text(f"[lake]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "lake")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(profiles))

    Storage.of(s3.url).check_writable()

    assert s3.objects() == []


def test_files_are_found_by_hadoops_name_of_the_store(s3: S3Bucket, catalog: Catalog) -> None:
    with Lake.create(catalog.url, s3.url.replace("s3://", "s3a://")) as lake:
        lake.create_table("t", rows(0).schema)
        lake.append("t", rows(1))
        lake.flush_inlined("t")
        assert lake.table("t").read() == rows(1)

    with Lake.open(catalog.url, data_path=s3.url) as lake:
        assert lake.table("t").read() == rows(1)
