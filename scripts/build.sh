#!/bin/bash
# Configures and builds a preset with Ninja if it is there, else make.
#
# usage: scripts/build.sh [PRESET]   dev (default), release, asan, tsan; the result is in build/PRESET
set -eu
cd "$(dirname "$0")/.."

preset=${1:-dev}
scripts/cuda_headers.sh || echo "scripts/build.sh: going on without softgpu" >&2
if [ ! -f "build/$preset/CMakeCache.txt" ]; then
    if command -v ninja >/dev/null; then
        cmake --preset "$preset" -G Ninja
    else
        cmake --preset "$preset" -G "Unix Makefiles"
    fi
fi
cmake --build "build/$preset" -j "$(nproc)"
