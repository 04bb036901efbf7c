#!/bin/bash
# Runs ctest in a build folder and ends on its closing line, skipped tests listed before it.
#
# usage: scripts/test.sh BUILD CTEST-OPTIONS...
set -eu

build=$1
shift
# ctest lists skipped tests after its closing lines; here they come first.
ctest --test-dir "$build" --no-tests=error --output-on-failure -j2 "$@" </dev/null | awk '
    / tests passed, .* tests failed out of / { closing = $0; next }
    /^Total Test time \(real\)/ { total = $0; next }
    { print; fflush() }
    END { if (total != "") print total; if (closing != "") print closing }'
exit "${PIPESTATUS[0]}"
