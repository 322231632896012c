"""Files from Maven Central for the demonstration and for tests, fetched once into a cache. No Spark.

A set of files is a text `NAME.sha256` beside this module, as `sha256sum` writes it: what is needed, and its checksums.
Another server with the same files is named as for Maven: MVNW_REPOURL, or a mirror in ~/.m2/settings.xml.
`python -m ducklake_streaming.demo.maven NAME …` fetches sets and prints where their files are.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree as ET

KAFKA_BROKER = "kafka-broker"
KAFKA_CONNECTOR = "kafka-connector"  # of Spark 4.2.0, which Spark 4.3.0 takes, too
PEERS = "peers"  # Delta Lake and Iceberg for Spark 4.1, and what they need beside it; for benchmarks
POSTGRES_SERVERS = "postgres-servers"  # of several versions, for Linux on x86-64; for tests
S3_CONNECTOR = "s3-connector"  # of Hadoop 3.5.0, that of Spark 4.3: S3A, and of the SDK of AWS only what that uses
S3_COMMITTER = "s3-committer"  # of Spark 4.1.1, which Spark 4.3.0 takes, too: commits to S3 without renames
SCHEMA_REGISTRY = "schema-registry"  # Apicurio, an archive of its jars; for tests
CENTRAL = "https://repo1.maven.org/maven2"
ATTEMPTS = 3
TIMEOUT_SECONDS = 60.0
THREADS = 8
MIRRORED = {"*", "central", "external:*"}


class FetchError(Exception):
    """Files are not in the cache and cannot be fetched; the message says what helps."""


def fetch_files(name: str, show: Callable[[str], object] = lambda _: None) -> list[Path]:
    """Return the files of a set, fetching those that the cache lacks; `show` is told before that. Raises FetchError."""
    pinned, cache = read_pins(name), cache_folder()
    missing = {path: checksum for path, checksum in pinned.items() if not (cache / path).is_file()}
    if missing:
        show(f"fetching {len(missing)} files of {name} from Maven Central into {cache}")
        try:
            _fetch_all(missing, cache)
        except (OSError, ET.ParseError) as error:
            raise FetchError(f"the files of {name} cannot be fetched: {error}. {REMEDY}") from error
    return [cache / path for path in pinned]


REMEDY = "Maven Central must be reachable once, or a mirror of it: name that in MVNW_REPOURL or ~/.m2/settings.xml"


def read_pins(name: str) -> Mapping[str, str]:
    """Return the paths of a set, below Maven's root, with their checksums."""
    lines = (files(__package__) / f"{name}.sha256").read_text().splitlines()
    pairs = [line.split() for line in lines]
    return {path: checksum for checksum, path in pairs}


def cache_folder() -> Path:
    """Return where files are kept, in the layout of a Maven repository."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "ducklake-streaming" / "maven"


def main(names: list[str]) -> str | None:
    """Fetch sets and print their files, one a line; return what went wrong, which is what `sys.exit` takes."""
    try:
        for name in names:
            for file in fetch_files(name, lambda line: sys.stderr.write(f"{line}\n")):
                sys.stdout.write(f"{file}\n")
    except FetchError as error:
        return str(error)
    return None


def _fetch_all(pinned: Mapping[str, str], cache: Path) -> None:
    server = _find_server()
    with ThreadPoolExecutor(THREADS) as threads:
        fetched = [threads.submit(_fetch, f"{server}/{path}", cache / path, pinned[path]) for path in pinned]
        try:
            for one in fetched:
                one.result()
        finally:
            threads.shutdown(cancel_futures=True)  # without a network, one that fails is enough


def _find_server() -> str:
    """Return where Maven would look."""
    settings = Path.home() / ".m2" / "settings.xml"
    mirrors = ET.parse(settings).iterfind(".//{*}mirror") if settings.is_file() else []  # noqa: S314 # the user's own
    named = [mirror.findtext("{*}url") for mirror in mirrors if mirror.findtext("{*}mirrorOf") in MIRRORED]
    return (os.environ.get("MVNW_REPOURL") or next(iter(named), None) or CENTRAL).rstrip("/")


def _fetch(url: str, file: Path, checksum: str) -> None:
    """Fetch a file; it has its name only when it is whole and the right one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = _download(url)
    if hashlib.sha256(content).hexdigest() != checksum:
        raise OSError(f"{url} is not the file whose checksum we have")
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(content)
    Path(part.name).chmod(0o644)
    Path(part.name).rename(file)


def _download(url: str) -> bytes:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 # Maven's server or the user's
                content: bytes = answer.read()
                return content
        except OSError as error:
            if attempt == ATTEMPTS:
                raise OSError(f"{url}: {error}") from error
    raise AssertionError("the last attempt raises")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
