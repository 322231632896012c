#!/usr/bin/env bash
# Print the path of a buildah that keeps its images in the cache and fetches none. buildah itself is the one on the path,
# else Debian's, installed by apt with debootstrap: it starts itself again without the environment that would let it find
# unpacked libraries. It needs root.
set -euo pipefail

CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/ducklake-streaming/buildah"
PATH="$PATH:/usr/sbin"

install_buildah() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
    echo "installing buildah and debootstrap" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    apt-get install -y -qq --no-install-recommends buildah debootstrap >&2
}

write_wrapper() {
    cat <<'WRAPPER'
#!/bin/sh
here=$(dirname "$0")
exec buildah --root "$here/storage" --runroot "$here/run" --storage-driver vfs "$@"
WRAPPER
}

command -v buildah >/dev/null && command -v debootstrap >/dev/null || install_buildah ||
    { echo "no buildah was found: install it (Debian, Ubuntu: sudo apt-get install buildah debootstrap)" >&2; exit 1; }
mkdir -p "$CACHE"
write_wrapper >"$CACHE/wrapper"
chmod +x "$CACHE/wrapper"
echo "$CACHE/wrapper"
