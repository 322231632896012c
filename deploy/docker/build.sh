#!/usr/bin/env bash
# Build the image from the root of the repository: by docker, podman or buildah, whichever is there. IMAGE names it
# (ducklake-stream:0.1.0), BUILDER chooses; further arguments go to the builder.
set -euo pipefail
cd "$(dirname "$0")/../.."

image=${IMAGE:-ducklake-stream:0.1.0}
builder=${BUILDER:-$(command -v docker || command -v podman || command -v buildah || true)}
[ -n "$builder" ] || { echo "no docker, podman or buildah was found: install one" >&2; exit 1; }

arguments=(--file deploy/docker/Dockerfile --tag "$image"
    --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)"
    --build-arg "SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)")
# BuildKit finds the list of what is left out by the Dockerfile's name; the others are told.
[ "$(basename "$builder")" = docker ] || arguments+=(--ignorefile deploy/docker/Dockerfile.dockerignore --format docker)
exec "$builder" build "${arguments[@]}" "$@" .
