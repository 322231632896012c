#!/usr/bin/env bash
# Print the path of a headless Chromium: the one on the path, else Debian's, unpacked with the libraries and fonts that
# this machine lacks into the cache. That takes apt and dpkg, and no root: apt keeps its lists there, too.
set -euo pipefail

PACKAGES="chromium-headless-shell fonts-inter"
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/chromium"

find_chromium() {
    local found
    for found in chromium-headless-shell chromium chromium-browser google-chrome; do
        command -v "$found" && return
    done
    # A machine may have changed since the libraries were chosen.
    [ -x "$CACHE/chromium" ] && "$CACHE/chromium" --version >/dev/null 2>&1 && echo "$CACHE/chromium"
}

private_apt() {
    apt-get -qq -o Dir::State="$made/apt" -o Dir::State::status=/var/lib/dpkg/status -o Dir::Cache="$made/apt" \
        -o Debug::NoLocking=1 -o APT::Sandbox::User="" "$@" >&2
}

unpack_chromium() {
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    echo "unpacking Debian's Chromium into $CACHE" >&2
    made=$(mktemp -d "$CACHE.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    mkdir -p "$made/apt/lists/partial" "$made/apt/archives/partial"
    private_apt update
    # shellcheck disable=SC2086 # words
    private_apt install -y --no-install-recommends --download-only $PACKAGES
    for package in "$made"/apt/archives/*.deb; do
        dpkg-deb -x "$package" "$made/unpacked"
    done
    rm -rf "$made/apt"
    write_fonts >"$made/fonts.conf"
    write_wrapper >"$made/chromium"
    chmod 755 "$made" "$made/chromium"
    rm -rf "$CACHE" # of another machine: find_chromium could not use it
    mv -T "$made" "$CACHE"
}

write_fonts() {
    cat <<FONTS
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "urn:fontconfig:fonts.dtd">
<fontconfig>
  <dir>$CACHE/unpacked/usr/share/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>$CACHE/fonts</cachedir>
  <alias><family>sans-serif</family><prefer><family>Inter</family></prefer></alias>
  <alias><family>system-ui</family><prefer><family>Inter</family></prefer></alias>
</fontconfig>
FONTS
}

write_wrapper() {
    cat <<'WRAPPER'
#!/bin/sh
here=$(dirname "$0")
export FONTCONFIG_FILE="$here/fonts.conf"
for folder in "$here"/unpacked/usr/lib/*-linux-gnu; do
    export LD_LIBRARY_PATH="$folder:$folder/pulseaudio"
done
exec "$here/unpacked/usr/lib/chromium/chromium-headless-shell" "$@"
WRAPPER
}

# One at a time: whoever has waited finds what another has unpacked.
unpack_once() {
    mkdir -p "$(dirname "$CACHE")"
    exec 9>"$CACHE.lock"
    flock 9
    find_chromium || { unpack_chromium && find_chromium; }
}

find_chromium || unpack_once ||
    { echo "no Chromium was found: install it (Debian: sudo apt-get install chromium-headless-shell)" >&2; exit 1; }
