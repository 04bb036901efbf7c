#!/bin/bash
# Runs a script with the Python of scripts/clients.sh on the software device.
#
# usage: TB_SOURCE_DIR=... TB_BUILD_DIR=... run.sh [NAME=VALUE...] SCRIPT [ARGUMENT...]
# 77: there are no clients here; the reason is printed
set -eu
while [ $# -gt 0 ] && [[ $1 == [A-Z]*=* ]]; do
    export "${1?}"
    shift
done
build=$TB_BUILD_DIR
. "$TB_SOURCE_DIR/tests/softgpu/programs/env.sh"

python=$("$TB_SOURCE_DIR/scripts/clients.sh" 2>&1) || {
    echo "skipped: $(tail -n 1 <<<"$python")"
    exit 77
}
python=$(tail -n 1 <<<"$python")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# caches of compiled kernels belong to this run alone
export XDG_CACHE_HOME=$folder TRITON_CACHE_DIR=$folder/triton CACHEDB=$folder/tinygrad.db
unset LD_LIBRARY_PATH
# tinygrad looks for NVRTC in the system's folders; a wheel of it lies elsewhere
wheel=$("$python" -c 'import glob, sys
print(*(f for p in sys.path for f in glob.glob(p + "/nvidia/*/lib/libnvrtc.so.*")), sep="\n")' | head -n 1)
[ -z "$wheel" ] || export NVRTC_PATH="${NVRTC_PATH:-$wheel}"
"$build/bin/softgpu" run -- env ${preload:+LD_PRELOAD="$preload"} "$python" "$@"
