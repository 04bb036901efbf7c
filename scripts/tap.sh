#!/bin/bash
# Has the torch tap compiled and cached for $TWINBIT_PYTHON's torch, and says what else is not as it should be.
#
# usage: scripts/tap.sh BUILD
set -eu

[ "${TWINBIT_PYTHON:-}" != none ] || exit 0
"$1/bin/twinbit" doctor </dev/null | grep -v '^ok ' || true
