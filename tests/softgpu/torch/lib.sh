# What the tests of PyTorch and Triton on the software device share; read in after tests/e2e/lib.sh.

# need_softgpu - PYTHON has a torch of CUDA 13 and softgpu a runtime for it, or skip
need_softgpu() {
    local version
    need_torch
    version=$("$PYTHON" -c 'import torch; print(torch.version.cuda or "")')
    case $version in
    13.*) ;;
    *) skip "'$PYTHON' has a torch of CUDA '$version', not 13" ;;
    esac
    [ -e "$TB_BUILD_DIR/softgpu/lib/libcudart.so.13" ] || skip "built with headers of another CUDA"
}

# in_folder - an empty folder is the current one until the test ends, and holds the caches of compilers
in_folder() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cd "$folder"
    export XDG_CACHE_HOME="$folder/cache"
}

softgpu() {
    "$TB_BUILD_DIR/bin/softgpu" "$@"
}
