# labels: torch
# replay compares what was recorded: a job that prints another number in each run is told that this is not looked at
need_torch
cat >job.py <<'EOF'
import hashlib, time, torch
print(torch.ones(3).sum().item(), hashlib.sha256(str(time.time()).encode()).hexdigest())
EOF
expect 0 "$TWINBIT" run --force --quiet --pin observe -o a -- "$PYTHON" job.py
mv out first
expect 0 "$TWINBIT" replay --force --quiet -o b a
matches out "^replay: bit-exact: [0-9]+ events are equal, nothing was lost; what the job printed or wrote to files is not compared\$"
lacks out "$(cat first)"

# neither where nothing was recorded
expect 0 "$TWINBIT" run --force --quiet --pin observe -o a -- "$PYTHON" -c 'print(1)'
expect 0 "$TWINBIT" replay --force --quiet -o b a
matches out "^replay: unknown: .*; what the job printed or wrote to files is not compared\$"
