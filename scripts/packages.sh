#!/bin/bash
# Installs the Debian packages that are missing; prints nothing and needs no network if none is.
#
# usage: scripts/packages.sh [build|python|ci]...
#   build: what `make` needs (default); python: what .venv needs; ci: what .ci/run adds
set -eu

packages_build="gcc g++ cmake make ninja-build pkg-config git python3 libsqlite3-dev libxxhash-dev libzstd-dev liblz4-dev
    libcmocka-dev libmpfr-dev sqlite3"
[ "$(uname -m)" != x86_64 ] || packages_build="$packages_build libzydis-dev"
packages_python="python3 python3-venv python3-dev"
packages_ci="clang-14 clang-format-14 clang-tidy-14 cppcheck"

wanted=""
[ $# -gt 0 ] || set -- build
for set; do
    case $set in
    build) wanted="$wanted $packages_build" ;;
    python) wanted="$wanted $packages_python" ;;
    ci) wanted="$wanted $packages_ci" ;;
    *)
        echo "scripts/packages.sh: unknown set '$set'" >&2
        exit 2
        ;;
    esac
done

if ! command -v dpkg-query >/dev/null; then
    echo "scripts/packages.sh: no dpkg here; install the equivalents of:" $wanted >&2
    exit 0
fi
missing=""
for p in $wanted; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] ||
        missing="$missing $p"
done
[ -n "$missing" ] || exit 0

root=""
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "scripts/packages.sh: missing, and neither root nor sudo: apt-get install$missing" >&2
        exit 1
    fi
    root=sudo
fi
echo "installing Debian packages:$missing"
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -q </dev/null
$root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing </dev/null
