"""Opens the filesystem of a URL, once per process. Runs on driver and executors.

S3 by pyarrow's own client, or by s3fs where an option needs that; the rest by pyarrow or fsspec, as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TypeVar
from urllib.parse import urlsplit

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs

from ducklake_core.errors import InvalidInput
from ducklake_core.files.storage_options import StorageOptions
from ducklake_core.spec.paths import hide_password

Result = TypeVar("Result")
# What pyarrow reaches by itself; everything else is asked of fsspec.
_NATIVE = ("gs", "gcs", "hdfs", "abfs", "abfss")
_ATTEMPTS = 3  # by the client itself, within two seconds; `storage_retries` goes on, and says so
_READ_ATTEMPTS = 8  # nobody goes on in the middle of a file; about half a minute
_CONNECT_SECONDS = 10.0


@cache
def open_filesystem(
    scheme: str, authority: str, options: StorageOptions, *, for_reads: bool = False
) -> pafs.FileSystem:
    """Return the filesystem. Credentials come from the environment, never from the catalog nor from the options.

    `for_reads`: to read large files bit by bit, by a client that tries longer by itself.
    """
    if scheme in ("", "file"):
        return pafs.LocalFileSystem()
    try:
        if scheme == "s3":
            attempts = _READ_ATTEMPTS if for_reads else _ATTEMPTS
            return _by_s3fs(options, attempts) if options.needs_s3fs else _by_pyarrow(authority, options, attempts)
        if scheme in _NATIVE:
            return pafs.FileSystem.from_uri(f"{scheme}://{authority}")[0]
        return pafs.PyFileSystem(pafs.FSSpecHandler(fsspec.filesystem(scheme)))
    except (ImportError, ValueError, OSError, pa.ArrowException) as error:
        where = hide_password(f"{scheme}://{authority}")
        raise InvalidInput(f"cannot open storage '{where}': {error}", url=scheme) from error


def with_os_errors(act: Callable[[], Result]) -> Result:
    """Do something with a filesystem; raise OSError for what s3fs lets through of its own client's errors."""
    passing, others = _errors_of_s3fs()
    try:
        return act()
    except passing as error:
        raise ConnectionError(str(error)) from error
    except others as error:
        raise OSError(str(error)) from error


@cache
def _errors_of_s3fs() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """Return the errors of a connection, and all others; none where s3fs is not installed."""
    try:
        found = import_module("botocore.exceptions")
    except ImportError:
        return (), ()
    return (found.HTTPClientError, found.ConnectionError), (found.BotoCoreError,)


def _by_pyarrow(bucket: str, options: StorageOptions, attempts: int) -> pafs.S3FileSystem:
    endpoint = urlsplit(options.endpoint or "")
    region = options.region or ("us-east-1" if options.endpoint else _region_of(bucket))
    host = endpoint.netloc + endpoint.path.rstrip("/")
    if options.path_style and not host:  # only where a host is named, pyarrow does not put the bucket before it
        host = f"s3.{region}.amazonaws.com"
    return pafs.S3FileSystem(
        region=region,
        scheme=endpoint.scheme or "https",
        endpoint_override=host or None,
        force_virtual_addressing=options.path_style is False,
        tls_ca_file_path=options.ca_file,
        connect_timeout=_CONNECT_SECONDS,
        allow_delayed_open=True,  # small files are one request
        background_writes=False,  # so that an upload that fails can still be finished: see `upload`
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=attempts),
    )


def _region_of(bucket: str) -> str | None:
    """Ask AWS where a bucket is; None, which leaves it to the client's own rules, where nobody tells."""
    try:
        return str(pafs.resolve_s3_region(bucket))
    except (OSError, ValueError):
        return None


def _by_s3fs(options: StorageOptions, attempts: int) -> pafs.PyFileSystem:
    style = {None: "auto", True: "path", False: "virtual"}[options.path_style]
    encryption = {"ServerSideEncryption": options.sse, "SSEKMSKeyId": options.kms_key}
    try:
        filesystem = fsspec.filesystem(
            "s3",
            endpoint_url=options.endpoint,
            requester_pays=bool(options.requester_pays),
            s3_additional_kwargs={name: value for name, value in encryption.items() if value},
            client_kwargs={
                name: value for name, value in (("region_name", options.region), ("verify", options.ca_file)) if value
            },
            config_kwargs={
                "s3": {"addressing_style": style},
                "connect_timeout": _CONNECT_SECONDS,
                "retries": {"mode": "standard", "total_max_attempts": attempts},
            },
            use_listings_cache=False,  # others write, too
            default_cache_type="none",  # readers of Parquet know best what they need next
            skip_instance_cache=True,  # it is kept here
        )
    except ImportError as error:
        message = "sse, kms_key and requester_pays need the package s3fs: pip install 'ducklake-streaming[s3fs]'"
        raise ImportError(message) from error
    filesystem.retries = 1  # botocore's own are enough
    return pafs.PyFileSystem(pafs.FSSpecHandler(filesystem))
