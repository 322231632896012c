#!/usr/bin/env bash
# Run the tests some times in a row beside a load of twice the cores, and stop at the first failure.
# ROUNDS: how many times (3); what follows goes to pytest. The load ends with this script, however it ends.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-3}
cores=$(getconf _NPROCESSORS_ONLN)
load=()

end_load() {
    [ ${#load[@]} -eq 0 ] || kill "${load[@]}" 2>/dev/null || true
}
trap end_load EXIT
trap 'exit 130' INT TERM HUP

java_home=$(scripts/java.sh)
for _ in $(seq $((2 * cores))); do
    # It ends when this script has ended in a way that no trap sees.
    (while kill -0 $$ 2>/dev/null; do for _ in {1..200000}; do :; done; done) &
    load+=($!)
done
echo "beside ${#load[@]} busy processes on $cores cores: $rounds rounds" >&2
for round in $(seq "$rounds"); do
    start=$SECONDS
    if ! JAVA_HOME=$java_home .venv/bin/pytest --numprocesses auto "$@"; then
        echo "round $round of $rounds FAILED after $((SECONDS - start)) s, beside a load of ${#load[@]}" >&2
        exit 1
    fi
    echo "round $round of $rounds passed in $((SECONDS - start)) s, beside a load of ${#load[@]}" >&2
done
