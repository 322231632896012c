"""A job with `[maintenance]`: the lake stays small beside the stream, no pipeline fails of it, and it ends in time."""

import signal
from pathlib import Path

import pytest

from ducklake_core import Lake
from tests.fixtures.catalogs import Catalog
from tests.fixtures.jobs import JobFolder, JobProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

OFTEN = {"every": "1s", "share": 1.0, "expire_older_than": 0, "keep_last": 5, "cleanup_older_than": 0}


@pytest.fixture
def folder(job_folder: JobFolder, catalog: Catalog) -> JobFolder:
    """Give a folder whose job's lake is on either database."""
    job_folder.catalog = catalog.url
    return job_folder


def start(folder: JobFolder, **maintenance: object) -> JobProcess:
    """Start a job whose every batch is a file."""
    numbers = folder.pipeline("numbers", {"kind": "rate", "rows_per_second": 20}, "300ms", inline_rows=0)
    folder.write({"numbers": numbers}, maintenance=maintenance)
    return folder.start()


def merges_of(process: JobProcess, table: str) -> list[str]:
    return process.lines("maintenance_done operation=merge", f"table=main.{table}")


def test_a_lake_is_merged_expired_and_cleaned_up_beside_its_stream(folder: JobFolder) -> None:
    job = start(folder, **OFTEN)
    job.wait_for(lambda: len(merges_of(job, "numbers")) >= 3)
    job.wait_for_line("maintenance_done operation=cleanup")
    job.wait_for_line("maintenance_done operation=expire")
    job.signal(signal.SIGTERM)

    assert job.wait() == 0, job.log[-5000:]
    values = [value for [value] in folder.rows("numbers", "value")]
    assert values == [*range(len(values))], "each row once"
    assert not job.lines("failed"), job.log[-5000:]
    with Lake.open(folder.catalog) as lake:
        written = sum(int(line.split(" files=")[1].split()[0]) for line in job.lines("batch_committed"))
        assert len(lake.table("main.numbers").files()) < written
        assert lake.snapshots()[0].snapshot_id > 0
        assert {run.operation for run in lake.maintenance_runs()} >= {"expire", "merge", "cleanup"}
        assert lake.merge_adjacent_files().held_back == (), "nobody holds the lease any more"


def test_what_cannot_be_maintained_fails_no_pipeline(folder: JobFolder, tmp_path: Path) -> None:
    with Lake.create(folder.catalog, f"{tmp_path}/data/") as lake:
        lake.create_table("broken", {"id": "int64"})
        for _ in range(3):
            lake.append("broken", {"id": [*range(100)]})
        Path(lake.table("broken").files()[0].path).unlink()

    job = start(folder, **OFTEN)
    job.wait_for_line("maintenance_failed", "merge of main.broken", "times=1")
    job.wait_for(lambda: merges_of(job, "numbers"))
    job.signal(signal.SIGTERM)

    assert job.wait() == 0, job.log[-5000:]
    assert job.lines("table_not_maintained operation=merge table=main.broken")
    assert not job.lines("pipeline_failed")
    with Lake.open(folder.catalog) as lake:
        assert "failed" in {run.outcome for run in lake.maintenance_runs() if run.table_name == "main.broken"}


@pytest.mark.parametrize("make_catalog", ["sqlite"], indirect=True)
def test_a_job_that_is_stopped_does_not_wait_until_maintenance_has_rested(folder: JobFolder) -> None:
    job = start(folder, every="1s", share=0.01)  # it rests for 99 times as long as it works
    job.wait_for(lambda: merges_of(job, "numbers"))
    job.signal(signal.SIGTERM)

    assert job.wait() == 0, job.log[-5000:]
    assert job.lines("job_ended exit_code=0")
    assert not job.lines("maintenance_failed")
    with Lake.open(folder.catalog) as lake:
        assert lake.merge_adjacent_files().held_back == ()
        assert lake.delete_orphaned_files(older_than=0).paths == ()
