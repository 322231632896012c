#!/usr/bin/env bash
# Run the tests some times beside a load of twice the cores.
# ROUNDS: how many times (3); what follows goes to pytest.
# AT_ONCE: empty: one round after the other beside busy processes, until the first failure. Not empty: all rounds at
# the same time, so that each is the load of the others: three rounds are twice the cores to each of them, and take the
# time of three suites in place of nine. Tests with Spark take up to 4 GB in each worker, so 24 GB in three rounds on two
# cores: where there is less, give a few folders at a time.
# What is started ends with this script, however it ends.
set -euo pipefail
set -m # what is started has a process group of its own
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-3}
cores=$(getconf _NPROCESSORS_ONLN)
started=()

end_all() {
    # pytest tidies up when it is interrupted.
    for process in "${started[@]}"; do kill -INT -- "-$process" 2>/dev/null || true; done
}
trap end_all EXIT
trap 'exit 130' INT TERM HUP

# run_round NUMBER FILE PYTEST-ARGUMENTS…: FILE takes what pytest says.
run_round() {
    local number=$1 file=$2 start=$SECONDS found=passed
    shift 2
    .venv/bin/pytest --numprocesses auto "$@" >"$file" 2>&1 || found=FAILED
    echo "round $number of $rounds $found in $((SECONDS - start)) s" >&2
    [ "$found" = passed ]
}

start_load() {
    for _ in $(seq $((2 * cores))); do
        # It ends when this script has ended in a way that no trap sees.
        (while kill -0 $$ 2>/dev/null; do for _ in {1..200000}; do :; done; done) &
        started+=($!)
    done
    echo "beside ${#started[@]} busy processes on $cores cores: $rounds rounds" >&2
}

run_in_a_row() {
    start_load
    for round in $(seq "$rounds"); do
        run_round "$round" /dev/stdout "$@"
    done
}

run_at_once() {
    local folder failed=0
    folder=$(mktemp --directory)
    echo "$rounds rounds at once on $cores cores; what they say is in $folder" >&2
    for round in $(seq "$rounds"); do
        run_round "$round" "$folder/round-$round.log" --junitxml="$folder/round-$round.xml" "$@" &
        started+=($!)
    done
    for process in "${started[@]}"; do
        wait "$process" || failed=1
    done
    tail --lines=5 "$folder"/round-*.log
    return $failed
}

JAVA_HOME=$(scripts/java.sh)
export JAVA_HOME
if [ -n "${AT_ONCE:-}" ]; then
    run_at_once "$@"
else
    run_in_a_row "$@"
fi
