#!/bin/bash
# demo.sh - the whole thing once: five causes are planted in a training job, and twinbit names each.
#
#   examples/gpt_char/demo.sh [-o FOLDER] [CAUSE...]
#
# For each cause the job runs twice, unedited, under `twinbit run`; `twinbit diff` names the first event that
# parts the runs; a second pair, with that event's tensors kept, gives the element and its bits; check.py
# compares the report with the truth, which the job wrote down itself. Seeds and places are drawn anew each
# time. Exit status: 0 all were named, 1 one was not, 2 it could not be run.
# Environment: TWINBIT (build/dev/bin/twinbit), PYTHON (.venv/bin/python).
set -u

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
TWINBIT=${TWINBIT:-$top/build/dev/bin/twinbit}
PYTHON=${PYTHON:-${TWINBIT_PYTHON:-$top/.venv/bin/python}}
folder=
if [ "${1:-}" = -o ]; then
    folder=${2:?-o needs a folder}
    shift 2
fi
[ $# -gt 0 ] || set -- threads dropout order flip-inside flip-after
[ -x "$TWINBIT" ] || { echo "demo.sh: no program at '$TWINBIT': build it first" >&2; exit 2; }
command -v "$PYTHON" >/dev/null || { echo "demo.sh: no python at '$PYTHON'" >&2; exit 2; }
[ -n "$folder" ] || folder=$(mktemp -d "${TMPDIR:-/tmp}/twinbit-demo.XXXXXX")
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

# record RUN THREADS OPTION... - one run in $work/RUN, traced to $work/RUN.twinbit
record() {
    local run=$1 threads=$2
    shift 2
    (cd "$work/$run" && OMP_NUM_THREADS=$threads "$TWINBIT" run --quiet --force -o "$work/$run.twinbit" "$@" -- \
        "$PYTHON" "$here/train.py" --steps 4 --seed "$seed" --plant "$cause" --truth truth.json >log 2>&1) && return
    echo "demo.sh: the job failed under twinbit:" >&2
    tail -n 15 "$work/$run/log" >&2
    return 1
}

# pair OPTION... - both runs side by side, one core each; the report to $work/report.txt and .json
pair() {
    local first status_a=0 status=0
    [ "$cause" = threads ] && other=2 || other=1
    record a 1 "$@" &
    first=$!
    record b "$other" "$@" || status=1
    wait "$first" || status_a=1
    [ $status -eq 0 ] && [ $status_a -eq 0 ] || return 2
    "$TWINBIT" diff "$work/a.twinbit" "$work/b.twinbit" >"$work/report.txt" || status=$?
    "$TWINBIT" diff --json "$work/a.twinbit" "$work/b.twinbit" >"$work/report.json"
    [ $status -eq 1 ] && return
    echo "demo.sh: twinbit diff ended with status $status, expected 1:" >&2
    cat "$work/report.txt" >&2
    return 1
}

# pin - the second pair has to strike where the first one did
pin() {
    case $cause in
    flip-*)
        "$PYTHON" - "$work/b" <<'END'
import json, sys
t = json.load(open(sys.argv[1] + "/truth.json"))
json.dump({k: t[k] for k in ("step", "module", "index", "bit", "way")}, open(sys.argv[1] + "/place.json", "w"))
END
        ;;
    esac
}

one_cause() {
    local inputs=() event
    work=$folder/$cause
    rm -rf "$work"
    mkdir -p "$work/a" "$work/b"
    seed=$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')
    echo '{"strike": false}' >"$work/a/place.json"
    [ "$cause" = flip-after ] && inputs=(--inputs)
    pair ${inputs[@]+"${inputs[@]}"} || return
    if [ "$cause" != order ] && [ "$cause" != dropout ]; then # these two are not about a tensor's elements
        event=$("$PYTHON" "$here/check.py" event "$work/report.json") || return
        pin
        pair ${inputs[@]+"${inputs[@]}"} --snapshot "$event" || return
    fi
    "$PYTHON" "$here/check.py" "$cause" "$work/a" "$work/b" "$work/report.json"
}

echo "Five causes that make two runs of one training job differ; each is planted, recorded twice, and looked for."
echo "A line '[index]  A | B' gives the first differing element and its bits in run A and run B."
echo
named=0
tried=0
for cause; do
    tried=$((tried + 1))
    one_cause && named=$((named + 1))
    last=$folder/$cause/report.txt
done
echo
echo "twinbit diff, as it ends for the last of them:"
echo
[ -f "$last" ] && sed -e "s#$folder/##g" -e "s#$top/##g" -e 's/^/    /' "$last"
echo
echo "$named of $tried causes were named exactly; traces and reports: $folder"
[ "$named" -eq "$tried" ]
