#!/bin/bash
# Runs one program under five seeds of the schedule; the first that does not end with 0 decides.
#
# usage: run.sh BUILD PROGRAM [NAME=VALUE...]   BUILD: a build folder, or none for a real GPU
set -u
build=$1
program=$2
shift 2
for setting in "$@"; do
    export "${setting?}"
done
. "$(dirname "$0")/env.sh"

seeds="1 2 3 4 5"
[ "$build" = none ] && seeds="1"
for seed in $seeds; do
    run_seeded "$seed" "$program"
    status=$?
    if [ $status -ne 0 ]; then
        [ $status -eq 124 ] && echo "$(basename "$program"): still running after a minute"
        [ $status -eq 77 ] || echo "again: LD_LIBRARY_PATH=${LD_LIBRARY_PATH-} SOFTGPU_SEED=$seed $* $program"
        exit $status
    fi
done
