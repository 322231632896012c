"""Where files are kept: a local directory, or any filesystem that pyarrow or fsspec reach by URL.

Runs on driver and executors. A `Storage` is its URL and how that is reached, without credentials: it pickles, and each
process opens its own connection. Paths given to its methods are full ones, as the catalog composes them.
What an object store is too busy for is asked again (`storage_retries`); nothing but `walk`, `files_in` and a look for
what is not there lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath
from typing import Self, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from ducklake_core.errors import UnreadableFile, UnwritableFile
from ducklake_core.file_events import FileNotRemoved
from ducklake_core.files.filesystems import open_filesystem, with_os_errors
from ducklake_core.files.refused_storage import told_reason
from ducklake_core.files.storage_options import NO_OPTIONS, StorageOptions
from ducklake_core.files.storage_retries import STORAGE_PATIENCE
from ducklake_core.files.upload import send, spool
from ducklake_core.observe import LOG_RECORDER
from ducklake_core.spec.paths import hide_password, same_storage

Result = TypeVar("Result")
_WHOLE_BYTES = 4 * 2**20


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
    options: StorageOptions = NO_OPTIONS

    def __repr__(self) -> str:
        return f"Storage({hide_password(self.root)!r})"

    @classmethod
    def of(cls, path_or_url: str, options: StorageOptions | None = None) -> Self:
        """Return the storage of a path; raise InvalidInput when nothing can open its URL.

        What the options leave open, the environment of this process says: executors need no variables for it.
        """
        is_remote = _scheme(path_or_url) not in ("", "file")
        options = (options or NO_OPTIONS).with_environment() if is_remote else NO_OPTIONS
        open_filesystem(_scheme(path_or_url), urlsplit(path_or_url).netloc, options)
        return cls(path_or_url, options)

    @contextmanager
    def open_input(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a file for random reads; raise UnreadableFile when it cannot be opened.

        A small one of an object store is fetched as a whole: one request, which can be made again.
        """
        try:
            source = self._asked(path, lambda: self._filesystem.open_input_file(self._key(path)))
            source = source if self.is_local else self._fetched(path, source)
        except (OSError, ValueError) as error:
            raise _unreadable(path, error) from error
        with source:
            yield source

    def _fetched(self, path: str, source: pa.NativeFile) -> pa.NativeFile:
        """Return what is read of a remote file: all of a small one at once, a larger one bit by bit."""
        with source:
            if source.size() <= _WHOLE_BYTES:
                return pa.BufferReader(self._asked(path, lambda: _read_whole(source)))
        patient = open_filesystem(_scheme(self.root), urlsplit(self.root).netloc, self.options, for_reads=True)
        return self._asked(path, lambda: patient.open_input_file(self._key(path)))

    @contextmanager
    def open_output(self, path: str) -> Iterator[pa.NativeFile]:
        """Open a new file for writing; when the block fails, nothing of it is left behind.

        Raises UnwritableFile when the storage does not take it.
        """
        write = self._write_here if self.is_local else self._write_there
        try:
            with write(path) as sink:
                yield sink
        except OSError as error:
            raise UnwritableFile(f"cannot write file '{hide_password(path)}': {error}", path=path) from error

    def write_whole(self, path: str, content: pa.Buffer) -> None:
        """Write a new file that is in memory, in one piece: small writes cost more than what they write."""
        with self.open_output(path) as sink:
            sink.write(content)

    @contextmanager
    def _write_here(self, path: str) -> Iterator[pa.NativeFile]:
        key, is_open = self._key(path), False
        try:
            with self._opened_here(key) as sink:
                is_open = True
                yield sink
        except BaseException:  # an interrupt must leave no file behind, either
            if is_open:
                self.remove_quietly(path)
            raise

    def _opened_here(self, key: str) -> pa.NativeFile:
        """Open a new file; the first one of its directory makes that."""
        try:
            return self._filesystem.open_output_stream(key, compression=None)
        except FileNotFoundError:
            self._filesystem.create_dir(str(PurePosixPath(key).parent))
            return self._filesystem.open_output_stream(key, compression=None)

    @contextmanager
    def _write_there(self, path: str) -> Iterator[pa.NativeFile]:
        """Keep the file until it is whole, then send it: a block that fails has sent nothing."""
        with spool() as whole:
            sink = pa.PythonFile(whole, mode="w")
            yield sink
            sink.flush()
            with ExitStack() as on_failure:
                on_failure.callback(self._discard, path)
                self._asked(path, partial(send, self._filesystem, self._key(path), whole))
                on_failure.pop_all()

    def _discard(self, path: str) -> None:
        """Delete what may be there of a file that could not be sent; the store was waited for already."""
        try:
            with_os_errors(partial(self._filesystem.delete_file, self._key(path)))
        except FileNotFoundError:
            pass
        except OSError as error:
            LOG_RECORDER.record(FileNotRemoved(hide_password(path), error))

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
            selector = pafs.FileSelector(key, allow_not_found=True)
            found = self._asked(shown, lambda: self._filesystem.get_file_info(selector))
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
            self._asked(path, lambda: self._filesystem.delete_file(self._key(path)))
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
            cause = error.__cause__ or error
            raise unwritable_root(self.root, told_reason(self.root, cause)) from error
        self.remove_quietly(path)

    @property
    def _filesystem(self) -> pafs.FileSystem:
        return open_filesystem(_scheme(self.root), urlsplit(self.root).netloc, self.options)

    def _asked(self, path: str, act: Callable[[], Result]) -> Result:
        return act() if self.is_local else STORAGE_PATIENCE.run(partial(with_os_errors, act), path)

    def _key(self, path: str) -> str:
        """Return the path in the filesystem's own terms: without the scheme of a URL."""
        _, separator, key = path.partition("://")
        return key if separator else path

    def _info(self, path: str) -> pafs.FileInfo:
        try:
            return self._asked(path, lambda: self._filesystem.get_file_info(self._key(path)))
        except OSError as error:
            raise _unreadable(path, error) from error


@lru_cache(maxsize=64)
def _scheme(path_or_url: str) -> str:
    scheme, separator, _ = same_storage(path_or_url).partition("://")
    return scheme.lower() if separator else ""


def _read_whole(source: pa.NativeFile) -> pa.Buffer:
    source.seek(0)
    return source.read_buffer()


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
