#!/usr/bin/env bash
# Print the folder with prometheus, promtool, prometheus-alertmanager and amtool: that of the ones on the path, else that
# of Debian's packages, unpacked into the cache. That takes apt-get and dpkg-deb, but no root, and installs nothing.
set -euo pipefail

PACKAGES="prometheus prometheus-alertmanager"
PROGRAMS="prometheus promtool prometheus-alertmanager amtool"
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/prometheus-debian"

has_all() {
    local program
    for program in $PROGRAMS; do
        [ -x "$1/$program" ] || return 1
    done
}

download() {
    # shellcheck disable=SC2086 # several names
    apt-get -qq -o APT::Sandbox::User=root download $PACKAGES
}

# Debian's Alertmanager reads its templates from a folder that only root can make. Give it a name of the same length that
# begins where it is started, and start it there.
let_manager_find_its_files() {
    mkdir -p "$1/usr/lib"
    LC_ALL=C sed 's#/usr/share/prometheus/alertmanager#./////////////////////alertmanager#g' \
        "$1/usr/bin/prometheus-alertmanager" >"$1/usr/lib/prometheus-alertmanager"
    cat >"$1/usr/bin/prometheus-alertmanager" <<'WRAPPER'
#!/bin/sh
cd "$(dirname "$0")/../share/prometheus" || exit 1
exec ../../lib/prometheus-alertmanager "$@"
WRAPPER
    chmod a+x "$1/usr/bin/prometheus-alertmanager" "$1/usr/lib/prometheus-alertmanager"
}

unpack() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    echo "unpacking Prometheus and Alertmanager of Debian into $CACHE" >&2
    local made package
    mkdir -p "$(dirname "$CACHE")"
    made=$(mktemp -d "$CACHE.XXXXXX")
    trap 'rm -rf "$made"' RETURN
    (cd "$made" && { download || { apt-get -qq update && download; }; }) >&2 || return 1
    for package in "$made"/*.deb; do
        dpkg-deb -x "$package" "$made/unpacked"
        rm "$package"
    done
    let_manager_find_its_files "$made/unpacked"
    mv -T "$made/unpacked" "$CACHE" 2>/dev/null || true # another was faster
}

found=$(dirname "$(command -v promtool || echo /usr/bin/promtool)")
for folder in "$found" "$CACHE/usr/bin"; do
    if has_all "$folder"; then
        echo "$folder"
        exit
    fi
done
unpack && has_all "$CACHE/usr/bin" && echo "$CACHE/usr/bin" ||
    { echo "no Prometheus was found: install it (Debian, Ubuntu: sudo apt-get install $PACKAGES)" >&2; exit 1; }
