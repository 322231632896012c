#!/usr/bin/env bash
# Make .venv hold exactly what constraints.txt says, with this project installed in place.
# uv does the work when it is on the path or can be installed into .venv; otherwise pip does.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    cat >&2 <<'MESSAGE'
Python 3.11 or newer was not found. Install it and try again:
    Debian 12 or newer, Ubuntu 24.04 or newer:  sudo apt-get install python3 python3-venv
    macOS with Homebrew:                        brew install python@3.13
or name one that is not on the path:            make PYTHON=/path/to/python3.11 ...
MESSAGE
    return 1
}

make_venv() {
    if is_new_enough "$venv/bin/python"; then
        return
    fi
    rm -rf "$venv"
    if command -v uv >/dev/null; then
        uv venv --quiet --python "$1" "$venv"
    elif ! "$1" -m venv "$venv"; then
        rm -rf "$venv"
        echo "Python's venv module did not work. On Debian and Ubuntu: sudo apt-get install python3-venv" >&2
        return 1
    fi
}

find_uv() {
    if command -v uv; then
        return
    fi
    if [ ! -x "$venv/bin/uv" ]; then
        "$venv/bin/python" -m pip install --quiet --constraint constraints.txt uv >&2 || return 1
    fi
    echo "$venv/bin/uv"
}

python=$(find_python)
echo "making the environment in $venv from constraints.txt" >&2
make_venv "$python"
if uv=$(find_uv); then
    "$uv" pip sync --quiet --compile-bytecode --python "$venv/bin/python" constraints.txt
    "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
else
    echo "uv cannot be installed here: using pip, which takes longer" >&2
    "$venv/bin/python" -m pip install --quiet --requirement constraints.txt
    "$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
fi
