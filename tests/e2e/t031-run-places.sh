# run: where /dev/shm is small, read-only or absent nothing changes; torchrun's restarts are told apart.
# labels: torch
# timeout: 600
need_torch
cp "$TB_SOURCE_DIR/tests/cli/job.py" .
"$PYTHON" job.py >bare.stdout
expect 0 tb run -o usual.twinbit -- "$PYTHON" job.py

cat >restarts.py <<'END'
"""Two ranks under torchrun; rank 1 fails in the first attempt, after it has computed something."""
import os
import sys

import torch

torch.manual_seed(1)
x = torch.ones(4) * (1 + int(os.environ["RANK"]))
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and os.environ["RANK"] == "1":
    sys.exit(7)
print(x.sum().item())
END
expect 0 tb run -o restarts.twinbit -- "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node 2 \
    --max-restarts 1 --monitor-interval 0.2 restarts.py
expect 0 tb show restarts.twinbit processes --json
"$PYTHON" - out <<'END' || fail "ranks and restarts: $(cat out)"
import json, sys
rows = json.load(open(sys.argv[1]))["rows"]
seen = {(p["rank"], p["restart"]) for p in rows if any(t["events"] for t in p["threads"])}
assert {(0, 1), (1, 0), (1, 1)} <= seen, seen
END

# mounted PLACE-OF-SHM NAME - the job with another /dev/shm, seen by it alone
mounted() {
    expect 0 unshare --mount --propagation private sh -ec "$1"'; shift; exec "$@"' sh "$2" \
        "$TWINBIT" run -o "$2.twinbit" -- "$PYTHON" job.py
    cmp out bare.stdout || fail "$2: the job's output changed"
    contains err "nothing lost"
    expect 0 tb diff usual.twinbit "$2.twinbit"
}
unshare --mount --propagation private mount -t tmpfs -o size=64m none /dev/shm 2>/dev/null ||
    skip "no permission to mount another /dev/shm (torchrun's restarts passed)"
mounted 'mount -t tmpfs -o size=64m none /dev/shm' small
mounted 'mount -t tmpfs -o ro,size=4k none /dev/shm' readonly
mounted 'mkdir dev; mount --bind /dev dev 2>/dev/null; mount -t tmpfs none /dev
    for n in null zero urandom random full; do : >/dev/$n; mount --bind dev/$n /dev/$n; done
    [ ! -e /dev/shm ]' absent
