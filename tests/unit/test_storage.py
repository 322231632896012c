"""Storage by path and by URL."""

import pickle
from pathlib import Path

import pytest

from ducklake_core.errors import InvalidInput, UnreadableFile, UnwritableFile
from ducklake_core.files.storage import Storage


@pytest.fixture(params=["path", "file url", "fsspec url"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    roots = {"path": f"{tmp_path}/", "file url": f"file://{tmp_path}/", "fsspec url": f"memory://{tmp_path.name}/"}
    return roots[request.param]


def test_file_is_written_read_measured_and_removed(root: str) -> None:
    storage = pickle.loads(pickle.dumps(Storage.of(root)))  # noqa: S301 # executors get it so
    path = f"{root}new directory/ü=1/file"

    with storage.open_output(path) as sink:
        sink.write(b"12345")

    with storage.open_input(path) as source:
        assert source.read() == b"12345"
    assert storage.exists(path)
    assert storage.size(path) == 5
    storage.remove(path)
    assert not storage.exists(path)


def test_failed_write_leaves_nothing_behind(root: str) -> None:
    storage = Storage.of(root)

    def write_half() -> None:
        with storage.open_output(f"{root}file") as sink:
            sink.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert not storage.exists(f"{root}file")


def test_missing_file_is_named(root: str) -> None:
    storage, path = Storage.of(root), f"{root}missing"

    with pytest.raises(UnreadableFile, match="missing"), storage.open_input(path):
        pass
    with pytest.raises(UnreadableFile, match="missing") as error:
        storage.size(path)
    assert error.value.path == path


def test_url_that_nothing_opens_is_refused() -> None:
    with pytest.raises(InvalidInput, match="unheard-of"):
        Storage.of("unheard-of://bucket/")


def test_root_that_takes_files_is_left_as_it_was(root: str) -> None:
    storage = Storage.of(root)

    storage.check_writable()

    assert storage.files_in(root) == []


def test_root_that_takes_no_file_is_refused_with_what_helps(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    storage = Storage.of(f"{tmp_path}/file/lake/")

    with pytest.raises(
        UnwritableFile, match=rf"below data path '{tmp_path}/file/lake/': .*; let this process"
    ) as error:
        storage.check_writable()

    assert error.value.path == storage.root


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3A"])
def test_hadoops_names_of_s3_are_understood(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []  # in place of the network
    monkeypatch.setattr("ducklake_core.files.storage.open_filesystem", lambda *names: asked.append(names[:2]))

    storage = Storage.of(f"{scheme}://bucket/lake/")

    assert asked == [("s3", "bucket")]
    assert storage._key(f"{scheme}://bucket/lake/t/f.parquet") == "bucket/lake/t/f.parquet"


def test_walk_finds_all_files_with_their_sizes(root: str) -> None:
    storage = Storage.of(root)
    for name in ("a", "b/ü=1/c", "b/d"):
        with storage.open_output(f"{root}{name}") as sink:
            sink.write(name.encode())

    found = {file.path: file.size_bytes for file in storage.walk(root)}

    assert found == {f"{root}a": 1, f"{root}b/ü=1/c": 8, f"{root}b/d": 3}
    assert list(storage.walk(f"{root}missing/")) == []
