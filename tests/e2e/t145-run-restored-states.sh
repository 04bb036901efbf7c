# a job that puts a state into a generator, as out of a checkpoint, wins over the pin, and is told with its line; a state
# that it got from the generator before, and what torch puts back by itself, is nothing to tell; --force-pins seeds anew
need_torch
cat >other.py <<'EOF'
import random, sys
import numpy as np
import torch
torch.set_rng_state(torch.Generator().manual_seed(int(sys.argv[1])).get_state())
random.setstate(random.Random(12).getstate())
np.random.set_state(np.random.RandomState(13).get_state())
print(random.random(), np.random.rand(), torch.rand(1).item())
EOF
cat >own.py <<'EOF'
import random
import numpy as np
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return torch.rand(1) + i


if __name__ == "__main__":
    with torch.random.fork_rng():
        torch.rand(1)
    state = random.getstate(), np.random.get_state(), np.random.get_state(legacy=False), torch.get_rng_state()
    print(random.random(), np.random.rand(), torch.rand(1).item())
    random.setstate(state[0])
    np.random.set_state(state[1])
    np.random.set_state(state[2])
    torch.set_rng_state(state[3])
    x = torch.ones(4, requires_grad=True)
    for way in (False, True):
        checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5), x, use_reentrant=way).sum().backward()
    print(sum(batch.sum().item() for batch in DataLoader(Data(), num_workers=2, shuffle=True)))
EOF
cat >method.py <<'EOF'
import torch
torch.default_generator.manual_seed(5)
print(torch.rand(1).item())
EOF

run() { # run JOB OPTIONS... - standard output in ./out, rows of pins in ./rows
    expect 0 "$TWINBIT" run --force --pin strict "${@:2}" -o t -- "$PYTHON" $1
    "$TWINBIT" show t pins >rows
}

run "other.py 11"
for pin in python.random:5 python.numpy_legacy:6 torch.seed:4; do
    matches err "pin ${pin%:*}: the job has a state that it restored at .*other\.py:${pin#*:}, which wins over [0-9]+$"
    matches rows "^job +${pin%:*} .*observed a state that it restored, at .*other\.py:${pin#*:} "
done
mv out first
expect 0 "$PYTHON" other.py 11
cmp -s out first || fail "the job did not win"
run "other.py 11" --force-pins
mv out first
run "other.py 14" --force-pins
cmp -s out first || fail "forced pins did not: $(cat first out)"
matches rows "^held +torch\.seed .*\(the job asked for a state that it restored\), at .*other\.py:4 "

for options in "" --force-pins; do
    # shellcheck disable=SC2086 # none or one
    run own.py $options
    lacks err "restored"
    for pin in python.random python.numpy_legacy torch.seed; do
        matches rows "^held +${pin/./\\.} "
        lacks rows "asked for"
    done
done

run method.py
contains err "pin torch.seed: the job has another seed, by a method of torch.default_generator, which wins over "
run method.py --force-pins
contains err "pin torch.seed: the job changed it from "

# the same of a flag: that torch only warns of operators that are not deterministic is less than the pin asks for
cat >warns.py <<'EOF'
import torch
torch.use_deterministic_algorithms(True, warn_only=True)
print(torch.is_deterministic_algorithms_warn_only_enabled())
EOF
run warns.py
contains out True
matches err "pin torch.deterministic: the job changed it from True to True, warn_only at .*warns\.py:2"
run warns.py --force-pins
contains out False
matches rows "^held +torch\.deterministic .*\(the job asked for True, warn_only\), at .*warns\.py:2 "
run warns.py --pin torch.warn_only=True
contains out True
lacks err "the job changed"
