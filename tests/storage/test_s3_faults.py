"""A store that throttles, is late, cuts uploads and loses answers: nothing is lost or doubled, and it is told."""

import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from ducklake_core import Lake
from ducklake_core.errors import UnwritableFile
from ducklake_core.files.storage import Storage
from ducklake_core.files.storage_retries import StoragePatience
from tests.fixtures.oracle import Oracle
from tests.fixtures.s3 import S3Bucket
from tests.fixtures.s3_proxy import Request, Trouble

SMALL, LARGE = b"small", b"0123456789abcdef" * (25 * 2**16)  # one request, and three parts
TROUBLES = [Trouble.SLOW_DOWN, Trouble.CUT, Trouble.LOST_REPLY]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the client try once, so that all retries are ours, and let these not wait."""
    monkeypatch.setattr("ducklake_core.files.filesystems._ATTEMPTS", 1)
    monkeypatch.setattr("ducklake_core.files.storage.STORAGE_PATIENCE", StoragePatience(sleep=lambda _: None))


@pytest.fixture
def lake(s3: S3Bucket, tmp_path: Path) -> Iterator[Lake]:
    with Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", s3.url) as made:
        made.create_table("t", rows(0).schema)
        made.set_option("data_inlining_row_limit", 0)
        yield made


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def when(act: str) -> Callable[[Request], bool]:
    return lambda request: request.act == act


def write(storage: Storage, path: str, content: bytes) -> None:
    with storage.open_output(path) as sink:
        sink.write(content)


def read(storage: Storage, path: str) -> bytes:
    with storage.open_input(path) as source:
        return bytes(source.read())


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage().split(" ")[0] for record in caplog.records]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.value)
@pytest.mark.parametrize(
    ("act", "content"),
    [
        ("PutObject", SMALL),
        ("CreateMultipartUpload", LARGE),
        ("UploadPart", LARGE),
        ("CompleteMultipartUpload", LARGE),
    ],
)
def test_upload_in_trouble_is_tried_again_and_told(
    s3: S3Bucket, trouble: Trouble, act: str, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    storage = Storage.of(s3.url)
    s3.proxy.trouble(trouble, when(act), times=2)

    write(storage, f"{s3.url}file", content)

    assert s3.proxy.troubles == 2
    assert "storage_retried" in lines(caplog)
    assert read(storage, f"{s3.url}file") == content
    assert s3.objects() == ["lake/file"]


@pytest.mark.parametrize("by_s3fs", [False, True], ids=["pyarrow", "s3fs"])
@pytest.mark.parametrize("trouble", [Trouble.SLOW_DOWN, Trouble.CUT], ids=lambda trouble: trouble.value)
def test_upload_that_never_succeeds_leaves_neither_a_file_nor_parts(
    s3: S3Bucket, trouble: Trouble, monkeypatch: pytest.MonkeyPatch, *, by_s3fs: bool
) -> None:
    if by_s3fs:
        monkeypatch.setenv("DUCKLAKE_S3_SSE", "AES256")
    storage = Storage.of(s3.url)
    s3.proxy.trouble(trouble, when("UploadPart"), times=1000)

    with pytest.raises(UnwritableFile, match="cannot write file"):
        write(storage, f"{s3.url}file", LARGE)

    acts = s3.proxy.acts()
    ended = acts.count("AbortMultipartUpload") + acts.count("CompleteMultipartUpload")
    assert acts.count("CreateMultipartUpload") == ended > 0
    assert s3.objects() == []


def test_block_that_fails_has_sent_nothing(s3: S3Bucket) -> None:
    storage = Storage.of(s3.url)

    def write_half() -> None:
        with storage.open_output(f"{s3.url}file") as sink:
            sink.write(LARGE)
            raise KeyError

    with pytest.raises(KeyError):
        write_half()

    assert s3.proxy.requests == []


@pytest.mark.parametrize("trouble", [*TROUBLES, Trouble.LATE], ids=lambda trouble: trouble.value)
def test_every_third_request_fails_and_nothing_is_lost_or_doubled(lake: Lake, s3: S3Bucket, trouble: Trouble) -> None:
    number = itertools.count()
    s3.proxy.trouble(trouble, lambda _: next(number) % 3 == 0, times=1000 if trouble is not Trouble.LATE else 3)

    for one in range(4):
        lake.append("t", rows(one, one + 10))
    lake.delete("t", "id = 12")
    lake.merge_adjacent_files("t")
    expected = [0, 1, 2, 3, 10, 11, 13]

    assert sorted(lake.table("t").read().column("id").to_pylist()) == expected
    assert lake.changes("t", 0).num_rows == len(expected) + 2
    assert s3.proxy.troubles >= 3
    s3.proxy.forget()
    lake.expire_snapshots(keep_last=1)
    lake.cleanup_old_files(cleanup_all=True)
    assert lake.delete_orphaned_files(cleanup_all=True).paths == ()
    assert lake.doctor(full=True) == []


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.value)
def test_upserts_in_trouble_are_applied_once_and_duckdb_reads_them(
    lake: Lake, s3: S3Bucket, tmp_path: Path, oracle: Oracle, trouble: Trouble
) -> None:
    lake.create_table("people", {"id": "int64", "name": "varchar"})
    number = itertools.count()
    s3.proxy.trouble(trouble, lambda _: next(number) % 3 == 0, times=1000)

    lake.upsert("people", named(range(100), "first"), keys=["id"])
    report = lake.upsert("people", named(range(90, 110), "second"), keys=["id"])
    again = lake.upsert("people", named(range(90, 110), "second"), keys=["id"])
    gone = lake.delete_keys("people", {"id": [1, 95, 500]}, keys=["id"])

    expected = {n: "first" if n < 90 else "second" for n in range(110) if n not in (1, 95)}
    assert (report.inserted, report.updated, again.unchanged, gone.deleted) == (10, 10, 20, 2)
    assert s3.proxy.troubles >= 3
    assert {row["id"]: row["name"] for row in lake.table("people").read().to_pylist()} == expected
    s3.proxy.forget()
    changes = lake.changes("people", 0).column("_change_type").to_pylist()
    assert [changes.count(one) for one in ("insert", "update_postimage", "delete")] == [110, 10, 2]
    s3.attach(oracle, f"ducklake:sqlite:{tmp_path}/lake.sqlite")
    assert dict(oracle.query("SELECT id, name FROM people")) == expected
    oracle.execute("UPDATE people SET name = 'by DuckDB' WHERE id = 2")
    assert lake.upsert("people", named([2, 3], "first"), keys=["id"]).updated == 1
    assert len(lake.delete_orphaned_files(cleanup_all=True).paths) == 0
    assert lake.doctor(full=True) == []


def named(numbers: Iterable[int], name: str) -> pa.Table:
    ids = list(numbers)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [name] * len(ids)})


def test_commit_whose_file_the_store_does_not_take_is_as_if_it_had_never_been(lake: Lake, s3: S3Bucket) -> None:
    s3.proxy.trouble(Trouble.SLOW_DOWN, when("PutObject"), times=100)
    with pytest.raises(UnwritableFile, match="SLOW_DOWN"):
        lake.append("t", rows(1))
    s3.proxy.forget()

    lake.append("t", rows(1))

    assert lake.table("t").read() == rows(1)
    assert len(s3.objects()) == 1


def test_encryption_and_payer_are_in_every_request_that_takes_them(
    s3: S3Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    storage = {"sse": "AES256", "requester_pays": True, "endpoint": s3.proxy.endpoint}
    monkeypatch.delenv("AWS_ENDPOINT_URL")

    with Lake.create(f"sqlite:///{tmp_path}/lake.sqlite", s3.url, storage=storage) as lake:
        lake.create_table("t", rows(0).schema)
        lake.append("t", rows(1))
        lake.flush_inlined("t")
        assert lake.table("t").read() == rows(1)

    puts = [request.headers for request in s3.proxy.requests if request.act == "PutObject"]
    reads = [request.headers for request in s3.proxy.requests if request.act == "GetObject"]
    assert [headers["x-amz-server-side-encryption"] for headers in puts] == ["AES256"]
    assert {headers["x-amz-request-payer"] for headers in puts + reads} == {"requester"}
    assert "ListObjects" not in s3.proxy.acts()


def test_what_goes_to_executors_has_the_way_to_the_store_and_no_secret(s3: S3Bucket) -> None:
    from tests.fixtures.s3 import KEY, SECRET  # noqa: PLC0415 # what must not be there

    sent = pickle.dumps(Storage.of(s3.url))

    assert s3.proxy.endpoint.encode() in sent
    assert KEY.encode() not in sent
    assert SECRET.encode() not in sent
