# labels: torch
# timeout: 900
# The command behind "next" is pasted into a shell as it stands, and tells what the report lacked.
need_torch
unset NAME_OF SCALE
mkdir "it's a job" && cd "it's a job"
cat >"the job.py" <<'EOF'
import os, sys
import torch
torch.manual_seed(0)
scale = float(os.environ.get("SCALE", "0.5"))
model = torch.nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    x = torch.rand(4, 8)
    if "fresh" in sys.argv:
        x = x + torch.empty(4, 8).nan_to_num(0).clamp(-1, 1)
    loss = (model(x) * scale).sum() + len(sys.argv[1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
EOF

tb() { "$TWINBIT" run --quiet --force "$@"; }
# hint - the command of ./out, ./hint
hint() {
    sed -n 's/^ *next  *//p' out >hint
    [ -s hint ] || fail "nothing is proposed: $(cat out)"
}
# paste_it - in a shell of its own; $status
paste_it() {
    hint
    status=0
    bash -c "$(cat hint)" >pasted 2>pasted.err || status=$?
    lacks pasted.err "unknown option"
    lacks pasted.err "syntax error"
    lacks pasted.err "exists"
}

# the environment differs, and the value is the host's: both come again, with the bytes
SCALE=0.5 tb -o a.twinbit -- "$PYTHON" "the job.py"
SCALE="0.25" tb -o b.twinbit -- "$PYTHON" "the job.py"
expect 1 "$TWINBIT" diff a.twinbit b.twinbit
contains out "cause       host value"
paste_it
[ "$status" -eq 1 ] || fail "pasted: status $status: $(cat pasted pasted.err)"
contains pasted "cause       host value"
contains pasted "elements    "
[ -e next-a.twinbit ] && [ -e next-b.twinbit ] || fail "the traces are not there"
expect 1 "$TWINBIT" diff a.twinbit b.twinbit # what came of it stays
contains out "next-2-a.twinbit"

# a job that differs by itself: from step ends to operators by bisect, but not with pins
cat >odd.py <<'EOF'
import os
import torch
x = torch.full((4, 8), float(os.getpid()))
torch.manual_seed(0)
model = torch.nn.Linear(8, 8)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    model(x).sum().backward()
    opt.step()
EOF
for pin in "" "--pin basic"; do
    # shellcheck disable=SC2086
    expect 1 tb -n 2 $pin -o o.twinbit --level boundary -- "$PYTHON" odd.py
    [ -n "$pin" ] || contains out "twinbit bisect -- "
    paste_it
    [ "$status" -eq 1 ] || fail "pasted: status $status: $(cat pasted pasted.err)"
    matches pasted "event  .*aten::"
done

# memory that nobody wrote: its bytes are there each time
expect 1 tb --poison 1,2 -o p.twinbit -- "$PYTHON" "the job.py" fresh
contains out "cause       uninitialised memory"
for i in 1 2; do
    hint
    contains hint "--poison 0x01,0x02"
    paste_it
    [ "$status" -eq 1 ] || fail "pasted: status $status: $(cat pasted pasted.err)"
    contains pasted "elements    "
    cp pasted out
done
