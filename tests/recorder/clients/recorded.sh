#!/bin/bash
# A client from the package index, unmodified, recorded in each way: what ../cuda/recorded.py checks.
#
# usage: TB_SOURCE_DIR=... TB_BUILD_DIR=... recorded.sh [NAME=VALUE...] SCRIPT [ARGUMENT...]
#   EXPECTED_AS=NAME: what expected.txt calls it, the script's name else
# 77: there are no clients here; the reason is printed
set -eu
TB_TEST=recorder.client
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/recorder/clients/lib.sh"
while [[ $1 == [A-Z]*=* ]]; do
    export "${1?}"
    shift
done
script=$1
shift
need_clients
"$PYTHON" "$TB_SOURCE_DIR/tests/recorder/cuda/recorded.py" "$TB_BUILD_DIR" "$folder/traces" \
    "$TB_SOURCE_DIR/tests/recorder/clients/expected.txt" --again --timeout 600 "${EXPECTED_AS:-$(basename "$script" .py)}" -- "$PYTHON" "$script" "$@"
