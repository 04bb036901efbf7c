#!/bin/bash
# Makes .venv with the pinned requirements, unless TWINBIT_PYTHON says otherwise; prints the python to use
# as the last line of its output.
#
# TWINBIT_PYTHON=/path/to/python  that one is used, nothing is installed
# TWINBIT_PYTHON=none             no python: what needs it is skipped
set -eu
cd "$(dirname "$0")/.."

case ${TWINBIT_PYTHON:-} in
"") ;;
none)
    echo none
    exit 0
    ;;
*)
    python=$(command -v "$TWINBIT_PYTHON") || {
        echo "cannot run TWINBIT_PYTHON='$TWINBIT_PYTHON'" >&2
        exit 1
    }
    realdir=$(cd "$(dirname "$python")" && pwd)
    echo "$realdir/$(basename "$python")"
    exit 0
    ;;
esac

stamp=.venv/twinbit-requirements
want=$(cat requirements.txt requirements-lock.txt | sha256sum)
if [ "$(cat $stamp 2>/dev/null)" != "$want" ]; then
    scripts/packages.sh python >&2
    {
        echo "python packages (torch, numpy, transformers, accelerate) go into .venv: about 3 GB to fetch,"
        echo "6 GB on disk, some minutes; TWINBIT_PYTHON=/path/to/python uses yours instead, and"
        echo "TWINBIT_PYTHON=none does without"
        [ -x .venv/bin/python ] || python3 -m venv .venv
        .venv/bin/python -m pip install --disable-pip-version-check --no-input -q -r requirements.txt
    } >&2 </dev/null
    echo "$want" >$stamp
fi
echo "$PWD/.venv/bin/python"
