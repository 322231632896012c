"""A new file on its way to an object store: it is kept here until it is whole, then sent, and sent again if need be.

Runs on driver and executors. Whoever fails to make a file has sent nothing. Small files wait in memory, larger ones in
a temporary file. A multipart upload that fails is aborted; pyarrow's client cannot, so there it is finished, and the
next try or the caller's clean-up takes the broken object away. What no process can end, because it was killed, a rule
of the bucket must (AbortIncompleteMultipartUpload).
"""

from __future__ import annotations

import shutil
from contextlib import ExitStack, suppress
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import pyarrow as pa
import pyarrow.fs as pafs

from ducklake_core.files.filesystems import with_os_errors

MEMORY_BYTES = 16 * 2**20
_PIECE_BYTES = 10 * 2**20  # of which pyarrow makes a part; s3fs is told to


def spool() -> SpooledTemporaryFile[bytes]:
    """Return where a file is kept until it is whole; it goes when it is closed."""
    return SpooledTemporaryFile(MEMORY_BYTES, prefix="ducklake-")


def send(filesystem: pafs.FileSystem, key: str, whole: IO[bytes]) -> None:
    """Make an object of a whole file; raise OSError when that fails. It may be done again."""
    whole.seek(0)
    if isinstance(filesystem, pafs.PyFileSystem):
        _send_by_fsspec(filesystem.handler.fs, key, whole)
    else:
        _send_by_pyarrow(filesystem, key, whole)


def _send_by_pyarrow(filesystem: pafs.FileSystem, key: str, whole: IO[bytes]) -> None:
    target: pa.NativeFile = filesystem.open_output_stream(key)
    with ExitStack() as on_failure:  # an interrupt must leave no parts behind, either
        on_failure.callback(_finish, target)
        shutil.copyfileobj(whole, target, _PIECE_BYTES)
        on_failure.pop_all()
    target.close()


def _finish(target: pa.NativeFile) -> None:
    with suppress(OSError):  # the first error is the one to be seen
        target.close()


def _send_by_fsspec(filesystem: Any, key: str, whole: IO[bytes]) -> None:  # Any: fsspec has no types
    target = filesystem.open(key, "wb", block_size=_PIECE_BYTES)
    with ExitStack() as on_failure:  # see _send_by_pyarrow
        on_failure.callback(_abort, target)
        shutil.copyfileobj(whole, target, _PIECE_BYTES)
        target.close()
        on_failure.pop_all()


def _abort(target: Any) -> None:  # Any: see _send_by_fsspec
    if not target.closed:
        with suppress(OSError):
            with_os_errors(target.discard)
        target.closed = True  # else it would be sent when it is collected
