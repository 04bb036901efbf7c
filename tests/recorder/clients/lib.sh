# What the tests of recorded clients share; read in after tests/e2e/lib.sh.

TWINBIT=$TB_BUILD_DIR/bin/twinbit

# need_clients - PYTHON is that of scripts/clients.sh, the current folder is new and holds the compilers' caches
need_clients() {
    local wheel
    PYTHON=$("$TB_SOURCE_DIR/scripts/clients.sh" 2>&1) || skip "$(tail -n 1 <<<"$PYTHON")"
    PYTHON=$(tail -n 1 <<<"$PYTHON")
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cd "$folder" || exit 1
    export XDG_CACHE_HOME=$folder TRITON_CACHE_DIR=$folder/triton CACHEDB=$folder/tinygrad.db
    export PYTHONPATH=$TB_BUILD_DIR/lib/twinbit/python # of twinbit.step()
    export PARALLEL=0 # tinygrad's workers start slowly, and there is little to compile
    unset LD_LIBRARY_PATH
    # tinygrad looks for NVRTC in the system's folders; a wheel of it lies elsewhere
    wheel=$("$PYTHON" -c 'import glob, sys
print(*(f for p in sys.path for f in glob.glob(p + "/nvidia/*/lib/libnvrtc.so.*")), sep="\n")' | head -n 1)
    [ -z "$wheel" ] || export NVRTC_PATH="${NVRTC_PATH:-$wheel}"
}
