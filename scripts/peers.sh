#!/usr/bin/env bash
# Print the Python that runs benchmarks beside Delta Lake and Iceberg: with PySpark 4.1, the newest one that both are
# built for, and else with what constraints.txt says. It is in the cache, and has not this project itself: PYTHONPATH
# tells it from which tree that comes.
set -euo pipefail
cd "$(dirname "$0")/.."

SPARK=4.1
VENV="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/peers-spark-$SPARK"

wanted() {
    # Extras of PySpark bring the same packages in each version.
    grep --invert-match --extended-regexp '^ *#|^pyspark(\[[a-z,]*\])?==' constraints.txt
}

make_venv() {
    local uv
    uv=$(command -v uv || echo .venv/bin/uv)
    echo "making an environment with PySpark $SPARK in $VENV" >&2
    [ -x "$VENV/bin/python" ] || "$uv" venv --quiet --python .venv/bin/python "$VENV"
    rm -f "$VENV/made-of"
    wanted >"$VENV/constraints.txt"
    "$uv" pip install --quiet --compile-bytecode --python "$VENV/bin/python" \
        --requirement "$VENV/constraints.txt" "pyspark[connect]==$SPARK.*" >&2
    mv "$VENV/constraints.txt" "$VENV/made-of"
}

mkdir -p "$(dirname "$VENV")"
exec 9>"$VENV.lock" # one at a time
flock 9
wanted | cmp --silent - "$VENV/made-of" || make_venv
echo "$VENV/bin/python"
