#!/bin/bash
# demo.sh - what twinbit says of a GPU job: that it repeats itself, where it does not, and which kernel a
# broken multiprocessor spoilt.
#
#   examples/cuda_gpt/demo.sh [-o FOLDER]
#
# The job is cuda_gpt, unedited, with all its launches recorded. On the machine's GPU if there is one, else on
# the software device, whose seed stands for the chance of a GPU's schedule, and where one multiprocessor can
# be broken. Each report is checked against what is known: the kernel that was asked to use atomics, and
# the device's own log of faults.
# Exit status: 0 all was as said, 1 something was not, 2 it could not be run.
# Environment: BUILD (build/dev), DEVICE (host or softgpu), JOB (options of cuda_gpt), RATE (of the broken
# multiprocessor's faults, 1e-7).
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/examples/demo_lib.sh"
demo_begin "$top" "$@"

program=("$BUILD/bin/cuda_gpt")
shown=cuda_gpt
[ -x "${program[0]}" ] ||
    die "no program at '${program[0]}': it needs nvcc: scripts/cuda_headers.sh --nvcc, then make demo-gpu"
if [ "$DEVICE" = softgpu ]; then
    read -ra job <<<"${JOB:---layers 1 --batch 4 --steps 3}"
else
    read -ra job <<<"${JOB:---preset gpu --steps 3}"
fi
RATE=${RATE:-1e-7}

echo "1. Sums in a fixed order: two runs$([ "$DEVICE" = softgpu ] && echo ", each under a schedule of its own")."
echo
show_same

echo "2. Layer norm's gradients are summed with atomicAdd: two runs."
echo
show_order layernorm_backward_params_atomic --atomics layernorm

if [ "$DEVICE" = softgpu ]; then
    echo "3. Multiprocessor 3 is broken: it flips a bit of a result now and then. Against run same-a."
    echo
    show_fault
fi
demo_end
