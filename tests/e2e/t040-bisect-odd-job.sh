# labels: torch
# timeout: 900
# bisect: finds a step that differs from run to run, closes in on it, shows both values of one pair.
export TMPDIR=$PWD/tmp
mkdir tmp

expect 2 tb bisect
contains err "no command to run"
expect 2 tb bisect --pairs 0 -- true
expect 2 tb bisect -- ./absent
contains err "./absent"
lines out 0
expect 3 tb bisect --pairs 1 -- true
contains out "no two of 2 runs are known to differ"
expect 130 tb bisect -- sh -c 'kill -INT $$'
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"

need_torch
cp "$TB_SOURCE_DIR/tests/cli/job.py" .
expect 0 tb bisect --pairs 1 -- "$PYTHON" job.py
same out <<'END'
bisect: no two of 2 runs differed
END
contains err "0.06"

expect 1 tb bisect --pairs 2 --keep kept --json -- "$PYTHON" job.py odd
cp out report.json
"$PYTHON" - <<'END'
import json
d = json.load(open("report.json"))
assert d["verdict"] == "diverged" and d["level"] == "op", d
a, b = d["pair"]
assert a < b <= d["runs"], d
print(a, b, file=open("pair", "w"))
END
read -r a b <pair
[ -f kept/run-$a.twinbit ] && [ -f kept/run-$b.twinbit ] || fail "not kept: $(ls kept)"
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"

# the pair itself has both values
expect 1 tb diff kept/run-$a.twinbit kept/run-$b.twinbit
contains out "first: step 2"
contains out "host value"
matches out 'A +[-0-9.e]+ +0x[0-9a-f]{8}'
matches out 'B +[-0-9.e]+ +0x[0-9a-f]{8}'
matches out 'XOR +0x[0-9a-f]{8}'
