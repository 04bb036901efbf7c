# labels: torch
# timeout: 300
# What the job's own mistakes print is what they print without twinbit: no frame of ours is in it.
need_torch
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip "Python 3.11 and later"

cat >job.py <<'END_OF_JOB'
import random, sys, traceback
import numpy as np
import torch
from torch.utils.data import DataLoader


class Broken:
    def __len__(self):
        return 2

    def __iter__(self):
        raise ValueError("broken")


for wrong in (lambda: random.seed([]), lambda: random.Random([]), lambda: random.Random(1).seed({}),
              lambda: torch.manual_seed("x"), lambda: torch.Generator().manual_seed("x"),
              lambda: torch.use_deterministic_algorithms("x"), lambda: torch.set_num_threads(-1),
              lambda: torch.set_flush_denormal([]), lambda: torch.backends.cudnn.__setattr__("benchmark", "x"),
              lambda: next(iter(DataLoader([1, 2], batch_sampler=Broken()))),
              lambda: np.random.seed(-1), lambda: np.random.default_rng("x"), lambda: np.random.RandomState(-1)):
    try:
        wrong()
    except BaseException:
        traceback.print_exc()
sys.stderr.flush()
torch.manual_seed("the last")
END_OF_JOB
cat >cannot.py <<'END_OF_JOB'
import torch
END_OF_JOB
expect 1 "$PYTHON" job.py
# torch's settings may load Dynamo, which puts functions of its own before torch.manual_seed()
without_dynamo() { sed -e '/torch\/_compile\.py"/,+2d' -e '/_dynamo\/eval_frame\.py"/,+2d' err; }
without_dynamo >plain
for pins in "--pin observe" "--pin strict" "--pin strict --force-pins"; do
    # shellcheck disable=SC2086
    expect 1 "$TWINBIT" run --quiet --force -o t.twinbit $pins -- "$PYTHON" job.py
    lacks err _pins.py
    [ "$pins" != "--pin strict --force-pins" ] || continue # settings of the job's are not taken: no errors
    without_dynamo >seen
    diff plain seen || fail "$pins: the tracebacks differ"
done

# a package that cannot be imported
mkdir -p other/torch
echo 'raise RuntimeError("not here")' >other/torch/__init__.py
for text in 'raise RuntimeError("not here")' 'import absent_module'; do
    echo "$text" >other/torch/__init__.py
    PYTHONPATH=other expect 1 "$PYTHON" cannot.py
    cp err plain
    PYTHONPATH=other expect 1 "$TWINBIT" run --quiet --force -o t.twinbit --pin strict -- "$PYTHON" cannot.py
    diff plain err || fail "$text: the tracebacks differ"
done
