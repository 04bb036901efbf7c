#!/bin/bash
# demo.sh - the same as cuda_gpt's demo on a framework: what twinbit says of a GPT that trains with tinygrad.
#
#   examples/tinygrad_gpt/demo.sh [-o FOLDER]
#
# tinygrad is the one of requirements-clients.txt, unmodified; scripts/clients.sh installs it. The job runs on the
# machine's GPU if there is one, else on the software device, whose seed stands for the chance of a GPU's schedule,
# and where one multiprocessor can be broken. Each report is checked against what is known: the kernel that was asked
# to use atomics, and the device's own log of faults.
# Exit status: 0 all was as said, 1 something was not, 2 it could not be run.
# Environment: BUILD (build/dev), DEVICE (host or softgpu), JOB (options of train.py), RATE (of the broken
# multiprocessor's faults, 1e-6), TWINBIT_PYTHON (as for scripts/clients.sh).
set -u

top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/examples/demo_lib.sh"
demo_begin "$top" "$@"

python=$("$top/scripts/clients.sh") ||
    die "no tinygrad, for the reason above: it takes a Python with venv and pip, which TWINBIT_PYTHON may name, and PyPI"
python=$(tail -n 1 <<<"$python")
program=("$python" "$top/examples/tinygrad_gpt/train.py")
shown="python train.py"
read -ra job <<<"${JOB:-}"
RATE=${RATE:-1e-6}

# PARALLEL=0: no workers, which start slowly; NO_MEMORY_PLANNER=1: each tensor has an allocation of its own, so that
# elements are counted from its beginning; PYTHONPATH: the package of twinbit.step()
export DEV=CUDA:PTX PARALLEL=0 NO_MEMORY_PLANNER=1 PYTHONPATH=$BUILD/lib/twinbit/python
export CACHEDB=$folder/tinygrad.db
echo "In the environment: DEV=$DEV PARALLEL=0 NO_MEMORY_PLANNER=1 PYTHONPATH=${PYTHONPATH#"$top/"}"
echo "Each run takes a quarter of a minute, in which tinygrad mostly compiles."
echo

echo "1. tinygrad as it is: two runs$([ "$DEVICE" = softgpu ] && echo ", each under a schedule of its own")."
echo
show_same

echo "2. The gradient of the embedding is summed by atomics, in a kernel of the job's own: two runs."
echo
show_order embedding_grad_atomic --atomics

if [ "$DEVICE" = softgpu ]; then
    echo "3. Multiprocessor 3 is broken: it flips a bit of a result now and then. Against run same-a."
    echo
    show_fault
fi
demo_end
