#!/bin/bash
# Runs ctest in a build folder and ends on its closing line, skipped tests listed before it.
#
# usage: scripts/test.sh BUILD CTEST-OPTIONS...
set -eu

build=$1
shift
# ctest lists skipped and failed tests after its closing lines; here they come before.
closing_last() {
    local line total="" closing=""
    while IFS= read -r line; do # not awk: mawk reads ahead
        case $line in
        *" tests passed, "*" tests failed out of "*) closing=$line ;;
        "Total Test time (real)"*) total=$line ;;
        *) printf '%s\n' "$line" ;;
        esac
    done
    printf '%s\n' ${total:+"$total"} ${closing:+"$closing"}
}

ctest --test-dir "$build" --no-tests=error --output-on-failure -j2 "$@" </dev/null | closing_last
exit "${PIPESTATUS[0]}"
