# Every view of show on a small made trace, as text and as JSON; filters; a cut trace; lost records.
make_trace=$TB_BUILD_DIR/tests/cli/make_trace
"$make_trace" a.twinbit
sum=$(cksum <a.twinbit)

expect 0 tb show a.twinbit
lines err 0
matches out '^state +complete$'
matches out '^job +python train.py --lr 0.1$'
matches out '^events +14$'
matches out '^threads +2$'
matches out '^lost +0$'
matches out '^coverage +7 not covered, 0 unseen writers, 0 notes$'
cp out summary
expect 0 tb show a.twinbit summary
cmp out summary

expect 0 tb show a.twinbit events
lines out 14
sed -E 's/^ *[0-9]+ [^ ]+ +//' out >names
diff -u - names <<'END' || fail "event names"
0/train.py/main/0/forward:model.fc/aten::addmm#0
0/train.py/main/0/forward:model.fc/aten::addmm#1
0/train.py/main/0/forward:model.act/aten::gelu#0
0/train.py/autograd#0/0/backward:model.fc/aten::mm#0
0/train.py/main/0/forward:/aten::_local_scalar_dense#0
0/train.py/main/0/forward:/parameters#0
0/train.py/main/0/forward:/step#0
0/train.py/main/1/forward:model.fc/aten::addmm#0
0/train.py/main/1/forward:model.fc/aten::addmm#1
0/train.py/main/1/forward:model.act/aten::gelu#0
0/train.py/autograd#0/1/backward:model.fc/aten::mm#0
0/train.py/main/1/forward:/aten::_local_scalar_dense#0
0/train.py/main/1/forward:/parameters#0
0/train.py/main/1/forward:/step#0
END
matches out '^ *[0-9]+ 3\.5 +.*/1/forward:/aten::_local_scalar_dense#0$'

expect 0 tb show a.twinbit events --step 1
lines out 7
lacks out /main/0/
expect 0 tb show --step 1.. a.twinbit events --op addmm
lines out 2
expect 0 tb show a.twinbit events --op aten::add
lines out 0
expect 0 tb show a.twinbit events --module model
lines out 8
expect 0 tb show a.twinbit events --module mod
lines out 0
expect 0 tb show a.twinbit events --thread 'autograd#0'
lines out 2
expect 0 tb show a.twinbit events --limit 3
lines out 3
expect 0 tb show a.twinbit events --step 9
lines out 0

expect 0 tb show a.twinbit tensors --op aten::addmm --step 0
lines out 6
matches out '^w [0-9a-f]{32} +f32 +\[4,8\] +3\+0 .*aten::addmm#0 out$'
matches out '^r - .*mat1$'

expect 0 tb show a.twinbit steps
lines out 2
matches out '^train.py step 0 +7 events  [0-9a-f]{32}$'
cp out steps
"$make_trace" b.twinbit
"$make_trace" c.twinbit differs
expect 0 tb show b.twinbit steps
cmp out steps
expect 0 tb show c.twinbit steps
head -n 1 steps | cmp - <(head -n 1 out)
[ "$(tail -n 1 steps)" != "$(tail -n 1 out)" ] || fail "the digest of a step that differs is the same"

expect 0 tb show a.twinbit coverage
lines out 1
matches out '^not covered +7x opaque tensor: aten::foo: sparse$'
expect 0 tb show a.twinbit env
contains out 'host=testhost'
expect 0 tb show a.twinbit processes
matches out '^  autograd#0 +2 events$'
contains out '(pid 4242): python train.py --lr 0.1'
expect 0 tb show a.twinbit sites
matches out '^[0-9a-f]{32} aten::addmm$'
contains out '  r f32 cpu [4,2] [1,4] mat1'

# JSON is JSON
need_python
for view in summary events steps tensors coverage env processes sites; do
    expect 0 tb show a.twinbit $view --json
    "$PYTHON" - "$view" <<'END' || fail "JSON of $view"
import json, sys
d = json.load(open("out"))
view = sys.argv[1]
assert d["view"] == view and d["trace"] == "a.twinbit", d
n = {"summary": 1, "events": 14, "steps": 2, "coverage": 1, "processes": 1}.get(view)
assert n is None or len(d["rows"]) == n, len(d["rows"])
assert d["rows"], view
if view == "events":
    e = d["rows"][8]
    assert e["name"].endswith("/1/forward:model.fc/aten::addmm#1") and e["module"] == "model.fc", e
    assert [a["mode"] for a in e["accesses"]] == ["r", "r", "w"], e
    assert e["accesses"][1]["strides"] == [1, 4] and e["accesses"][2]["shape"] == [4, 8], e
    assert d["rows"][4]["accesses"][1]["fp"] == "2.5", d["rows"][4]
if view == "env":
    assert {"key": "torch", "value": '2.15.0 "quoted"'} in d["rows"], d
if view == "summary":
    assert d["rows"][0]["events"] == 14 and d["rows"][0]["not_covered"] == 7, d
END
done
expect 0 tb show a.twinbit events --limit 2 --json
"$PYTHON" -c 'import json; assert len(json.load(open("out"))["rows"]) == 2'

# looking changes nothing
[ "$sum" = "$(cksum <a.twinbit)" ] || fail "the trace was changed"

# lost records are said
"$make_trace" lost.twinbit lost
expect 0 tb show lost.twinbit
matches out '^lost +3: ring full$'
expect 0 tb show lost.twinbit coverage
matches out '^lost +3x ring full$'

# a cut trace is shown as far as it goes, with a warning
"$make_trace" cut.twinbit cut || true
expect 0 tb show cut.twinbit
matches out '^state +incomplete$'
lines err 1
