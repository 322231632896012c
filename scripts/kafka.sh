#!/usr/bin/env bash
# Print the jars of a real Kafka for tests, one path a line: `broker` for a server, `connector` for Spark's own source.
# They come from Maven Central once, into a cache of Maven's layout, and are those whose checksums scripts/kafka-*.sha256
# have. Another server with the same files is named as for Maven: MVNW_REPOURL, or a mirror in ~/.m2/settings.xml.
set -euo pipefail

jars="$(cd "$(dirname "$0")" && pwd)/kafka-${1:-}.sha256"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/maven"

[ -f "$jars" ] || { echo "usage: $0 broker|connector" >&2; exit 2; }

exec python3 - "$jars" "$cache" <<'PYTHON'
import hashlib
import os
import sys
import tempfile
import urllib.request
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CENTRAL = "https://repo1.maven.org/maven2"
ATTEMPTS = 3
MIRRORED = {"*", "central", "external:*"}


def main(jars, cache):
    pinned = dict(reversed(line.split()) for line in jars.read_text().splitlines())
    missing = [path for path in pinned if not (cache / path).is_file()]
    if missing:
        server = find_server()
        print(f"fetching {len(missing)} of the jars in {jars.name} into {cache}", file=sys.stderr)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda path: fetch(f"{server}/{path}", cache / path, pinned[path]), missing))
    for path in pinned:
        print(cache / path)


def find_server():
    """Return where Maven would look."""
    settings = Path.home() / ".m2" / "settings.xml"
    mirrors = ElementTree.parse(settings).iterfind(".//{*}mirror") if settings.is_file() else []
    named = [mirror.findtext("{*}url") for mirror in mirrors if mirror.findtext("{*}mirrorOf") in MIRRORED]
    return (os.environ.get("MVNW_REPOURL") or next(iter(named), None) or CENTRAL).rstrip("/")


def fetch(url, file, checksum):
    """Fetch a file; it has its name only when it is whole and the right one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    content = download(url)
    if hashlib.sha256(content).hexdigest() != checksum:
        raise ValueError(f"{url} is not the file whose checksum we have")
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(content)
    os.chmod(part.name, 0o644)
    os.rename(part.name, file)


def download(url):
    for attempt in range(ATTEMPTS):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return answer.read()
        except OSError as error:
            if attempt + 1 == ATTEMPTS:
                raise OSError(f"{url}: {error}") from None


try:
    main(*map(Path, sys.argv[1:]))
except (OSError, ValueError) as error:
    sys.exit(f"the jars cannot be fetched: {error}")
PYTHON
