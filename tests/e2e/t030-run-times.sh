# labels: torch
# timeout: 600
# run -n N: names of the traces; says whether the job repeats itself.

# without anything that can be recorded the answer is "unknown", never "repeatable"
expect 3 tb run --quiet -n 2 -o x.twinbit -- true
matches out '^unknown: of 2 runs none is known to differ'
[ -f x-1.twinbit ] && [ -f x-2.twinbit ] || fail "traces: $(ls)"
expect 125 tb run -n 3 -o x.twinbit -- touch began
contains err "'x-1.twinbit' exists"
[ ! -e began ] || fail "the job was run"
expect 127 tb run -n 3 -- ./absent
# a job that is interrupted ends the series
expect 130 tb run --quiet -n 3 -o i -- sh -c 'echo run >>count; kill -INT $$'
lines count 1
# runs that end differently differ, whatever was recorded
expect 1 tb run --quiet -n 2 -o s -- sh -c 'echo run >>statuses; exit $(wc -l <statuses)'
contains out "run 1 and run 2: status 1 and 2"

need_torch
cp "$TB_SOURCE_DIR/tests/cli/job.py" .
expect 0 tb run -n 2 -- "$PYTHON" job.py
[ -f job-1.twinbit ] && [ -f job-2.twinbit ] || fail "traces: $(ls)"
matches out '^run 1 and run 2: '
matches out '^repeatable: all 2 runs are identical$'
contains err "nothing lost"
expect 0 tb show job-1.twinbit steps
matches out '^job.py step 3 '
expect 1 tb run -n 2 -o odd -- "$PYTHON" job.py odd
matches out '^DIVERGED '
contains out "step 2"
matches out '^not repeatable: of 2 runs some differ$'

# a window: detail in these steps only
expect 0 tb run --steps 1..2 -o window.twinbit -- "$PYTHON" job.py
expect 0 tb show window.twinbit events --op addmm --step 1..2
[ "$(wc -l <out)" -gt 0 ] || fail "no addmm inside the window"
expect 0 tb show window.twinbit events --op addmm --step 0
lines out 0
expect 0 tb show window.twinbit events --op addmm --step 3
lines out 0

# detail that differs alone is no divergence: what both recorded is compared
expect 0 tb run --level boundary -o coarse.twinbit -- "$PYTHON" job.py
expect 0 tb diff job-1.twinbit coarse.twinbit
expect 0 tb diff window.twinbit coarse.twinbit

# a snapshot of nothing is said
expect 0 tb run -o none.twinbit --snapshot '77/forward:/aten::nothing#0' -- "$PYTHON" job.py
contains err "no event matched --snapshot"

# no place for the tap in the user's cache: another one is found, nothing is lost
expect 0 env XDG_CACHE_HOME=/proc TMPDIR="$PWD" "$TWINBIT" run -o cache.twinbit -- "$PYTHON" job.py
lacks err "recorded from Python"
expect 0 tb diff job-1.twinbit cache.twinbit

# closed standard files stay closed
expect 0 sh -c '"$0" run --quiet -o closed.twinbit -- "$1" -c "import os, sys
sys.exit(any(os.path.exists(f\"/proc/self/fd/{n}\") for n in (0, 1, 2)))" <&- >&- 2>&-' "$TWINBIT" "$PYTHON"
