# labels: torch
# processes that arrive in another order are numbered otherwise: what the trace has of each is compared with its mate's
need_torch
cat >job.py <<'EOF'
import os, subprocess, sys, torch
torch.manual_seed(1)
print(torch.rand(2).sum().item())
names = ["a", "b"]
for name in reversed(names) if os.path.exists("swap") else names:
    subprocess.run([sys.executable, name + ".py"], check=True)
EOF
cat >a.py <<'EOF'
import torch
torch.manual_seed(5)
print(torch.rand(3).sum().item())
EOF
sed 's/(5)/(6)/' a.py >b.py

expect 0 "$TWINBIT" run --force --quiet -o x -- "$PYTHON" job.py
touch swap
expect 0 "$TWINBIT" run --force --quiet -o y -- "$PYTHON" job.py
expect 0 "$TWINBIT" diff x y
lacks out "process\."
lacks out initial_seed

# a seed that differs is told, by the number in the first run
sed -i 's/(5)/(7)/' a.py
expect 0 "$TWINBIT" run --force --quiet -o z -- "$PYTHON" job.py
expect 1 "$TWINBIT" diff x z
matches out "differs +process\.[0-9]+\.torch\.initial_seed: 5 \| 7"
[ "$(grep -c 'initial_seed: [0-9]' out)" = "$(grep -c 'initial_seed: 5 | 7' out)" ] || fail "more than one seed: $(cat out)"
