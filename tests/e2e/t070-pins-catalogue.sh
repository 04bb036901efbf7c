# The catalogue of pins: list, profiles, whole rows, JSON by its schema, ids that do not exist.
expect 0 tb pins
lines err 0
cp out all
matches all '^  python\.hashseed +env +basic +order of sets'
matches all '^  cuda\.launch_blocking +env +alone +'
matches all '^  nccl\.ranks +none +strict +'
matches all '^  system\.syscalls +process +alone +'
[ "$(head -n 1 all)" = "Python and NumPy" ] || fail "the first line is no title"
rows=$(grep -c '^  [a-z][a-z0-9]*\.[a-z0-9_]* ' all)
[ "$rows" -ge 45 ] || fail "$rows pins"
[ "$(grep -c '^\[pin ' "$TB_SOURCE_DIR/deterministic/pins.txt")" -eq "$rows" ] || fail "the list is not the file"
# a title, its rows, an empty line
[ "$(grep -vc '^  ' all)" -eq "$(($(grep -c '^[A-Z]' all) * 2 - 1))" ] || fail "the groups"

# nothing is claimed that is not so
expect 0 tb pins system.rdtsc
contains out "  mechanism  none: nothing is known that sets it: it can only be seen"
contains out "prctl(PR_SET_TSC) is not used on purpose: each read would be a signal"
lacks out "  missing    "

# profiles: each holds more than the one before; its values stand in the list
last=0
for profile in basic strict; do
    expect 0 tb pins --profile $profile
    n=$(grep -c '^  ' out)
    [ "$n" -gt $last ] || fail "$profile holds $n pins, the one before it $last"
    last=$n
done
matches out '^  cuda\.cublas_workspace +:4096:8 +'
matches out '^  torch\.seed +@seed +'
lacks out "cuda.launch_blocking"
expect 0 tb pins -p portable
matches out '^  cpu\.mkl_cbwr +COMPATIBLE +'
expect 0 tb pins -p observe
[ "$(grep -c '^  ' out)" -eq "$rows" ] || fail "observe does not see all"
[ "$(grep '^  ' out | awk '{ print $2 }' | sort -u | tr '\n' ' ')" = "@log @read " ] || fail "observe sets something"
expect 2 tb pins -p fast
lines out 0
contains err "expected observe|basic|strict|portable"

# rows whole, in the order asked for; a conflict is told of at both ends
expect 0 tb pins system.timezone torch.tf32_matmul
lines err 0
[ "$(head -n 1 out)" = "system.timezone" ] || fail "the order of rows"
contains out "  sets       TZ"
contains out "  basic      UTC0"
matches out '^  observe    @read: nothing is set'
contains out "  conflict   pin cuda.tf32_override: "
expect 0 tb pins torch.warn_only
contains out "  conflict   pin torch.deterministic: "
contains out "  strict     left alone"
contains out "  alone      True"
expect 0 tb pins -p strict torch.deterministic
contains out "  strict     True"
lacks out "  basic "
expect 0 tb pins compile.xla
matches out '^  strict     @add --xla_gpu_deterministic_ops=true: '

# every row can be shown
for id in $(awk '/^  / { print $1 }' all); do
    "$TWINBIT" pins "$id" >row || fail "no row '$id'"
    contains row "  confirmed  "
    contains row "  source     "
done

# an id that does not exist: nothing on stdout, those near it
bad() {
    expect 2 tb pins "$@"
    lines out 0
    lines err 1
    contains err "pins: unknown pin '"
}
bad python.hashsed
contains err "near it: python.hashseed"
bad system.timezone CUBLAS_WORKSPACE_CONFIG
contains err "near it: cuda.cublas_workspace"
bad no-such-thing-at-all
contains err "pins: unknown pin 'no-such-thing-at-all' ('twinbit pins' lists them)"
bad ""

# JSON
if command -v python3 >/dev/null; then
    expect 0 tb pins --json
    cp out all.json
    expect 0 tb pins --json --profile basic
    cp out basic.json
    expect 0 tb pins --json nccl.algo torch.tf32_cudnn
    cp out two.json
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$TB_SOURCE_DIR/tests/diff" python3 - \
        "$TB_SOURCE_DIR/docs/pins.schema.json" "$rows" <<'END' || fail "JSON"
import check_schema, copy, json, sys
schema = json.load(open(sys.argv[1]))
docs = {name: json.load(open(name + ".json")) for name in ("all", "basic", "two")}
for name, doc in docs.items():
    assert not check_schema.errors(doc, schema, schema), (name, check_schema.errors(doc, schema, schema))
assert len(docs["all"]["pins"]) == int(sys.argv[2]) and docs["all"]["profile"] is None
assert docs["basic"]["profile"] == "basic" and all(p["values"]["basic"] for p in docs["basic"]["pins"])
assert [p["id"] for p in docs["two"]["pins"]] == ["nccl.algo", "torch.tf32_cudnn"]
ids = {p["id"] for p in docs["all"]["pins"]}
told = {(p["id"], c["other"]) for p in docs["all"]["pins"] for c in p["conflicts"] if c["with"] == "pin"}
assert told and all((b, a) in told and b in ids for a, b in told), told
words = {w["name"] for w in docs["all"]["words"]}
values = {v for p in docs["all"]["pins"] for v in p["values"].values() if v and v.startswith("@")}
assert values and {v[1:].split()[0] for v in values} <= words
# the schema can fail: each key of a row taken out, a value that no profile has
for key in schema["$defs"]["pin"]["required"]:
    wrong = copy.deepcopy(docs["two"])
    del wrong["pins"][1][key]
    assert check_schema.errors(wrong, schema, schema), key
wrong = copy.deepcopy(docs["two"])
wrong["pins"][0]["values"]["observe"] = "Ring"
assert check_schema.errors(wrong, schema, schema)
END
fi
