#!/usr/bin/env bash
# Make a base image from Debian's packages, for machines that reach no registry of images, and print its name. It stands
# for the one that deploy/docker/Dockerfile names, and is not the same bytes. It needs root, and buildah (scripts/buildah.sh).
set -euo pipefail
cd "$(dirname "$0")/.."

RELEASE=bookworm
NAME=localhost/ducklake-base:$RELEASE
buildah=$(scripts/buildah.sh)

if ! "$buildah" images --quiet "$NAME" >/dev/null 2>&1; then
    work=$(mktemp -d)
    trap 'rm -rf --one-file-system "$work"' EXIT
    PATH="$PATH:/usr/sbin" debootstrap --variant=minbase "$RELEASE" "$work/root" >&2
    rm -rf "$work"/root/var/cache/apt/archives/*.deb "$work"/root/var/lib/apt/lists/*
    container=$("$buildah" from scratch)
    "$buildah" add "$container" "$work/root" / >&2
    "$buildah" config --cmd bash "$container" >&2
    "$buildah" commit --rm "$container" "$NAME" >&2
fi
echo "$NAME"
