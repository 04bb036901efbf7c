# timeout: 1200
# bisect-pins: the smallest set of pins that makes a job repeat itself, how sure that is, and what it cannot mend.
export TMPDIR=$PWD/tmp
mkdir tmp
unset TZ
bp() { "$TWINBIT" bisect-pins "$@"; }
# found PIN... - the report names exactly these, and the line to copy
found() {
    local list
    list=$(printf '%s,' "$@")
    matches out "^found: $# of [0-9]+ pins make"
    contains out "use: twinbit run --pin ${list%,} -- CMD"
}

expect 2 bp
contains err "no command to run"
expect 2 bp -n 1 -- true
expect 2 bp --max-runs 9 -- true
expect 2 bp --pin observe -- true
contains err "no pin is named that this version can set"
expect 2 bp --pin torch.sed -- true
contains err "was 'torch.seed' meant?"
expect 2 bp -- ./absent
contains err "bisect-pins: cannot run './absent'"
lines out 0

# a job that repeats itself: what that excludes
expect 0 bp -- echo same
same out <<'END'
repeats itself without pins: 5 runs are the same
confidence: had 53 % of its runs or more differed, that would have been seen (95 %); --repeats N looks longer
5 runs, compared by what they print, and status
END
lines err 0
expect 0 bp -n 12 -- sh -c 'echo "no such file" >&2; exit 3'
contains out "without pins the job ends with status 3: no such file"
head -n 1 out >first
contains first "fails each time, with status 3, and repeats itself so without pins: 12 runs are the same"
contains out "had 24 % of its runs"
expect 3 bp --compare trace -- echo same
contains out "not known: nothing was recorded of the job"

# interrupted: what is known so far, and nothing is left behind
expect 130 bp -- sh -c 'echo run >>count; [ $(wc -l <count) -lt 4 ] || kill -INT $$; cat count'
contains out "not known: it was stopped"
contains out "without pins: 2 of 3 runs differ from the commonest result; first: one run printed 1 line, the other more"
rm count

# no pin mends a clock, nor a status of its own
expect 1 bp --pin strict -- date +%N
contains out "none: runs differ with all "
matches out "^with all pins: line 1 of the output: '[0-9]+', '[0-9]+'$"
expect 1 bp --pin basic -- sh -c 'echo run >>statuses; exit $(($(wc -l <statuses) % 3))'
contains out "without pins: "
contains out "first: status 1, 2"
rm statuses

# the environment: a job whose zone is not set counts its runs
cat >zone.sh <<'END'
n=$(($(cat n 2>/dev/null || echo 0) + 1))
echo $n >n
if [ "${TZ:-}" != UTC0 ] && [ $((n % ${1:-1})) -eq 0 ]; then echo "zone $n"; else echo fixed; fi
END
expect 0 bp --pin basic --rounds 2 -- sh zone.sh
found system.timezone
matches out '^  system\.timezone +UTC0 +[0-9.]+x \([0-9.]+\.\.[0-9.]+\) +what local time is$'
contains out "without pins: 7 of 8 runs differ"
contains out "with a set 5 runs must be equal; one that does not help passes that with a chance of 4.9 % at most; the set that was found passed twice"
matches out '^[0-9]+ runs, compared by what they print, and status$'
[ "$(cut -d' ' -f1 out | tail -n 1)" -eq "$(cat n)" ] || fail "the runs are counted wrongly"

# it differs in one run of four: more runs must be equal, as far as --max-runs has room for them
rm n
expect 0 bp --pin system.timezone,system.umask --rounds 0 --max-runs 400 -- sh zone.sh 4
found system.timezone
contains out "without pins: 5 of 20 runs differ"
contains out "with a set 29 runs must be equal"
lacks out "has no room"
rm n
expect 0 bp --pin system.timezone,system.umask --rounds 0 --max-runs 100 -- sh zone.sh 4
contains out "with a set 9 runs must be equal"
contains out "--max-runs 100 has no room for more; 5 % takes 29 runs each"
rm n
expect 0 bp --pin basic --max-runs 16 -- sh zone.sh
contains out "it was stopped before fewer could be tried"
contains out "--max-runs 16 is reached"
rm n
expect 3 bp --pin basic --max-runs 10 -- sh zone.sh
contains out "not known: it was stopped"

