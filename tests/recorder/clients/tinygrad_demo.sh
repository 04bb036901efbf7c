#!/bin/bash
# examples/tinygrad_gpt: the demo says what it should of real runs, the job's bits are those of a run without twinbit,
# the kernel with atomics computes the gradient that tinygrad does, and a demo that cannot run says what it takes.
set -eu
TB_TEST=recorder.client_tinygrad_demo
. "$TB_SOURCE_DIR/tests/e2e/lib.sh"
. "$TB_SOURCE_DIR/tests/recorder/clients/lib.sh"
demo=$TB_SOURCE_DIR/examples/tinygrad_gpt/demo.sh
export BUILD=$TB_BUILD_DIR DEVICE=softgpu

TWINBIT_PYTHON=none expect 2 "$demo"
contains err "no clients: TWINBIT_PYTHON=none"
contains err "TWINBIT_PYTHON may name"
BUILD=/nowhere expect 2 "$demo"
contains err "build it first"

need_clients
expect 0 "$demo" -o "$folder/demo"
cp out demo.out
lacks demo.out WRONG
[ "$(grep -c '^=> as it should be: ' demo.out)" -eq 3 ] || fail "not three statements"
matches demo.out '^  IDENTICAL  [1-9][0-9]{2,} events are equal, nothing was lost$'
matches demo.out '^ *cause +accumulation order$'
matches demo.out '^ *event +0/train.py/main/0/forward:/embedding_grad_atomic#0$'
matches demo.out '^ *launch +grid 80,1,1, block 80,1,1, '
matches demo.out '^ *elements +[1-9][0-9]* of 3200 differ; first: [0-9]+ = \[[0-9]+\]$'

# a kernel that went wrong has few wrong elements, and the multiprocessor was the third
matches demo.out '^ *elements +[1-9] of [0-9]+ differ; first: '
matches demo.out '"kind":"fault",.*"sm":3,'

# kernels in tinygrad's graphs have names of their own, in the step that is replayed
expect 0 "$TWINBIT" show demo/order-a.twinbit events --step 2
matches out ' 0/train.py/main/2/forward:/embedding_grad_atomic#0 '
matches out ' 0/train.py/main/2/forward:/graph#[0-9]+ '

expect 0 "$TB_BUILD_DIR/bin/softgpu" run -- env DEV=CUDA:PTX "$PYTHON" "$TB_SOURCE_DIR/examples/tinygrad_gpt/train.py"
cmp out demo/same-b.log || fail "another output without twinbit"

# the same sums in another order: losses to 1e-5
losses() { sed -n 's/^step [0-9]* loss //p' "$1"; }
paste <(losses demo/same-b.log) <(losses demo/order-b.log) |
    awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) bad++ } END { exit !(NR == 3 && !bad) }' ||
    fail "the kernel with atomics computes another gradient: $(paste demo/same-b.log demo/order-b.log)"
echo "ok"
