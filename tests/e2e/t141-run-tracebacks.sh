# labels: torch
# Errors that pass modules, optimizers and loaders have the frames that they have without twinbit; behind an error in step() what
# runs is no part of the optimizer.
need_torch
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "Python 3.11 and later"

cat >job.py <<'PY'
import os
import traceback
import torch
from torch.utils.data import DataLoader, Dataset


class Inner(torch.nn.Module):
    def forward(self, x):
        raise ValueError("in forward")


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


class Dies(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        if i == 3:
            os._exit(3)
        return i


def closure():
    raise ValueError("in the closure")


def batches():
    for _ in DataLoader(Dies(), batch_size=2, num_workers=1):
        pass


if __name__ == "__main__":
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], 0.1)
    for what in (lambda: Outer()(torch.ones(2)), lambda: torch.nn.Linear(2, 3)(torch.ones(5)), lambda: optimizer.step(closure), batches):
        try:
            what()
        except Exception:
            print(traceback.format_exc(), flush=True)
    torch.cumsum(weight.detach(), 0)
PY
plain() { sed -E 's,\(pid[^)]*\)( [0-9]+)?,,g; s,0x[0-9a-f]+,,g' "$1"; }
"$PYTHON" job.py 2>/dev/null >out
plain out >want
contains want "in the closure"
contains want "exited unexpectedly"
for options in "--pin observe" "--pin strict" "--level boundary" "--attach python"; do
    "$TWINBIT" run --quiet --force -o t.twinbit $options -- "$PYTHON" job.py 2>/dev/null >out
    plain out >got
    diff want got || fail "$options: the tracebacks differ"
done
"$TWINBIT" run --quiet --force -o t.twinbit -- "$PYTHON" job.py >/dev/null 2>&1
expect 0 "$TWINBIT" show t.twinbit events --op cumsum
lacks out optimizer
