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

export SOFTGPU_SEED=2
record b 1
cp out a.out
export SOFTGPU_SEED=1 # what is hit by faults below follows from it, too
record a 1
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

# a launch is judged as a whole; these seeds hit the first step, the second, and the fourth, which is a graph's
for seed in 1 2 6; do
    record fault 1 --fault "unit=fma bit=22 rate=1e-3 seed=$seed" --fault-log faults.jsonl --force
    broken=$(sed -n 's/^{"kind":"launch".*"kernel":"\([^"]*\)".*"masked":false.*/\1/p' faults.jsonl | head -n 1)
    [ -n "$broken" ] || fail "there was no fault"
    expect 1 "$TWINBIT" diff a.twinbit fault.twinbit
    matches out "^ *kernel +$broken\$"
    matches out "^ *event +0/.*/$broken#0\$"
    echo "ok: named $broken in step $(sed -n 's#^ *event  *0/[^/]*/[^/]*/\([0-9]*\)/.*#\1#p' out)"
done
event=$(sed -n 's#^ *event  *0/tinygrad_fit.py/main/##p' out)
[[ $event == 3/* ]] || fail "no fault in a graph: '$event'"

# nodes of graphs are not kept; tinygrad can do without graphs, and then steps that it replays have elements, too
export JIT=2
kept=(--force)
for step in 2 3 4; do kept+=(--snapshot "$step/${event#*/}"); done
record a 1 "${kept[@]}"
record fault 1 --fault "unit=fma bit=22 rate=1e-3 seed=$seed" "${kept[@]}"
expect 1 "$TWINBIT" diff a.twinbit fault.twinbit
matches out "^ *event +0/tinygrad_fit.py/main/[2-4]/${event#*/}\$"
matches out '^ *elements +[12] of 2 differ; first: '
