#!/bin/bash
# A Python script on the software device, unchanged PyTorch below it.
#
# usage: TB_SOURCE_DIR=... TB_BUILD_DIR=... run.sh [--needs MODULE] [OPTIONS of softgpu run] SCRIPT [ARGUMENTS]
# The script says what it checked, a line each, and fails by an exception.
set -eu
TB_TEST=softgpu.torch
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/softgpu/torch/lib.sh"
options=()
while [ "${1#--}" != "$1" ]; do
    case $1 in
    --needs)
        need_module "$2"
        need_program gcc # Triton compiles its launchers
        shift 2
        ;;
    --eager)
        options+=("$1")
        shift
        ;;
    *)
        options+=("$1" "$2")
        shift 2
        ;;
    esac
done
TB_TEST=softgpu.torch_$(basename "$1" .py)
script=$TB_SOURCE_DIR/tests/softgpu/torch/$1
shift
need_softgpu
in_folder
expect 0 softgpu run "${options[@]+"${options[@]}"}" -- "$PYTHON" "$script" "$@"
cat out
[ -s out ] || fail "nothing was checked"
