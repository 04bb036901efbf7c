# labels: torch slow
# timeout: 1200
# bisect-pins of jobs of torch: what is recorded decides, and a pin that makes the job fail is named.
export TMPDIR=$PWD/tmp
mkdir tmp
bp() { "$TWINBIT" bisect-pins "$@"; }
# found PIN... - the report names exactly these, and the line to copy
found() {
    local list
    list=$(printf '%s,' "$@")
    matches out "^found: $# of [0-9]+ pins make"
    contains out "use: twinbit run --pin ${list%,} -- CMD"
}

# torch: what is recorded decides, not what is printed
need_torch
cat >job.py <<'END'
import os
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(4)).sum().backward()
optimizer.step()
print(os.getpid())
if torch.are_deterministic_algorithms_enabled():
    torch.zeros(4).put_(torch.tensor([0]), torch.tensor([1.0]))
END
expect 0 bp --pin torch.seed --rounds 0 -- "$PYTHON" job.py
found torch.seed
contains out "compared by what was recorded, and status"
contains out "aten::"
# an operator without a deterministic way: it is named, and torch.warn_only is taken
expect 0 bp --max-runs 12 --rounds 0 -- "$PYTHON" job.py
contains out "pin torch.deterministic makes the job fail (status 1: 'RuntimeError: put_ does not have a deterministic"
contains out "): torch.warn_only is taken instead"
[ -z "$(ls -d tmp/twinbit* tmp/.twinbit* 2>/dev/null)" ] || fail "left in TMPDIR: $(ls -A tmp)"
