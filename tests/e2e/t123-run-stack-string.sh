# --stack: functions that have a file's name and a line in common ('python -c', and what a library makes of text, are all in
# "<string>") are named apart.
need_torch
cat >job.sh <<'END'
exec "$PYTHON" -c '
import torch; exec("\n\ndef text():\n    return torch.ones(2)\n\ntext()", {"torch": torch})
def f(): return torch.ones(3).mul(2)
f(); torch.ones(4).add(1)
'
END
export PYTHON
expect 0 "$TWINBIT" run --quiet --stack --force -o t.twinbit -- sh job.sh
"$TWINBIT" show --json t.twinbit events | grep -o '"stack": *"[^"]*"' >stacks
contains stacks '<string>:4 text"'
contains stacks '<string>:3 f"'
contains stacks '<string>:4 <module>"'
