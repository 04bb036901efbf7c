# labels: torch
# timeout: 300
# pins --verify: a row for each pin of the catalogue, requested against observed, and why one is not held.
export TMPDIR=$PWD/tmp
mkdir tmp
tb pins >all
rows=$(grep -c '^  [a-z][a-z0-9]*\.[a-z0-9_]* ' all)

# row ID - its line of ./out
row() { grep -E "^[a-z]+ +$1 " out >row || fail "no row of '$1'"; }
# verify STATUS ARGS... - ASLR may be refused in a container: that alone makes 1 of 0
verify() {
    local want=$1 got=0
    shift
    tb pins --verify "$@" >out 2>err || got=$?
    if [ "$want" -eq 0 ] && grep -q '^refused  *system.aslr ' out && ! grep -qE '^(missed|changed)' out; then want=1; fi
    if [ "$got" -ne "$want" ]; then
        cat out err >&2
        fail "status $got, expected $want: $*"
    fi
    [ "$(grep -cE '^[a-z]+ +[a-z0-9]+\.[a-z0-9_]+ ' out)" -eq "$rows" ] || fail "$* does not print $rows rows"
}

# a job of the caller's: what it prints goes to stderr
verify 0 -- sh -c 'echo "I am $NCCL_ALGO"; sleep 0.5' # long enough to be looked at
contains err "I am Ring"
lacks out "I am"
row system.umask
matches row '^held +system\.umask +022 +022$'
row cuda.cublas_atomics
matches row '^unseen +cuda\.cublas_atomics +NOT_ALLOWED +- +[a-z]'
row torch.deterministic
matches row '^unseen +torch\.deterministic +True +- +nothing in the job used it, or could tell$'
row nccl.ranks
matches row "^unseen .*@log .*nothing in the job showed it$"
row cuda.launch_blocking
matches row '^unasked .*profile strict leaves it alone$'
matches out '^strict: .*[0-9]+ held, .*[0-9]+ unseen, [0-9]+ unasked$'
verify 0 -p observe -- true
lacks out "held  "
row system.timezone
matches row '^(read|unseen) '

# the environment's own value wins, and is told
TZ=Asia/Tokyo verify 0 -p basic -- true
row system.timezone
matches row '^job +system\.timezone +UTC0 +Asia/Tokyo +the job has a value of its own, which wins$'

# what goes wrong
expect 2 tb pins --verify -- ./absent
contains err "pins: cannot run './absent'"
expect 2 tb pins --verify -p fast
verify 0 -- sh -c 'exit 3'
contains err "pins: the job ended with status 3"
TWINBIT_PYTHON=none verify 0
contains err "pins: no python was found: the job is /bin/true"
row torch.seed
contains row "no python was found"
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"

need_python
export TWINBIT_PYTHON=$PYTHON
verify 0 -- "$PYTHON" -c 1
row nccl.algo
matches row '^given +nccl\.algo +Ring +Ring +no collective of NCCL told'
row nccl.buffer
matches row '^read '
row cpu.mkl_cbwr
matches row '^given +cpu\.mkl_cbwr .* its library cannot be asked'
verify 1 -p basic -- "$PYTHON" -R -c 1
row python.hashseed
matches row '^missed +python\.hashseed +0 +random +it was set, and something else was seen$'
printf 'import random\nrandom.seed(7)\n' >seeds.py
verify 0 -- "$PYTHON" seeds.py
row python.random
matches row '^job +python\.random .* 7 +the job has a value of its own, which wins at seeds\.py:2$'

# our job in a python without packages
"$PYTHON" -m venv --without-pip bare
TWINBIT_PYTHON=$PWD/bare/bin/python verify 0
row python.random
matches row '^held '
row python.numpy_legacy
contains row "numpy is not installed"
row data.base_seed
contains row "torch is not installed"

# JSON by its schema, which can fail
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$TB_SOURCE_DIR/tests/diff" "$PYTHON" - "$TWINBIT" \
    "$TB_SOURCE_DIR/docs/pins-verify.schema.json" "$rows" <<'END' || fail "JSON"
import check_schema, copy, json, subprocess, sys
program, schema, rows = sys.argv[1], json.load(open(sys.argv[2])), int(sys.argv[3])
done = subprocess.run([program, "pins", "--verify", "--json", "--", sys.executable, "-c", "1"], stdout=subprocess.PIPE)
doc = json.loads(done.stdout)
assert not check_schema.errors(doc, schema, schema), check_schema.errors(doc, schema, schema)
assert doc["status"] == done.returncode and doc["profile"] == "strict" and len(doc["pins"]) == rows
pins = {p["pin"]: p for p in doc["pins"]}
assert pins["nccl.algo"]["state"] == "given" and pins["nccl.algo"]["observed"] == "Ring"
assert pins["cuda.launch_blocking"]["requested"] is None
for key in schema["$defs"]["pin"]["required"]:
    wrong = copy.deepcopy(doc)
    del wrong["pins"][1][key]
    assert check_schema.errors(wrong, schema, schema), key
wrong = copy.deepcopy(doc)
wrong["pins"][0]["state"] = "fine"
assert check_schema.errors(wrong, schema, schema)
END

# our job with torch: every pin of torch on the CPU is seen to hold
need_torch
verify 0
for id in python.hashseed python.random torch.seed torch.deterministic torch.fill torch.mkldnn_deterministic \
    data.base_seed data.worker_numpy data.sampler data.in_order cpu.torch_threads cpu.omp_dynamic; do
    row $id
    matches row '^held '
done
if "$PYTHON" -c 'import sys, torch; sys.exit(torch.cuda.is_available())'; then
    row torch.seed_cuda
    contains row "torch has no GPU to use"
fi
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"