# a pin with which the job fails is left out, with the job's own words; two that fail only together
cat >fails.sh <<'END'
echo run >>n
if [ "${NCCL_ALGO:-}" = Ring ]; then echo "ring is not here" >&2; exit 1; fi
[ "${TZ:-}" = UTC0 ] || wc -l <n
END
expect 0 bp --pin basic,nccl.algo,nccl.proto --rounds 0 -- sh fails.sh
found system.timezone
contains out "pin nccl.algo makes the job fail (status 1: 'ring is not here'): it is left out"
sed -i 's/Ring ]/Ring ] \&\& [ "${NCCL_PROTO:-}" = Simple ]/' fails.sh
expect 0 bp --pin basic,nccl.algo,nccl.proto --rounds 0 -- sh fails.sh
found system.timezone
matches out "^pin nccl\.(algo|proto) makes the job fail"
expect 1 bp --pin system.timezone --rounds 0 -- sh -c '[ -z "${TZ:-}" ] || exit 4; date +%N'
contains out "none: the job fails with the pins that were tried"
contains out "pin system.timezone makes the job fail (status 4: '"
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"

need_python
# the order of a set
expect 0 bp --rounds 0 -- "$PYTHON" -c 'print({"alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"})'
found python.hashseed

# two that are needed together, the cost of each and of both; JSON by its schema, which can fail
cat >two.py <<'END'
import random
print(hash("twinbit"), random.random())
END
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$TB_SOURCE_DIR/tests/diff" "$PYTHON" - "$TWINBIT" \
    "$TB_SOURCE_DIR/docs/bisect-pins.schema.json" <<'END' || fail "JSON"
import check_schema, copy, json, subprocess, sys
program, schema = sys.argv[1], json.load(open(sys.argv[2]))

def report(status, *args):
    done = subprocess.run([program, "bisect-pins", "--json", *args], stdout=subprocess.PIPE)
    assert done.returncode == status, done
    doc = json.loads(done.stdout)
    assert not check_schema.errors(doc, schema, schema), check_schema.errors(doc, schema, schema)
    assert doc["status"] == status
    return doc

two = report(0, "--pin", "basic", "--rounds", "3", "--", sys.executable, "two.py")
assert [p["pin"] for p in two["pins"]] == ["python.hashseed", "python.random"], two
assert two["option"] == "--pin python.hashseed,python.random" and two["smallest"] and two["confirmed"]
assert two["verdict"] == "found" and two["compared"] == "output" and two["without"] == dict(
    two["without"], runs=8, commonest=1)
for cost in [two["together"]] + [p["wall"] for p in two["pins"]]:
    assert 0.1 < cost["low"] <= cost["ratio"] <= cost["high"] < 10, cost
same = report(0, "--", "echo", "same")
assert same["verdict"] == "repeats" and same["pins"] == [] and abs(same["confidence"]["excluded"] - 0.527) < 0.001
assert same["without"]["status"] == 0
none = report(1, "--pin", "basic", "--", "date", "+%N")
assert none["verdict"] == "none" and none["difference"].startswith("line 1 of the output: ")
for key in schema["required"]:
    wrong = copy.deepcopy(two)
    del wrong[key]
    assert check_schema.errors(wrong, schema, schema), key
END
"$TWINBIT" run --quiet --force -o t.twinbit --pin python.hashseed,python.random -- "$PYTHON" two.py >a
"$TWINBIT" run --quiet --force -o t.twinbit --pin python.hashseed,python.random -- "$PYTHON" two.py >b
cmp a b || fail "what it said does not do"

# the job seeds itself: its seed wins, which is named; forced, the pin does it
printf 'import random, time\nrandom.seed(time.time_ns())\nprint(random.random())\n' >own.py
expect 1 bp --pin basic -- "$PYTHON" own.py
matches out '^pin python\.random [0-9]+: the job has a value of its own, which wins at own\.py:2$'
expect 0 bp --pin basic --rounds 0 --force-pins -- "$PYTHON" own.py
contains out "use: twinbit run --pin python.random --force-pins -- CMD"
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"
