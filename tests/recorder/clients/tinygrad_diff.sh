#!/bin/bash
# tinygrad, recorded: two runs are identical, other data are named as such, and so is a kernel that computed wrong.
set -eu
TB_TEST=recorder.client_tinygrad_diff
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/recorder/clients/lib.sh"
need_clients
export DEV=CUDA:PTX
job=$TB_SOURCE_DIR/tests/recorder/clients/tinygrad_fit.py

# record NAME DATA-SEED OPTION...
record() {
    local name=$1 seed=$2
    shift 2
    expect 0 "$TWINBIT" run --quiet --device softgpu "$@" -o "$name.twinbit" -- "$PYTHON" "$job" "$seed"
}

record a 1
cp out a.out
record b 1
cmp a.out out || fail "the job's output changed"
expect 0 "$TWINBIT" diff a.twinbit b.twinbit
matches out '^IDENTICAL'
expect 0 "$TWINBIT" show a.twinbit steps
matches out ' step 4 '
expect 0 "$TWINBIT" show a.twinbit coverage
lacks out "not covered"

record data 2
expect 1 "$TWINBIT" diff a.twinbit data.twinbit
matches out '^ *cause +input data'

record fault 1 --fault 'unit=fma bit=22 rate=2e-2 seed=1' --fault-log faults.jsonl
broken=$(sed -n 's/.*"kind":"fault".*"kernel":"\([^"]*\)".*/\1/p' faults.jsonl | head -n 1)
[ -n "$broken" ] || fail "there was no fault"
expect 1 "$TWINBIT" diff a.twinbit fault.twinbit
matches out "^ *kernel +$broken\$"
matches out "^ *event +0/.*/$broken#0\$"
echo "ok: named $broken"
