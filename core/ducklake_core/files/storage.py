"""Where files are kept: a local directory, or any filesystem that pyarrow or fsspec reach by URL.

Runs on driver and executors. A `Storage` is only its URL: it pickles, and each process opens its own connection.
Paths given to its methods are full ones, as the catalog composes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import Self
from urllib.parse import urlsplit
from uuid import uuid4

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs

from ducklake_core.errors import InvalidInput, UnreadableFile, UnwritableFile
from ducklake_core.file_events import FileNotRemoved
from ducklake_core.observe import LOG_RECORDER
from ducklake_core.spec.paths import hide_password, same_storage

# What pyarrow reaches by itself; everything else is asked of fsspec.
_NATIVE = ("s3", "gs", "gcs", "hdfs", "abfs", "abfss")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as its storage has it. `modified` None: the storage does not tell when it was written."""

    path: str
    size_bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Storage:
    """The filesystem that holds `root`. Build it with `of`."""

    root: str

    def __repr__(self) -> str:
        return f"Storage({hide_password(self.root)!r})"

    @classmethod
    def of(cls, path_or_url: str) -> Self:
        """Return the storage of a path; raise InvalidInput when nothing can open its URL."""
        _filesystem(_scheme(path_or_url), urlsplit(path_or_url).netloc)
        return cls(path_or_url)

    @contextmanager
    def open_input(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a file for random reads; raise UnreadableFile when it cannot be opened."""
        try:
            source = self._filesystem.open_input_file(self._key(path))
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error
        with source:
            yield source

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file for writing; when the block fails, nothing of it is left behind.

        Raises UnwritableFile when the storage does not take it.
        """
        key, is_open = self._key(path), False
        try:
            if isinstance(self._filesystem, pafs.LocalFileSystem):
                self._filesystem.create_dir(str(PurePosixPath(key).parent))
            with self._filesystem.open_output_stream(key) as sink:
                is_open = True
                yield sink
        except BaseException as error:  # an interrupt must leave no file behind, either
            if is_open:
                self.remove_quietly(path)
            if isinstance(error, OSError):
                raise UnwritableFile(f"cannot write file '{hide_password(path)}': {error}", path=path) from error
            raise

    def exists(self, path: str) -> bool:
        return bool(self._info(path).type == pafs.FileType.File)

    def has_directory(self, path: str) -> bool:
        return bool(self._info(path.rstrip("/")).type == pafs.FileType.Directory)

    def size(self, path: str) -> int:
        """Return the size in bytes; raise UnreadableFile when there is no such file."""
        found = self.find_size(path)
        if found is None:
            raise UnreadableFile(f"file '{hide_password(path)}' does not exist", path=path)
        return found

    def find_size(self, path: str) -> int | None:
        """Return the size in bytes, None when there is no such file; raise UnreadableFile when nobody can tell."""
        info = self._info(path)
        return int(info.size) if info.type == pafs.FileType.File else None

    def files_in(self, directory: str) -> list[str]:
        """Return the names of the files right in a directory, sorted; none when there is no such directory."""
        found = self._listed(self._key(directory).rstrip("/"), directory)
        return [info.base_name for info in found if info.type == pafs.FileType.File]

    def walk(self, directory: str) -> Iterator[StoredFile]:
        """Yield all files in a directory and below, one directory after another: no more than one is in memory.

        Directories that are gone have no files. Links are left out: what they lead to may be anywhere, or met twice.
        Raises UnreadableFile for what cannot be listed.
        """
        top, left = self._key(directory).rstrip("/"), [""]
        while left:
            below = left.pop()
            for info in self._listed(f"{top}/{below}".rstrip("/"), directory):
                name = f"{below}{info.base_name}"
                if self.is_local and Path(f"{top}/{name}").is_symlink():
                    continue
                if info.type == pafs.FileType.Directory:
                    left.append(f"{name}/")
                elif info.type == pafs.FileType.File:
                    yield StoredFile(f"{directory.rstrip('/')}/{name}", int(info.size or 0), info.mtime)

    def _listed(self, key: str, shown: str) -> list[pafs.FileInfo]:
        try:
            found = self._filesystem.get_file_info(pafs.FileSelector(key, allow_not_found=True))
        except OSError as error:
            raise _unreadable(shown, error) from error
        return sorted(found, key=lambda info: info.path)

    def remove_directory(self, directory: str) -> None:
        """Delete a directory with all that is in it, if it is there; raise UnreadableFile when that fails."""
        try:
            if self.has_directory(directory):
                self._filesystem.delete_dir(self._key(directory).rstrip("/"))
        except OSError as error:
            raise _unreadable(directory, error) from error

    @property
    def is_local(self) -> bool:
        return _scheme(self.root) in ("", "file")

    def remove(self, path: str) -> None:
        """Delete a file; raise UnreadableFile when that fails."""
        try:
            self._filesystem.delete_file(self._key(path))
        except OSError as error:
            raise _unreadable(path, error) from error

    def remove_if_there(self, path: str) -> None:
        """Delete a file unless it is gone already; raise UnreadableFile when that fails."""
        try:
            self.remove(path)
        except UnreadableFile as error:
            is_gone = isinstance(error.__cause__, FileNotFoundError)
            if not is_gone:
                raise

    def remove_quietly(self, path: str) -> None:
        """Delete a file, or the directory of a path with a trailing slash; one that stays is logged, as an orphan."""
        try:
            if path.endswith("/"):
                self.remove_directory(path)
            else:
                self.remove(path)
        except Exception as error:  # noqa: BLE001 # it is removed after a failure, which must be the one to be seen
            if not isinstance(error.__cause__, FileNotFoundError):
                LOG_RECORDER.record(FileNotRemoved(hide_password(path), error))

    def check_writable(self) -> None:
        """Write a tiny file at the root and remove it again; raise UnwritableFile when that cannot be done."""
        path = f"{self.root.rstrip('/')}/ducklake-probe-{uuid4()}"
        try:
            with self.open_output(path) as sink:
                sink.write(b"may be removed")
        except UnwritableFile as error:
            raise unwritable_root(self.root, error.__cause__ or error) from error
        self.remove_quietly(path)

    @property
    def _filesystem(self) -> pafs.FileSystem:
        return _filesystem(_scheme(self.root), urlsplit(self.root).netloc)

    def _key(self, path: str) -> str:
        """Return the path in the filesystem's own terms: without the scheme of a URL."""
        _, separator, key = path.partition("://")
        return key if separator else path

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            return self._filesystem.get_file_info(self._key(path))
        except OSError as error:
            raise _unreadable(path, error) from error


@lru_cache(maxsize=64)
def _scheme(path_or_url: str) -> str:
    scheme, separator, _ = same_storage(path_or_url).partition("://")
    return scheme.lower() if separator else ""


@cache
def _filesystem(scheme: str, authority: str) -> pafs.FileSystem:
    """Open a filesystem once per process. Credentials come from the environment, never from the catalog."""
    if scheme in ("", "file"):
        return pafs.LocalFileSystem()
    try:
        if scheme in _NATIVE:
            return pafs.FileSystem.from_uri(f"{scheme}://{authority}")[0]
        return pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem(scheme)))
    except (ImportError, ValueError, OSError, pa.ArrowException) as error:
        where = hide_password(f"{scheme}://{authority}")
        raise InvalidInput(f"cannot open storage '{where}': {error}", url=scheme) from error


def unwritable_root(root: str, reason: object) -> UnwritableFile:
    """Return the error for a data path that takes no files."""
    path = hide_password(root)
    return UnwritableFile(
        f"cannot write files below data path '{path}': {reason}; let this process write there, with space left, or "
        "give the lake another data_path",
        path=path,
    )


def _unreadable(path: str, error: Exception) -> UnreadableFile:
    return UnreadableFile(f"cannot open file '{hide_password(path)}': {error}", path=path)
