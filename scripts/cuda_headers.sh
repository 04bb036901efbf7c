#!/bin/bash
# Gets CUDA's public headers from PyPI where no toolkit has them; prints nothing and needs no network if one
# does. cmake/cuda.cmake finds what this makes.
#
# usage: scripts/cuda_headers.sh          headers of requirements-cuda.txt into build/cuda-headers/include; where a
#                                         toolkit lacks nvml.h alone, that one into build/nvml-headers/include
#        scripts/cuda_headers.sh --nvcc   a whole nvcc of requirements-nvcc.txt into build/cuda-nvcc
#        scripts/cuda_headers.sh --fetch [FOLDER [REQUIREMENTS]]   the headers, toolkit or not
#        scripts/cuda_headers.sh --print  the folder that the build would find; fails if there is none
set -eu
cd "$(dirname "$0")/.."

folder=build/cuda-headers
requirements=requirements-cuda.txt

# have FOLDER - is it an include folder that can be compiled against?
have() {
    [ -f "$1/cuda.h" ] && [ -f "$1/cuda_runtime_api.h" ] && [ -f "$1/crt/host_defines.h" ]
}

toolkits=(${CUDA_HOME:+"$CUDA_HOME/include"} ${CUDA_PATH:+"$CUDA_PATH/include"} /usr/local/cuda/include /usr/include)

# A python with pip: the system's, .venv's, or one made for this.
pip() {
    local python
    for python in python3 .venv/bin/python build/cuda-venv/bin/python; do
        if "$python" -m pip --version >/dev/null 2>&1; then
            "$python" -m pip --disable-pip-version-check --no-input "$@"
            return
        fi
    done
    scripts/packages.sh python >&2
    python3 -m venv build/cuda-venv
    build/cuda-venv/bin/python -m pip --disable-pip-version-check --no-input "$@"
}

# fetch FOLDER REQUIREMENTS WHAT - the include folders of these wheels, unless FOLDER has them
fetch() {
    local folder=$1 requirements=$2 want
    want=$(sha256sum <"$requirements")
    [ "$(cat "$folder/.complete" 2>/dev/null)" != "$want" ] || return 0
    echo "$3 from PyPI wheels into $folder" >&2
    rm -rf "$folder/wheels" "$folder/include"
    mkdir -p "$folder/wheels" "$folder/include"
    pip download -q --no-deps --only-binary :all: --dest "$folder/wheels" -r "$requirements" >&2 </dev/null || return 1
    unpack "$folder"
    rm -rf "$folder/wheels"
    echo "$want" >"$folder/.complete"
}

# nvidia/cu13/include/x.h in wheels of CUDA 13, nvidia/cuda_runtime/include/x.h in those of 12
unpack() {
    python3 - "$1" <<'PYTHON'
import glob, os, re, sys, zipfile

folder = sys.argv[1]
for wheel in glob.glob(os.path.join(folder, "wheels", "*.whl")):
    with zipfile.ZipFile(wheel) as z:
        for name in z.namelist():
            m = re.fullmatch(r"nvidia/[^/]+/include/(.*[^/])", name)
            if m and ".." not in name:
                out = os.path.join(folder, "include", m.group(1))
                os.makedirs(os.path.dirname(out), exist_ok=True)
                with open(out, "wb") as f:
                    f.write(z.read(name))
PYTHON
}

# fetch_nvml TOOLKIT - nvml.h, which some packages of toolkits leave out
fetch_nvml() {
    [ ! -f "$1/nvml.h" ] || return 0
    mkdir -p build/nvml-headers
    grep '^nvidia-nvml-dev' requirements-cuda.txt >build/nvml-headers/requirements.txt
    fetch build/nvml-headers build/nvml-headers/requirements.txt "nvml.h comes" ||
        failed nvml.h "softgpu has no libnvidia-ml.so.1"
}

failed() {
    echo "scripts/cuda_headers.sh: $1 could not be fetched; without it $2" >&2
    exit 1
}

case ${1:-} in
"")
    [ -z "${TB_CUDA_INCLUDE:-}" ] || exit 0
    for d in "${toolkits[@]}"; do
        if have "$d"; then
            fetch_nvml "$d"
            exit 0
        fi
    done
    ;;
--print)
    for d in ${TB_CUDA_INCLUDE:+"$TB_CUDA_INCLUDE"} "${toolkits[@]}" "$PWD/$folder/include"; do
        if have "$d"; then
            echo "$d"
            exit 0
        fi
    done
    exit 1
    ;;
--nvcc)
    [ ! -e build/cuda-nvcc/.complete ] || exit 0
    echo "nvcc comes from PyPI wheels (about 100 MB) into build/cuda-nvcc" >&2
    rm -rf build/cuda-nvcc
    pip install -q --no-deps --only-binary :all: --target build/cuda-nvcc -r requirements-nvcc.txt >&2 </dev/null ||
        failed nvcc "the tests that are CUDA programs are left out"
    touch build/cuda-nvcc/.complete
    exit 0
    ;;
--fetch)
    folder=${2:-$folder}
    requirements=${3:-$requirements}
    ;;
*)
    echo "scripts/cuda_headers.sh: unknown argument '$1'" >&2
    exit 2
    ;;
esac

fetch "$folder" "$requirements" "CUDA's headers come (about 15 MB)" || failed "CUDA's headers" "softgpu is left out"
