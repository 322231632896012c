#!/usr/bin/env bash
# Make a base image from Debian's packages, for machines that reach no registry of images, and print its name. It stands
# for the one that deploy/docker/Dockerfile names, and is not the same bytes. It needs root, and buildah (scripts/buildah.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

RELEASE=bookworm
NAME=localhost/ducklake-base:$RELEASE
buildah=$(scripts/buildah.sh)

if ! "$buildah" images --quiet "$NAME" >/dev/null 2>&1; then
    made=$(mktemp -d)
    trap 'rm -rf --one-file-system "$made"' EXIT
    PATH="$PATH:/usr/sbin" debootstrap --variant=minbase "$RELEASE" "$made/debian" >&2
    rm -rf "$made"/debian/var/cache/apt/archives/*.deb "$made"/debian/var/lib/apt/lists/*
    container=$("$buildah" from scratch)
    "$buildah" add "$container" "$made/debian" / >&2
    "$buildah" config --cmd bash "$container" >&2
    "$buildah" commit --rm "$container" "$NAME" >&2
fi
echo "$NAME"
