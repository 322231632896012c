#!/usr/bin/env bash
# Print the path of a PgBouncer: the one on the path, else one installed by apt.
# With `new`: one that tracks prepared statements (1.21 or newer), else that of Debian 13, unpacked with the libraries it
# was made for into the cache. That takes curl, dpkg-deb and xz, but no root.
set -euo pipefail

PATH="$PATH:/usr/sbin"
MIRROR=http://deb.debian.org/debian
RELEASE=trixie
PACKAGES="pgbouncer libc6 libcares2 libevent-2.1-7t64 libpam0g libssl3t64 libsystemd0 libaudit1 libcap-ng0 libcap2 zlib1g libzstd1"
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/pgbouncer-$RELEASE"

install_pgbouncer() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
    echo "installing PgBouncer" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    # No service is started: tests start their own.
    RUNLEVEL=1 apt-get install -y -qq --no-install-recommends pgbouncer >&2
}

tracks_statements() {
    local version
    version=$("$1" --version | sed -n 's/^PgBouncer \([0-9]*\.[0-9]*\).*/\1/p')
    [ "$(printf '%s\n1.21\n' "$version" | sort -V | head -n 1)" = 1.21 ]
}

# Print where the mirror has a package of the release.
file_of() {
    awk -v RS= -v start="Package: $1"$'\n' 'index($0, start) == 1' "$2/Packages" | sed -n 's/^Filename: //p'
}

unpack_new() {
    command -v curl >/dev/null && command -v dpkg-deb >/dev/null && command -v xz >/dev/null || return 1
    echo "unpacking PgBouncer of Debian $RELEASE into $CACHE" >&2
    local made package libraries
    mkdir -p "$(dirname "$CACHE")"
    made=$(mktemp -d "$CACHE.XXXXXX")
    curl -fsS -m 120 "$MIRROR/dists/$RELEASE/main/binary-$(dpkg --print-architecture)/Packages.xz" | xz -dc >"$made/Packages"
    for package in $PACKAGES; do
        curl -fsS -m 120 -o "$made/package.deb" "$MIRROR/$(file_of "$package" "$made")"
        dpkg-deb -x "$made/package.deb" "$made/root"
    done
    rm "$made/package.deb" "$made/Packages"
    libraries=$(cd "$made/root" && echo usr/lib/*-linux-gnu)
    cat >"$made/pgbouncer" <<WRAPPER
#!/bin/sh
cd "\$(dirname "\$0")/root" || exit 1
exec $libraries/ld-linux-*.so.* --library-path $libraries usr/sbin/pgbouncer "\$@"
WRAPPER
    chmod a+x "$made/pgbouncer"
    mv -T "$made" "$CACHE" 2>/dev/null || rm -rf "$made" # another was faster
}

find_new() {
    local found
    for found in "$(command -v pgbouncer || true)" "$CACHE/pgbouncer"; do
        if [ -x "$found" ] && tracks_statements "$found"; then
            echo "$found"
            return
        fi
    done
    return 1
}

if [ "${1:-}" = new ]; then
    find_new || { unpack_new && find_new; } || { echo "no PgBouncer 1.21 or newer was found" >&2; exit 1; }
else
    command -v pgbouncer || { install_pgbouncer && command -v pgbouncer; } ||
        { echo "no PgBouncer was found: install it (Debian, Ubuntu: sudo apt-get install pgbouncer)" >&2; exit 1; }
fi
