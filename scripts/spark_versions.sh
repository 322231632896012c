#!/usr/bin/env bash
# Run the tests of reads with some versions of Spark, each in an environment of its own: .venv-spark-<version>.
# It has what constraints.txt says, but for PySpark itself.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v uv || echo .venv/bin/uv)
java_home=$(scripts/java.sh)
failed=()
for version in "$@"; do
    venv=.venv-spark-$version
    echo "making the environment in $venv for Spark $version" >&2
    [ -x "$venv/bin/python" ] || "$uv" venv --quiet --python .venv/bin/python "$venv"
    # Extras of PySpark bring the same packages in each version.
    grep --invert-match --extended-regexp '^pyspark(\[[a-z,]*\])?==' constraints.txt >"$venv/constraints.txt"
    "$uv" pip install --quiet --python "$venv/bin/python" --requirement "$venv/constraints.txt" "pyspark[connect]==$version.*"
    "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
    "$venv/bin/python" -c 'import pyspark; print("Spark", pyspark.__version__)'
    # Spark 4.1 leaves sockets to the garbage collector, which is no fault of ours.
    JAVA_HOME=$java_home "$venv/bin/pytest" --numprocesses auto \
        -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning ${ARGS:-tests/source tests/unit/test_source_options.py} ||
        failed+=("$version")
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed with Spark ${failed[*]}" >&2
    exit 1
fi
